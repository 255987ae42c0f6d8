"""A lack of file descriptors is a passing problem; a database that cannot be opened is not."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from holdfast import errors
from holdfast.store.sqlite.connection import translated


@contextmanager
def no_more_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < highest:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(highest, *taken) + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in taken:
            os.close(fd)


def read(path: str) -> None:
    with translated(path):
        apsw.Connection(path).execute("select * from sqlite_schema").fetchall()


def test_a_lack_of_descriptors_passes(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    apsw.Connection(path).execute("create table t (x)")
    with no_more_files(), pytest.raises(errors.StoreBusy, match="just now"):
        read(path)
    read(path)


def test_a_folder_in_its_place_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.mkdir()
    with pytest.raises(errors.StoreUnreadable, match="cannot be opened: "):
        read(str(path))
