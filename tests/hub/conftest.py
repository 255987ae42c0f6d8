"""A hub on each kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.home import Home
from holdfast.store.location import Location
from tests.hub.running_hub import RunningHub, running, started
from tests.support.terminal import Terminal


@pytest.fixture
def hub(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    """A hub on SQLite."""
    with running(home, str(tmp_path / "work")) as found:
        yield found


@pytest.fixture
def any_hub(home: Home, tmp_path: Path, location: Location) -> Iterator[RunningHub]:
    """A hub on each kind of store."""
    terminal = Terminal(home, str(tmp_path))
    if location.kind == "postgres":
        terminal.env["HOLDFAST_STORE"] = location.address
    with started(terminal) as found:
        yield found
