"""How do the records of a mirror file get back into the database?"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from holdfast import errors
from holdfast.home import Home
from holdfast.model.event import Record
from holdfast.recovery import mirror_reader
from holdfast.recovery.findings import signature
from holdfast.recovery.merge import with_creation
from holdfast.recovery.restore import add_records
from holdfast.store.store import Store

CHUNK = 2000  # records added in one transaction


class RepairOptions(NamedTuple):
    """What a repair is allowed to do."""

    archive_on_conflict: bool = True  # archive a session whose key another live one has; else KeyTaken
    salvaging: bool = False  # a damaged database is read next: postpone what has a damaged mirror


class Postponed(Exception):
    """The damaged database may have better records, and is read before this repair."""


class ImportedRecords(NamedTuple):
    """What a mirror added to the database."""

    records: int = 0  # without placeholders
    lost: tuple[int, ...] = ()  # records with placeholders
    damaged: bool = False  # whether the file is damaged


async def import_mirrors(
    store: Store, home: Home, session: str, options: RepairOptions, proven: bool = False
) -> ImportedRecords:
    """Add what only the files of a deleted session have, in the trash or in `sessions/`."""
    total = ImportedRecords()
    for path in (home.trashed(session), home.mirror(session)):
        if signature(path) is not None:
            with suppress(errors.IllegalChange, OSError):  # of another history, or unreadable: not touched
                one = await import_mirror(store, session, path, options, proven)
                damaged = total.damaged or one.damaged
                total = ImportedRecords(total.records + one.records, (*total.lost, *one.lost), damaged)
    return total


async def import_mirror(
    store: Store, session: str, path: str, options: RepairOptions, proven: bool = False
) -> ImportedRecords:
    """Add the records of a mirror to the database.

    `proven`: only records that a checksum proves, or that are before such a record.
    """
    count, damaged, enough = 0, False, CHUNK
    waiting: list[Record] = []
    lost: list[int] = []
    for segment in mirror_reader.read(session, path):
        damaged = damaged or segment.damage is not None
        if damaged and options.salvaging:
            raise Postponed
        if proven and not segment.proven_count:
            break
        waiting += segment.records
        lost += segment.lost
        if len(waiting) >= enough:
            try:
                count += await add_records(store, session, with_creation(waiting), archive_on_conflict=False)
                waiting, enough = [], CHUNK
            except errors.KeyTaken:  # a later record may release the key
                enough *= 2
    if waiting:
        count += await add_records(
            store, session, with_creation(waiting), archive_on_conflict=options.archive_on_conflict
        )
    head = (await store.session(session)).events if lost else 0
    lost = sorted(seq for seq in lost if seq > head - count)  # the database had the others
    return ImportedRecords(count - len(lost), tuple(lost), damaged)
