"""The stores keep the whole contract, call for call."""

from __future__ import annotations

import inspect

import pytest

from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import BaseStore
from holdfast.store.types import Store


def as_store(store: BaseStore) -> Store:
    """The type checker proves that every call has the promised shape."""
    return store


@pytest.mark.parametrize("kind", [SqliteStore, PostgresStore])
def test_every_call_of_the_contract_is_there_with_the_same_parameters(kind: type[BaseStore]) -> None:
    promised = {name: call for name, call in vars(Store).items() if not name.startswith("_")}
    assert len(promised) > 25
    for name, call in promised.items():
        kept = inspect.signature(getattr(kind, name)).parameters
        assert list(kept) == list(inspect.signature(call).parameters), name
