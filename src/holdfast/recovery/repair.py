"""What is done about each finding. Nothing is overwritten: what is replaced goes into quarantine."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast import durable_io, errors, timestamps
from holdfast.home import Home
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.event import Record
from holdfast.model.json_codec import encode
from holdfast.model.session import Deletion
from holdfast.model.task import ACTIVE
from holdfast.recovery import mirror_reader
from holdfast.recovery.damaged_records import DamagedRecord, damaged_records, raw_bytes, replacements
from holdfast.recovery.examine import Contrast, Head, compare_trashed, contrast, look_closer
from holdfast.recovery.findings import Done, Finding, signature
from holdfast.recovery.merge import counted, lost_in_words, ranges, with_beginning
from holdfast.recovery.restore import adopt, put_right, refold
from holdfast.recovery.survey import Sight
from holdfast.store.backend import OperationResult
from holdfast.store.mirror import format
from holdfast.store.mirror.compare import compare, pages
from holdfast.store.mirror.files import MirrorFiles, remove_tombstone, write_tombstone
from holdfast.store.sql import Sql
from holdfast.store.store import Store

BY = "holdfast heal"


async def finish_deletion(
    store: Store, home: Home, session: str, known: dict[str, str] | None = None
) -> list[str]:
    """Make the log, the tombstone and the files agree that a session is deleted.

    Returns the files that were moved to quarantine.
    """
    header = await store.session(session)
    if header.state != "deleted":
        known = known or {}
        change = c.Delete(
            id=known.get("id", os.urandom(8).hex()),
            by=known.get("by", BY),
            reason=known.get("reason", "its files lay in the trash"),
        )
        await store.commit(Commit(session, [change]))
        header = await store.session(session)
    deletion = header.deletion
    assert deletion is not None
    # Before the move: a kill in between leaves a mirror in sessions/, which the next start notices.
    # Only a deep comparison reads a mirror that is in the trash.
    kept = [] if signature(home.trashed(session)) else await _repair_mirror(store, home, session)
    await store.with_mirrors(lambda files: _entomb(files, session, deletion))
    return kept


async def _repair_mirror(store: Store, home: Home, session: str, *, trashed: bool = False) -> list[str]:
    """Make the mirror of a deleted session equal its log. Returns the files moved to quarantine."""
    path = home.trashed(session) if trashed else home.mirror(session)
    if signature(path) is None:
        return []
    if not trashed:
        await touch(store, session)
        await store.with_mirrors(lambda files: None)  # the mirror thread appends what is missing
    finding = await store.query(lambda sql: _find_mismatch(sql, session, path, trashed))
    if finding is None or finding.action is None:
        return []
    # Its records are already in the database, as far as they can be read. A database row that the
    # mirror proves to be altered is restored; any other mismatch recreates the file.
    finding = msgspec.structs.replace(finding, evidence={"trashed": trashed})
    again = restore_records if finding.code == "database_altered" else make_mirror_anew
    return (await again(store, home, finding, Terms()))[1]


async def _find_mismatch(sql: Sql, session: str, path: str, trashed: bool) -> Finding | None:
    n = (await sql.dicts("session", id=session))[0]["n"]
    try:
        if (await compare(sql, n, session, path)).result == "level":
            return None
        sight = Sight(path, os.stat(path, follow_symlinks=False))
    except OSError:  # unreadable, or moved by another process: the move reports it
        return None
    head = next(Head(*row) for row in await sql.rows("heads") if row[1] == session)
    return await (compare_trashed(sql, head, sight) if trashed else look_closer(sql, head, sight, []))


def _entomb(files: MirrorFiles, session: str, deletion: Deletion) -> None:
    if not os.path.lexists(files.home.tombstone(session)):
        write_tombstone(files, session, deletion)
    mirror, trashed = files.home.mirror(session), files.home.trashed(session)
    ours, theirs = signature(mirror), signature(trashed)
    if ours and ours == theirs:
        files.disk.unlink(mirror)  # one file with two names: a move that was cut short
        files.disk.sync_dir(files.home.sessions)
    elif ours and theirs and ours[1] <= theirs[1]:
        files.quarantine(mirror, "the trash has no less of this deleted session")
    else:
        files.bury(session)


def unearth(files: MirrorFiles, session: str) -> list[str]:
    """Out of the trash with a live session; if it has a mirror already, the other one is kept aside."""
    files.exhume(session)
    remove_tombstone(files, session)
    ours, theirs = signature(files.home.mirror(session)), signature(files.home.trashed(session))
    if theirs is None:
        return []
    if ours == theirs:
        files.disk.unlink(files.home.trashed(session))  # a move that was cut short
        files.disk.sync_dir(files.home.trash)
        return []
    return [files.quarantine(files.home.trashed(session), "the session lives and has a mirror")]


# --- What is done about each finding. Nothing is overwritten: what is replaced goes into quarantine.

CHUNK = 2000  # records adopted in one transaction

RECREATED = "recreated from the database"
LIVE_WINS = "its file has changed meanwhile and was left alone"


class Terms(NamedTuple):
    """How far a repair may go."""

    give_way: bool = True  # archive a session whose key another live one has by now; else KeyTaken
    salvage: bool = False  # a damaged database is asked next: put off what has a damaged mirror


class PutOff(Exception):
    """What a damaged database may know better is left for after it was asked."""


async def repair(store: Store, home: Home, finding: Finding, terms: Terms = Terms()) -> Done:  # noqa: B008
    """Do what the finding's action says; what was done, in a sentence."""
    result, kept = await REPAIRS[finding.code](store, home, finding, terms)
    told = Told(result) if isinstance(result, str) else result
    return Done(
        finding=finding.id,
        code=finding.code,
        subject=finding.subject,
        result=told.text,
        kept=kept,
        recovered=told.recovered,
        lost=list(told.lost),
    )


class Told(NamedTuple):
    """What came of a repair, where records came back."""

    text: str
    recovered: int | None = None
    lost: Sequence[str] = ()


Result = tuple[str | Told, list[str]]


async def make_mirror_anew(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """The mirror from the database; the old file into quarantine."""
    session = finding.subject
    path = _file(home, finding)
    if finding.evidence.get("new"):
        await _adopt_file(store, session, path, terms, proven=True)
        if (await store.session(session)).state == "deleted" and not finding.evidence.get("trashed"):
            return "deleted, as its mirror says", await finish_deletion(store, home, session)
    temp = durable_io.temp_name(path)
    try:
        await store.query(lambda sql: _write_lines(sql, session, temp))
        return await _put_in_place(store, finding, temp)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temp)


def _file(home: Home, finding: Finding) -> str:
    """The mirror that a finding is about."""
    trashed = finding.evidence.get("trashed")
    return home.trashed(finding.subject) if trashed else home.mirror(finding.subject)


async def _write_lines(sql: Sql, session: str, path: str) -> None:
    n = (await sql.dicts("session", id=session))[0]["n"]
    fd = durable_io.DISK.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with durable_io.reported(path):
        try:
            crc = 0
            async for page in pages(sql, n):
                for record in page:
                    data, crc = format.write(session, record, crc)
                    durable_io.DISK.write(fd, data)
            durable_io.DISK.sync(fd)
        finally:
            durable_io.DISK.close(fd)


async def _put_in_place(store: Store, finding: Finding, temp: str) -> Result:
    session = finding.subject

    def swap(files: MirrorFiles) -> Result:
        path = _file(files.home, finding)
        if finding.signature is not None:
            if signature(path) != finding.signature:
                return LIVE_WINS, []
            return RECREATED, [files.replace(temp, path, finding.text)]
        with suppress(FileExistsError):  # the mirror thread may have written the missing file first
            files.disk.link(temp, path)
        files.disk.sync_dir(os.path.dirname(path))
        return RECREATED, []

    result = await store.with_mirrors(swap)
    assert result is not None
    await touch(store, session)
    return result


async def add_what_it_lacks(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """The keeper levels a mirror that is only behind."""
    await touch(store, finding.subject)
    await store.with_mirrors(lambda files: None)
    return "brought level with the database", []


async def put_records_back(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Into the database what only the mirror has."""
    session = finding.subject
    adopted = await _adopt_file(store, session, _file(home, finding), terms, proven=True)
    kept: list[str] = []
    if (await store.session(session)).state == "deleted":
        kept = await finish_deletion(store, home, session)
    return adopted.told("went back into the database"), kept


async def restore_records(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """What was altered in the database, from the mirror, whose checksums prove it."""
    session = finding.subject
    path = _file(home, finding)
    found = await store.query(lambda sql: _contrast(sql, session, path))
    if signature(path) != finding.signature or found is None or not found.altered:
        return LIVE_WINS, []
    wrong = [found.differences[seq] for seq in found.altered]
    stored = [one.stored._asdict() for one in wrong if one.stored is not None]
    kept = _keep(home, f"{session}-{os.urandom(4).hex()}.records", finding.text, encode(stored))
    # In one step: the views cannot be rebuilt while any row is unreadable.
    lost, kept_rows = await _replace_damaged(store, home, finding, [one.proven for one in wrong])
    if found.joined and found.beyond:
        await _adopt_file(store, session, path, terms, proven=True)
    result = f"{counted(len(wrong))} restored from the mirror"
    told = Told(result + lost_in_words(lost), len(wrong), ranges(lost))
    if found.damage is None and not found.unproven and not lost:
        await touch(store, session)
        return told, [kept]
    again, more = await make_mirror_anew(store, home, finding, terms)
    return told._replace(text=f"{told.text}; the mirror was {again}"), [kept, *kept_rows, *more]


async def replace_damaged_records(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Put a notice in the place of each row that is not a record; a mirror that has the row is rewritten."""
    path = _file(home, finding)
    lost, kept = await _replace_damaged(store, home, finding)
    if lost and finding.evidence["mirror_follows"] and signature(path) is not None:
        again = msgspec.structs.replace(finding, signature=signature(path))
        kept += (await make_mirror_anew(store, home, again, terms))[1]
    text = f"{counted(len(lost))} replaced with a notice{lost_in_words(lost)}"
    return Told(text, 0, ranges(lost)), kept


async def _replace_damaged(
    store: Store, home: Home, finding: Finding, right: Sequence[Record] = ()
) -> tuple[list[int], list[str]]:
    """Write the `right` records and a notice for each other damaged row.

    Returns the numbers of the lost records and the file that keeps their rows.
    """
    session = finding.subject
    better = {record.seq for record in right}
    found = await store.query(lambda sql: _damaged_of(sql, session))
    damaged = [record for record in found if record.row.seq not in better]
    kept = []
    if damaged:
        name = f"{session}-{os.urandom(4).hex()}.rows"
        kept.append(_keep(home, name, finding.text, raw_bytes(record.row for record in damaged)))
    if damaged or right:
        notices = replacements(damaged, await store.session(session))
        await put_right(store, session, [*right, *notices])
    return [record.row.seq for record in damaged], kept


async def _damaged_of(sql: Sql, session: str) -> list[DamagedRecord]:
    n = (await sql.dicts("session", id=session))[0]["n"]
    return await damaged_records(sql, n, session)


async def _contrast(sql: Sql, session: str, path: str) -> Contrast | None:
    for row in await sql.rows("heads"):
        if row[1] == session:
            head = Head(*row)
            level = (await compare(sql, head.n, session, path)).level
            return await contrast(sql, head, path, level)
    return None


def _keep(home: Home, name: str, why: str, data: bytes) -> str:
    """Bytes that are replaced in the database into quarantine, with a note."""
    path = os.path.join(home.quarantine, name)
    note = {"from": "the database", "why": why, "at": timestamps.now()}
    durable_io.create(path + ".note.json", [json.dumps(note, indent=1).encode()])
    durable_io.create(path, [data])
    return path


async def put_session_back(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Restore a whole session from its mirror; a damaged file is then recreated."""
    session = finding.subject
    adopted = await _adopt_file(store, session, home.mirror(session), terms)
    if (await store.session(session)).state == "deleted":
        # Its own log says so; only the tombstone and the move were lost.
        kept = await finish_deletion(store, home, session)
        return adopted.told("went back into the database, as deleted"), kept
    if not adopted.damaged:
        return adopted.told("went back into the database"), []
    _, kept = await make_mirror_anew(store, home, finding, terms)
    return adopted.told("went back into the database from a damaged mirror"), kept


async def put_deleted_back(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """A deleted session back into the database, where it stays deleted until it is restored."""
    session, deletion = finding.subject, finding.evidence.get("deletion")
    buried = signature(home.mirror(session)) is None
    adopted = await _adopt_both(store, home, session, terms)
    header = await store.session(session)
    # Without a tombstone the log decides, unless the file lies in the trash only.
    restored = header.undone == deletion["id"] if deletion else not (buried or finding.evidence.get("grave"))
    if header.state != "deleted" and restored:
        await store.with_mirrors(lambda files: unearth(files, session))
        kept = [home.mirror(session)] if adopted.damaged else []
        return adopted.told("went back into the database; its log says that it was restored"), kept
    await _interrupt_tasks(store, session)
    kept = await finish_deletion(store, home, session, deletion)
    if adopted.damaged:
        kept += await _repair_mirror(store, home, session, trashed=True)
    return adopted.told("went back into the database, as deleted"), kept


async def _interrupt_tasks(store: Store, session: str) -> None:
    """End the tasks of a deleted session whose last records are lost.

    A session with a running task cannot be deleted, so each of them had ended.
    """
    reason = "the session was deleted after this task; how it ended is lost"
    change = c.SetStatus(status="interrupted", reason=reason)
    for task in await store.tasks(session=session, limit=1 << 31):
        if task.status in ACTIVE:
            await store.commit(Commit(session, [change], task=task.id, generation=task.generation))


async def delete(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Finish a delete that was cut short, or that an old backup of the database does not know."""
    session = finding.subject
    await _adopt_both(store, home, session, terms, proven=True)
    try:
        kept = await finish_deletion(store, home, session, finding.evidence.get("deletion"))
    except errors.SessionRunning as running:
        path = home.tombstone(session)
        note = await store.with_mirrors(lambda files: files.quarantine(path, "the session was running"))
        await store.with_mirrors(lambda files: unearth(files, session))
        return f"not deleted, for {running}; the tombstone was put into quarantine", [note] if note else []
    return "deleted, as its tombstone says", kept


async def take_from_trash(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """A mirror of a live session in the trash, and no tombstone: its log says whether it belongs there."""
    session = finding.subject
    await _adopt_both(store, home, session, terms, proven=True)
    if (await store.session(session)).state == "deleted":
        return "deleted, as its mirror says", await finish_deletion(store, home, session)
    kept = await store.with_mirrors(lambda files: unearth(files, session))
    return "the session lives, so its mirror was taken out of the trash", kept or []


async def bury(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """A deleted session's file that has come back goes to the trash again, unless it tells of a restore."""
    session, deletion = finding.subject, finding.evidence.get("deletion")
    await _adopt_both(store, home, session, terms, proven=True)
    header = await store.session(session)
    if header.state != "deleted" and (deletion is None or header.undone == deletion["id"]):
        await store.with_mirrors(lambda files: unearth(files, session))
        return "it was restored, as its mirror says", []
    return "moved into the trash", await finish_deletion(store, home, session, deletion)


async def write_the_tombstone(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Say on disk what the database says."""
    return "written", await finish_deletion(store, home, finding.subject)


async def remove_the_tombstone(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """The session was restored."""
    await store.with_mirrors(lambda files: remove_tombstone(files, finding.subject))
    return "removed", []


async def remove_litter(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """A temporary file of nobody who lives."""
    with suppress(FileNotFoundError):
        durable_io.DISK.unlink(finding.evidence["file"])
    return "removed", []


async def rebuild_views(store: Store, home: Home, finding: Finding, terms: Terms) -> Result:
    """Header, tokens and tasks from the log; metadata that could not be read is kept aside."""
    session = finding.subject
    kept = []
    if finding.code == "metadata_unreadable":
        stored = await store.query(lambda sql: _stored_metadata(sql, session))
        kept.append(_keep(home, f"{session}-{os.urandom(4).hex()}.metadata", finding.text, stored))
    await refold(store, session)
    return "rebuilt from the log", kept


async def _stored_metadata(sql: Sql, session: str) -> bytes:
    n = (await sql.dicts("session", id=session))[0]["n"]
    return bytes((await sql.rows("metadata", n=n))[0][0])


class Adopted(NamedTuple):
    """What a mirror gave to the database."""

    records: int = 0  # without stand-ins
    lost: tuple[int, ...] = ()  # for which notices stand in
    damaged: bool = False  # whether the file is

    def told(self, what: str) -> Told:
        """In a sentence."""
        text = f"{counted(self.records)} {what}{lost_in_words(self.lost)}"
        return Told(text, self.records, ranges(self.lost))


async def _adopt_both(store: Store, home: Home, session: str, terms: Terms, proven: bool = False) -> Adopted:
    """What only the files of a deleted session have, wherever they lie."""
    found = Adopted()
    for path in (home.trashed(session), home.mirror(session)):
        if signature(path) is not None:
            with suppress(errors.IllegalChange, OSError):  # of another history, or not to be read: it stays
                one = await _adopt_file(store, session, path, terms, proven)
                damaged = found.damaged or one.damaged
                found = Adopted(found.records + one.records, (*found.lost, *one.lost), damaged)
    return found


async def _adopt_file(store: Store, session: str, path: str, terms: Terms, proven: bool = False) -> Adopted:
    """The records of a mirror into the database.

    `proven`: only what a checksum vouches for, or stands before such.
    """
    count, damaged, enough = 0, False, CHUNK
    waiting: list[Record] = []
    lost: list[int] = []
    for piece in mirror_reader.read(session, path):
        damaged = damaged or piece.damage is not None
        if damaged and terms.salvage:
            raise PutOff
        if proven and not piece.sure:
            break
        waiting += piece.records
        lost += piece.lost
        if len(waiting) >= enough:
            try:
                count += await adopt(store, session, with_beginning(waiting), give_way=False)
                waiting, enough = [], CHUNK
            except errors.KeyTaken:  # a key that it may have given up further on
                enough *= 2
    if waiting:
        count += await adopt(store, session, with_beginning(waiting), give_way=terms.give_way)
    head = (await store.session(session)).events if lost else 0
    lost = sorted(seq for seq in lost if seq > head - count)  # the others the database had
    return Adopted(count - len(lost), tuple(lost), damaged)


async def touch(store: Store, session: str) -> None:
    """Let the keeper look at a mirror again."""

    async def nothing(sql: Sql) -> OperationResult:
        return OperationResult(None, session)

    await store.transact(nothing)


Repair = Callable[[Store, Home, Finding, Terms], Awaitable[Result]]

REPAIRS: dict[str, Repair] = {
    "mirror_missing": make_mirror_anew,
    "mirror_empty": make_mirror_anew,
    "mirror_short": make_mirror_anew,
    "mirror_torn": make_mirror_anew,
    "mirror_damaged": make_mirror_anew,
    "mirror_wrong_session": make_mirror_anew,
    "conflict": make_mirror_anew,
    "database_altered": restore_records,
    "record_damaged": replace_damaged_records,
    "mirror_behind": add_what_it_lacks,
    "database_behind": put_records_back,
    "session_missing": put_session_back,
    "deleted_not_in_database": put_deleted_back,
    "delete_unfinished": delete,
    "mirror_in_trash": take_from_trash,
    "deleted_reappeared": bury,
    "tombstone_missing": write_the_tombstone,
    "tombstone_stale": remove_the_tombstone,
    "temp_litter": remove_litter,
    "metadata_unreadable": rebuild_views,
    "view_drift": rebuild_views,
}
