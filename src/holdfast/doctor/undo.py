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
from holdfast.doctor.files import Mark, mark, same
from holdfast.doctor.receipts import Case, Item
from holdfast.process.open_files import ENDINGS


def allowed(case: Case, item: Item) -> str | None:
    """Why the item cannot be given back; None if it can: its files are as we left them."""
    assert item.after is not None
    half = case.undoing()
    if item.kind == "file":
        now = mark(item.path)
        fits = same(now, item.after[""]) or (half and same(now, item.before[""]))
        return None if fits else f"{item.path} has changed since"
    now, wal = mark(item.path), mark(item.path + "-wal")
    whole = mark(_whole(case, item)) if half else None
    if half and now is not None and (same(now, item.before[""]) or same(now, whole)):
        fits = wal is None or wal.size == 0 or same(wal, item.before.get("-wal"))
    else:
        fits = same(now, item.after[""]) and (wal is None or wal.size == 0)
    return None if fits else f"{item.path} has changed since"


def give_back(case: Case, number: int, item: Item) -> None:
    """The item's files as they were before; also what a run that was cut short left beside them goes."""
    for ending in item.before:
        files.drop(files.temp_of(item.path + ending, case.id))
    if item.kind == "database":
        give_back_database(case, number, item)
        return
    now, before = mark(item.path), item.before[""]
    if same(now, before):
        return
    if before is None:
        assert now is not None
        files.remove(item.path, now)
        return
    files.put(case.old(number), item.path, now, before, files.temp_of(item.path, case.id))


def give_back_database(case: Case, number: int, item: Item) -> None:
    """The database and what belongs to it, old rows at every moment."""
    before = {ending: item.before.get(ending) for ending in ENDINGS}
    if any(_size(before[ending]) for ending in ("-wal", "-journal")):
        whole = _whole(case, item)
        # One that was damaged cannot be made whole; nobody could read it in between anyway.
        with suppress(errors.StoreUnreadable):
            if not os.path.exists(whole):
                _make_whole(case, number, item, whole)
            _put(case, whole, item.path, before[""], mark(whole))
    for ending in ENDINGS[1:]:
        if before[ending] is None:
            with durable_io.reported(item.path):
                files.drop(item.path + ending)
        else:
            _put(case, case.old(number, ending), item.path + ending, before[ending], before[ending])
    _put(case, case.old(number), item.path, before[""], before[""])


@contextmanager
def copy_of(case: Case, number: int, item: Item) -> Iterator[str]:
    """A database as it was before, in a place where it may be opened and changed."""
    path = durable_io.temp_name(os.path.join(case.folder, "copy"))
    try:
        for ending in ("", "-wal", "-journal"):
            if item.before.get(ending) is not None:
                files.keep(case.old(number, ending), path + ending)
        yield path
    finally:
        for ending in ENDINGS:
            files.drop(path + ending)


def _put(case: Case, kept: str, path: str, was: Mark | None, wanted: Mark | None) -> None:
    assert was is not None and wanted is not None
    now = mark(path)
    if now is not None and now.same(wanted):
        with suppress(OSError):
            os.utime(path, ns=(was.mtime_ns, was.mtime_ns))
        return
    wanted = Mark(wanted.sha256, wanted.size, was.mode, was.mtime_ns)
    files.put(kept, path, now, wanted, files.temp_of(path, case.id))


def _whole(case: Case, item: Item) -> str:
    return os.path.join(case.folder, "whole-" + os.path.basename(item.path))


def _make_whole(case: Case, number: int, item: Item, path: str) -> None:
    with copy_of(case, number, item) as copy:
        sqlite_rows.tidy(copy)
        fd = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(copy, path)
        durable_io.DISK.sync_dir(case.folder)


def _size(what: Mark | None) -> int:
    return 0 if what is None else what.size
