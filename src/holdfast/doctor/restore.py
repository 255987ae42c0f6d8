"""Giving files back as they were, byte for byte, from a case's copies.

A database with a `-wal` is several files, and a crash may come between any two. So first a copy that holds
all of the old content in one file is put in place, then what belongs beside it, then the old file itself:
whoever opens the database in between sees the old rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import durable_io, errors
from holdfast.doctor import files, sqlite_rows
from holdfast.doctor.files import FileDigest, digest_file, same_content
from holdfast.doctor.receipts import OperationDir, TouchedFile
from holdfast.process.open_files import ENDINGS


def why_not(case: OperationDir, item: TouchedFile) -> str | None:
    """Why the item cannot be given back; None if it can: its files are as we left them."""
    assert item.after is not None
    half = case.undoing()
    if item.kind == "file":
        now = digest_file(item.path)
        fits = same_content(now, item.after[""]) or (half and same_content(now, item.before[""]))
        return None if fits else f"{item.path} has changed since"
    now, wal = digest_file(item.path), digest_file(item.path + "-wal")
    whole = digest_file(_whole(case, item)) if half else None
    if half and now is not None and (same_content(now, item.before[""]) or same_content(now, whole)):
        fits = wal is None or wal.size == 0 or same_content(wal, item.before.get("-wal"))
    else:
        fits = same_content(now, item.after[""]) and (wal is None or wal.size == 0)
    return None if fits else f"{item.path} has changed since"


def restore_item(case: OperationDir, number: int, item: TouchedFile) -> None:
    """The item's files as they were before; also what a run that was cut short left beside them goes."""
    for ending in item.before:
        files.remove_if_present(files.temp_path(item.path + ending, case.id))
    if item.kind == "database":
        restore_database(case, number, item)
        return
    now, before = digest_file(item.path), item.before[""]
    if same_content(now, before):
        return
    if before is None:
        assert now is not None
        files.remove_file(item.path, now)
        return
    files.replace_file(case.old(number), item.path, now, before, files.temp_path(item.path, case.id))


def restore_database(case: OperationDir, number: int, item: TouchedFile) -> None:
    """The database and what belongs to it, old rows at every moment."""
    before = {ending: item.before.get(ending) for ending in ENDINGS}
    if any(_size(before[ending]) for ending in ("-wal", "-journal")):
        whole = _whole(case, item)
        # One that was damaged cannot be made whole; nobody could read it in between anyway.
        with suppress(errors.StoreUnreadable):
            if not os.path.exists(whole):
                _make_whole(case, number, item, whole)
            _put(case, whole, item.path, before[""], digest_file(whole))
    for ending in ENDINGS[1:]:
        if before[ending] is None:
            with durable_io.reported(item.path):
                files.remove_if_present(item.path + ending)
        else:
            _put(case, case.old(number, ending), item.path + ending, before[ending], before[ending])
    _put(case, case.old(number), item.path, before[""], before[""])


@contextmanager
def database_copy(case: OperationDir, number: int, item: TouchedFile) -> Iterator[str]:
    """A database as it was before, in a place where it may be opened and changed."""
    path = durable_io.temp_name(os.path.join(case.folder, "copy"))
    try:
        for ending in ("", "-wal", "-journal"):
            if item.before.get(ending) is not None:
                files.back_up(case.old(number, ending), path + ending)
        yield path
    finally:
        for ending in ENDINGS:
            files.remove_if_present(path + ending)


def _put(case: OperationDir, kept: str, path: str, was: FileDigest | None, wanted: FileDigest | None) -> None:
    assert was is not None and wanted is not None
    now = digest_file(path)
    if now is not None and now.same(wanted):
        with suppress(OSError):
            os.utime(path, ns=(was.mtime_ns, was.mtime_ns))
        return
    wanted = FileDigest(wanted.sha256, wanted.size, was.mode, was.mtime_ns)
    files.replace_file(kept, path, now, wanted, files.temp_path(path, case.id))


def _whole(case: OperationDir, item: TouchedFile) -> str:
    return os.path.join(case.folder, "whole-" + os.path.basename(item.path))


def _make_whole(case: OperationDir, number: int, item: TouchedFile, path: str) -> None:
    with database_copy(case, number, item) as copy:
        sqlite_rows.checkpoint(copy)
        fd = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(copy, path)
        durable_io.DISK.sync_dir(case.folder)


def _size(what: FileDigest | None) -> int:
    return 0 if what is None else what.size
