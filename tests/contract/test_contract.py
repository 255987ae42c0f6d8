"""Both stores answer every call of `Store`, with the same parameters."""

from __future__ import annotations

import inspect

import pytest

from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.store import Store

CALLS = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [SqliteStore, PostgresStore])
def test_every_call_of_a_store_is_there_with_the_same_parameters(kind: type[Store]) -> None:
    assert len(CALLS) > 40
    assert not inspect.isabstract(kind)
    for name in CALLS:
        kept = inspect.signature(getattr(kind, name)).parameters
        assert list(kept) == list(inspect.signature(getattr(Store, name)).parameters), name


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_a_store_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(Store, name))
