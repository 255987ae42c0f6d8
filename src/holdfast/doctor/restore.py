"""Restores files to their bytes before a repair, from the backups of the repair.

A database with a `-wal` is several files, and a crash can happen between any two. So the first file to be
restored is a copy that has all old rows in one file, then the files beside it, then the old file itself: a
program that opens the database in between sees the old rows.
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


def why_not(operation: OperationDir, item: TouchedFile) -> str | None:
    """Why an item cannot be restored; None if it can, because its files are as the repair left them."""
    assert item.after is not None
    resumed = operation.undoing()
    if item.kind == "file":
        now = digest_file(item.path)
        matches = same_content(now, item.after[""]) or (resumed and same_content(now, item.before[""]))
        return None if matches else f"{item.path} changed since the repair"
    now, wal = digest_file(item.path), digest_file(item.path + "-wal")
    whole = digest_file(_whole_path(operation, item)) if resumed else None
    if resumed and now is not None and (same_content(now, item.before[""]) or same_content(now, whole)):
        matches = wal is None or wal.size == 0 or same_content(wal, item.before.get("-wal"))
    else:
        matches = same_content(now, item.after[""]) and (wal is None or wal.size == 0)
    return None if matches else f"{item.path} changed since the repair"


def restore_item(operation: OperationDir, number: int, item: TouchedFile) -> None:
    """Restore the files of an item, and remove what an interrupted run left beside them."""
    for ending in item.before:
        files.remove_if_present(files.temp_path(item.path + ending, operation.id))
    if item.kind == "database":
        restore_database(operation, number, item)
        return
    now, before = digest_file(item.path), item.before[""]
    if same_content(now, before):
        return
    if before is None:
        assert now is not None
        files.remove_file(item.path, now)
        return
    files.replace_file(
        operation.old(number), item.path, now, before, files.temp_path(item.path, operation.id)
    )


def restore_database(operation: OperationDir, number: int, item: TouchedFile) -> None:
    """Restore a database and the files beside it; it has the old rows at every moment."""
    before = {ending: item.before.get(ending) for ending in ENDINGS}
    if any(_size(before[ending]) for ending in ("-wal", "-journal")):
        whole = _whole_path(operation, item)
        # A damaged database cannot be copied whole; nobody could read it in between anyway.
        with suppress(errors.StoreUnreadable):
            if not os.path.exists(whole):
                _make_whole(operation, number, item, whole)
            _put(operation, whole, item.path, before[""], digest_file(whole))
    for ending in ENDINGS[1:]:
        if before[ending] is None:
            with durable_io.reported(item.path):
                files.remove_if_present(item.path + ending)
        else:
            _put(operation, operation.old(number, ending), item.path + ending, before[ending], before[ending])
    _put(operation, operation.old(number), item.path, before[""], before[""])


@contextmanager
def database_copy(operation: OperationDir, number: int, item: TouchedFile) -> Iterator[str]:
    """A copy of a database as it was before, which may be opened and changed."""
    path = durable_io.temp_name(os.path.join(operation.folder, "copy"))
    try:
        for ending in ("", "-wal", "-journal"):
            if item.before.get(ending) is not None:
                files.back_up(operation.old(number, ending), path + ending)
        yield path
    finally:
        for ending in ENDINGS:
            files.remove_if_present(path + ending)


def _put(
    operation: OperationDir, kept: str, path: str, was: FileDigest | None, wanted: FileDigest | None
) -> None:
    assert was is not None and wanted is not None
    now = digest_file(path)
    if now is not None and now.same(wanted):
        with suppress(OSError):
            os.utime(path, ns=(was.mtime_ns, was.mtime_ns))
        return
    wanted = FileDigest(wanted.sha256, wanted.size, was.mode, was.mtime_ns)
    files.replace_file(kept, path, now, wanted, files.temp_path(path, operation.id))


def _whole_path(operation: OperationDir, item: TouchedFile) -> str:
    return os.path.join(operation.folder, "whole-" + os.path.basename(item.path))


def _make_whole(operation: OperationDir, number: int, item: TouchedFile, path: str) -> None:
    with database_copy(operation, number, item) as copy:
        sqlite_rows.checkpoint(copy)
        fd = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(copy, path)
        durable_io.DISK.sync_dir(operation.folder)


def _size(digest: FileDigest | None) -> int:
    return 0 if digest is None else digest.size
