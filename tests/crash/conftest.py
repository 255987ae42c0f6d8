"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.small_disk import SmallDisk, mounted


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors follow, are sealed and are tried again at once."""
    from holdfast.store.mirror import thread, writer

    monkeypatch.setattr(thread, "LAG_S", 0.001)
    monkeypatch.setattr(thread, "RETRY_S", 0.01)
    monkeypatch.setattr(writer, "IDLE_S", 0.02)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 3 MB with a home on it."""
    with mounted(str(tmp_path / "disk")) as disk:
        disk.home.make()
        yield disk
