"""Make the database and the mirrors of a home equal: at every start, and on demand."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec

from holdfast import durable_io, errors, timestamps
from holdfast import node as nodes
from holdfast.home import Home
from holdfast.model.token import TokenRules
from holdfast.node import Node
from holdfast.recovery import database
from holdfast.recovery.examine import Examination, examine
from holdfast.recovery.findings import Done, Finding, Report, Unhealed, fingerprint, signature, unhealed
from holdfast.recovery.mirror_import import Postponed, RepairOptions
from holdfast.recovery.repair import REPAIRS, repair
from holdfast.recovery.restore import order_queue
from holdfast.recovery.salvage import salvage
from holdfast.store.location import Location
from holdfast.store.mirror.files import MirrorFiles, seal
from holdfast.store.mirror.writer import MirrorSeal, put_seals
from holdfast.store.open import open_store
from holdfast.store.store import Store

Progress = Callable[[int, int, str], None]  # done, total, current subject

log = logging.getLogger(__name__)

RESTORES_SESSION = frozenset({"session_missing", "deleted_not_in_database"})

# Repairs of files only. After any other repair the queue is ordered, because it may have restored tasks.
FILES_ONLY = frozenset(
    {
        "mirror_missing",
        "mirror_empty",
        "mirror_short",
        "mirror_behind",
        "conflict",
        "tombstone_missing",
        "tombstone_stale",
        "temp_litter",
    }
)

AT_ONCE = 32  # sessions restored in one transaction of the writer

# A session must be restored before another one can conflict with its key, and deleted before it is recreated.
ORDER = (
    "mirror_in_trash",
    "delete_unfinished",
    "deleted_reappeared",
    "database_behind",
    "deleted_not_in_database",
    "session_missing",
    "record_damaged",  # before a mirror is written from the log
)


async def open_healed(
    location: Location,
    home: Home,
    rules: TokenRules,
    *,
    deep: bool = False,
    progress: Progress | None = None,
) -> tuple[Store, Report]:
    """Open a store and heal it. A damaged database goes to quarantine and is rebuilt."""
    home.make()
    damage = database.examine(location.address, home, deep) if location.kind == "sqlite" else None
    try:
        return await _open_healed(location, home, rules, damage, deep, progress)
    except errors.StoreUnreadable as problem:
        # Damage that shows only when the damaged page is read.
        if damage is not None or not database.is_damage(problem):
            raise
        damage = database.damaged(location.address, str(problem))
        return await _open_healed(location, home, rules, damage, deep, progress)


async def _open_healed(
    location: Location,
    home: Home,
    rules: TokenRules,
    damage: Finding | None,
    deep: bool,
    progress: Progress | None,
) -> tuple[Store, Report]:
    before: list[Report] = []
    if damage is not None and damage.signature == signature(location.address):
        # Otherwise another process has started to rebuild it.
        kept = database.move_to_quarantine(location.address, home, damage.text)
        before.append(_quarantine_report(damage, kept))
    store = await open_store(location, home, rules)
    try:
        # Also one that an interrupted start moved to quarantine before it salvaged it.
        damaged = database.unfinished(location.address, home) if location.kind == "sqlite" else []
        if damaged:
            # Whole mirrors first, then the readable rows of the damaged database, then damaged mirrors.
            before.append(await heal(store, home, location, progress=progress, salvaging=True))
            for path in damaged:
                before.append(_report(done=await salvage(store, home, path)))
            await order_queue(store)
        report = _combined([*before, await heal(store, home, location, deep=deep, progress=progress)])
        for path in damaged:
            database.finish(path)
        report = _write_report(home, report)
    except BaseException:
        await store.close()
        raise
    return store, report


async def look(store: Store, home: Home, location: Location, deep: bool = False) -> Examination:
    """Examine a home. Changes nothing."""
    return await store.query(lambda sql: examine(sql, home, owned_by(home, location), deep))


async def heal(
    store: Store,
    home: Home,
    location: Location,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    salvaging: bool = False,
) -> Report:
    """Examine a home and run every repair. A repair that fails does not stop the others.

    `salvaging`: use whole mirrors only; a damaged database is salvaged next.
    """
    examined = await look(store, home, location, deep)
    done, problems = await repair_all(store, home, examined.findings, progress, salvaging=salvaging)
    if examined.unsealed:
        sealed = await store.with_mirrors(lambda files: _synced(files, examined.unsealed))
        await store.transact(lambda sql: put_seals(sql, [MirrorSeal(*each) for each in sealed or []]))
    return _report(
        sessions=examined.sessions + sum(d.code in RESTORES_SESSION for d in done),
        compared=examined.compared,
        findings=examined.findings,
        done=done,
        problems=problems,
        left=unhealed(examined.findings),
    )


async def repair_all(
    store: Store,
    home: Home,
    findings: Sequence[Finding],
    progress: Progress | None = None,
    *,
    salvaging: bool = False,
) -> tuple[list[Done], list[str]]:
    """Repair each finding that has a repair."""
    repairable = sorted((f for f in findings if f.action is not None and f.code in REPAIRS), key=_rank)
    done: list[Done] = []
    problems: list[str] = []
    waiting: list[Finding] = []  # until another session releases their key

    async def one(finding: Finding, archive_on_conflict: bool = False) -> None:
        try:
            options = RepairOptions(archive_on_conflict, salvaging)
            done.append(await repair(store, home, finding, options))
        except errors.KeyTaken:
            waiting.append(finding)
        except Postponed:
            log.info("%s of %s: the damaged database is read first", finding.code, finding.subject)
        except Exception as problem:
            if isinstance(problem, errors.StoreUnreadable) and database.is_damage(problem):
                raise  # the database itself is damaged and must be rebuilt
            log.warning("%s of %s: the repair failed: %s", finding.code, finding.subject, problem)
            problems.append(f"{finding.code} {finding.subject}: {problem}")

    for code, group in itertools.groupby(repairable, key=lambda f: f.code):
        for some in _batches(list(group), AT_ONCE if code == "session_missing" else 1):
            if progress is not None:
                progress(len(done) + len(problems), len(repairable), some[0].subject)
            ends = await asyncio.gather(*(one(finding) for finding in some), return_exceptions=True)
            for problem in ends:
                if problem is not None:
                    raise problem
    while waiting:
        again = waiting.copy()
        waiting.clear()
        for finding in again:
            await one(finding)
        if len(waiting) == len(again) and salvaging:
            break  # the damaged database may show which session released the key
        if len(waiting) == len(again):  # they wait for each other, or for a session that keeps the key
            await one(waiting.pop(0), archive_on_conflict=True)
    if done and not {d.code for d in done} <= FILES_ONLY:
        await order_queue(store)
    return done, problems


def _rank(finding: Finding) -> tuple[int, str]:
    code = "database_behind" if finding.evidence.get("new") else finding.code
    return (ORDER.index(code) if code in ORDER else len(ORDER), finding.code)


def _batches(findings: list[Finding], size: int) -> Iterator[list[Finding]]:
    for i in range(0, len(findings), size):
        yield findings[i : i + size]


def owned_by(home: Home, location: Location) -> Node | None:
    """The node whose sessions this home mirrors; None: all sessions of the store."""
    return nodes.read(home, private=False) if location.kind == "postgres" else None


def _synced(files: MirrorFiles, unsealed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sync mirrors that equal their logs before they are sealed, except those that have changed since."""
    seals = []
    for session, wanted in unsealed:
        try:
            now = seal(int(wanted.split("/")[0]), files.sync(session))
        except OSError:
            continue
        if now == wanted:
            seals.append((session, wanted))
    return seals


def _report(
    *,
    sessions: int = 0,
    compared: int = 0,
    findings: Sequence[Finding] = (),
    done: Sequence[Done] = (),
    problems: Sequence[str] = (),
    left: Sequence[Unhealed] = (),
) -> Report:
    return Report(
        at=timestamps.now(),
        sessions=sessions,
        compared=compared,
        findings=list(findings),
        done=list(done),
        problems=list(problems),
        unhealed=list(left),
    )


def _quarantine_report(damage: Finding, kept: list[str]) -> Report:
    done = Done(
        finding=damage.id,
        code=damage.code,
        subject=damage.subject,
        result="moved to quarantine; rebuilt from the mirrors" if kept else "rebuilt from the mirrors",
        kept=kept,
    )
    return _report(findings=[damage], done=[done])


def _combined(reports: Sequence[Report]) -> Report:
    """One report of several rounds."""
    findings = {f.id: f for r in reports for f in r.findings}
    return _report(
        sessions=reports[-1].sessions,
        compared=sum(r.compared for r in reports),
        findings=list(findings.values()),
        done=[d for r in reports for d in r.done],
        problems=list(dict.fromkeys(p for r in reports for p in r.problems)),
        left=reports[-1].unhealed,  # without those that a later round repaired
    )


def _write_report(home: Home, report: Report) -> Report:
    """Write the report to a file. The same unrepaired findings are written once, not at every start."""
    left = [finding for finding in report.findings if finding.action is None]
    mark = f"-{fingerprint(left)}.json" if report.unhealed else ".json"
    if not report.done and not report.problems and (not report.unhealed or _is_known(home, mark)):
        return report
    name = f"heal-{report.at.replace(':', '')}{mark}"
    path = os.path.join(home.reports, name)
    try:
        durable_io.create(path, [msgspec.json.format(msgspec.json.encode(report), indent=1), b"\n"])
    except (errors.HoldfastError, OSError) as problem:
        log.warning("the heal report could not be written: %s", problem)
        report.problems.append(f"the report could not be written: {problem}")
    return report


def _is_known(home: Home, mark: str) -> bool:
    """Whether the same report was written before."""
    with suppress(OSError):
        return any(name.endswith(mark) for name in os.listdir(home.reports))
    return False
