"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.small_disk import SmallDisk, mounted


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors follow, are sealed and are tried again at once."""
    from holdfast.store.mirror import keeper
    from holdfast.store.sqlite import mirror

    monkeypatch.setattr(mirror, "LAG_S", 0.001)
    monkeypatch.setattr(mirror, "RETRY_S", 0.01)
    monkeypatch.setattr(mirror, "QUIET_S", 0.02)
    monkeypatch.setattr(keeper, "QUIET_S", 0.02)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 3 MB with a home on it."""
    with mounted(str(tmp_path / "disk")) as disk:
        disk.home.make()
        yield disk
