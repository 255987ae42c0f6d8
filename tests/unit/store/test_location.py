"""Which store a URL means."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from holdfast.errors import BadInput
from holdfast.home import Home
from holdfast.store.location import Location, locate

HOME = Home("/somewhere")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, Location("sqlite", "/somewhere/state.db")),
        ("", Location("sqlite", "/somewhere/state.db")),
        ("sqlite:///a/b.db", Location("sqlite", "/a/b.db")),
        ("sqlite:/a/b.db", Location("sqlite", "/a/b.db")),
        ("postgresql://u@h/d", Location("postgres", "postgresql://u@h/d")),
        ("postgres://h/d", Location("postgres", "postgres://h/d")),
    ],
)
def test_a_url_names_a_store(url: str | None, expected: Location) -> None:
    assert locate(HOME, url) == expected


@pytest.mark.parametrize("url", ["mysql://x", "state.db", "sqlite:", "sqlite://", "://", "postgresql"])
def test_anything_else_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        locate(HOME, url)
    assert "postgresql://" in refused.value.hint


def test_the_environment_is_asked_when_no_url_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///e.db")
    assert locate(HOME) == Location("sqlite", "/e.db")
    assert locate(HOME, "sqlite:///f.db") == Location("sqlite", "/f.db")


def test_a_missing_driver_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without_driver(name: str, *more: Any) -> Any:
        return None if name.startswith("psycopg") else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without_driver)
    with pytest.raises(BadInput) as refused:
        locate(HOME, "postgresql://h/d")
    assert "holdfast-hub[postgres]" in refused.value.hint
