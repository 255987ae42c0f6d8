"""How the doctor puts files in place: never over a file that somebody else has just made or changed."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.doctor import files

OURS, THEIRS = b"what the doctor made", b"what its owner has just written"


def staged(tmp_path: Path, data: bytes = OURS, name: str = "staged") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def folder(tmp_path: Path) -> Path:
    path = tmp_path / "install"
    path.mkdir()
    return path


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    path = folder(tmp_path) / "session.json"
    files.replace_file(staged(tmp_path), str(path), None, files.digest_bytes(OURS, 0o640), f"{path}.tmp")
    assert path.read_bytes() == OURS and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["session.json"]


def test_a_file_that_came_into_being_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = folder(tmp_path) / "session.json"
    path.write_bytes(THEIRS)
    before = path.stat()
    with pytest.raises(errors.PlanChanged):
        files.replace_file(staged(tmp_path), str(path), None, files.digest_bytes(OURS), f"{path}.tmp")
    assert path.read_bytes() == THEIRS
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(path.parent) == ["session.json"], "no temporary file stays"


def test_of_many_that_create_one_file_at_once_one_wins(tmp_path: Path) -> None:
    """The check and the creation are one system call: looking first would let a second one through."""
    install = folder(tmp_path)
    writers = 8
    for attempt in range(20):
        path = install / f"session-{attempt}.json"
        start = threading.Barrier(writers)

        def create(number: int, path: Path = path, start: threading.Barrier = start) -> bytes | None:
            data = f"writer {number}".encode()
            kept = staged(tmp_path, data, f"{path.name}-{number}")
            start.wait()
            try:
                files.replace_file(kept, str(path), None, files.digest_bytes(data), f"{path}.{number}.tmp")
            except errors.PlanChanged:
                return None
            return data

        with ThreadPoolExecutor(writers) as pool:
            created = [data for data in pool.map(create, range(writers)) if data is not None]
        assert created == [path.read_bytes()]


def test_a_changed_file_is_not_replaced(tmp_path: Path) -> None:
    path = folder(tmp_path) / "session.json"
    path.write_bytes(b"old")
    expected = files.digest_file(str(path))
    path.write_bytes(THEIRS)
    with pytest.raises(errors.PlanChanged):
        files.replace_file(staged(tmp_path), str(path), expected, files.digest_bytes(OURS), f"{path}.tmp")
    assert path.read_bytes() == THEIRS and os.listdir(path.parent) == ["session.json"]
