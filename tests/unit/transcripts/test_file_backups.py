"""Copies of transcripts: only what is new, nothing lost, put back as it was."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.transcripts import file_backups
from holdfast.transcripts.file_backups import FileBackups


def write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_growth_is_appended_and_a_cut_keeps_both(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "a" / "x.jsonl"), str(tmp_path / "native")
    write(original, b"one\n")
    assert FileBackups(folder).update([original]) == 4
    assert FileBackups(folder).update([original]) == 0
    write(original, b"one\ntwo\n")
    assert FileBackups(folder).update([original]) == 4
    write(original, b"one\n")
    (found,) = FileBackups(folder).changes()
    assert found[1] == "shrunk"
    FileBackups(folder).update([original])
    write(original, b"other\n")
    assert FileBackups(folder).changes()[0][1] == "rewritten"
    FileBackups(folder).update([original])
    held = {read(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("x")}
    assert held == {b"one\ntwo\n", b"one\n", b"other\n"}


def test_level_is_told_only_of_what_was_level(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "x.jsonl"), str(tmp_path / "native")
    write(original, b"one\n")
    FileBackups(folder).update([original])
    assert not FileBackups(folder).is_level([original])
    FileBackups(folder).update([original], level=True)
    assert FileBackups(folder).is_level([original])
    assert not FileBackups(folder).is_level([])
    write(original, b"one\ntwo\n")
    assert not FileBackups(folder).is_level([original])


def test_two_files_of_one_name_and_one_that_went(tmp_path: Path) -> None:
    one, two = str(tmp_path / "a" / "x"), str(tmp_path / "b" / "x")
    write(one, b"1")
    write(two, b"2")
    folder = str(tmp_path / "native")
    assert FileBackups(folder).update([one, two, str(tmp_path / "gone")]) == 2
    assert {known.original: read(known.copy) for known in FileBackups(folder).known()} == {
        one: b"1",
        two: b"2",
    }
    os.unlink(one)
    assert [change for _, change in FileBackups(folder).changes()] == ["missing", "same"]


def test_a_copy_is_put_back_and_what_it_replaces_is_kept(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "a" / "x.jsonl"), str(tmp_path / "native")
    write(original, b"one\ntwo\n")
    FileBackups(folder).update([original])
    (known,) = FileBackups(folder).known()
    write(original, b"one\n")
    kept = file_backups.restore(known, "2026-01-01T00:00:00.000000Z")
    assert kept is not None and read(kept) == b"one\n" and read(original) == b"one\ntwo\n"
    os.unlink(original)
    assert file_backups.restore(known, "2026-01-02T00:00:00.000000Z") is None
    assert read(original) == b"one\ntwo\n"


def test_a_torn_note_of_places_loses_no_copy(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "x"), str(tmp_path / "native")
    write(original, b"one")
    FileBackups(folder).update([original])
    write(os.path.join(folder, "places.json"), b'{"torn')
    write(original, b"two")
    FileBackups(folder).update([original])
    held = {read(os.path.join(folder, name)) for name in os.listdir(folder)}
    assert {b"one", b"two"} <= held


@settings(max_examples=40, deadline=None)
@given(states=st.lists(st.binary(max_size=8), min_size=1, max_size=6))
def test_whatever_a_file_becomes_every_state_that_was_seen_is_in_some_copy(states: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original, native = os.path.join(folder, "x"), os.path.join(folder, "native")
        for state in states:
            write(original, state)
            FileBackups(native).update([original])
        held = [read(os.path.join(native, n)) for n in os.listdir(native) if n.startswith("x")]
        assert all(any(copy.startswith(state) for copy in held) for state in states)


def test_copies_are_for_their_user_alone(tmp_path: Path) -> None:
    """Whatever the user's umask is: a transcript holds what was said."""
    original, folder = str(tmp_path / "a" / "x.jsonl"), str(tmp_path / "native")
    write(original, b"one\n")
    os.chmod(original, 0o644)
    before = os.umask(0o022)
    try:
        FileBackups(folder).update([original])
        write(original, b"other\n")
        FileBackups(folder).update([original])
    finally:
        os.umask(before)
    names = os.listdir(folder)
    assert len(names) == 3
    assert {os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in names} == {0o600}
