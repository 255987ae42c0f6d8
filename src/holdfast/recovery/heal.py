"""Bring a home's database and mirrors level with each other: at start, and on demand."""

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
from holdfast.recovery.examine import Looked, examine
from holdfast.recovery.findings import Done, Finding, Report, Unhealed, fingerprint, signature, unhealed
from holdfast.recovery.repair import REPAIRS, PutOff, Terms, repair
from holdfast.recovery.restore import order_queue
from holdfast.recovery.salvage import salvage
from holdfast.store.location import Location
from holdfast.store.mirror.files import MirrorFiles, seal
from holdfast.store.mirror.writer import MirrorSeal, put_seals
from holdfast.store.open import open_store
from holdfast.store.store import Store

Progress = Callable[[int, int, str], None]  # done, of how many, what

log = logging.getLogger(__name__)

CAME_BACK = frozenset({"session_missing", "deleted_not_in_database"})

# Repairs of files only; after any other the queue is put in order, for tasks may have come back.
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

AT_ONCE = 32  # sessions put back in one transaction of the writer

# A session must be there before another can be found to share its key, and gone before it is made.
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
    """Open a store, its database put aside and rebuilt if it must be, and heal it."""
    home.make()
    damage = database.examine(location.address, home, deep) if location.kind == "sqlite" else None
    try:
        return await _open_healed(location, home, rules, damage, deep, progress)
    except errors.StoreUnreadable as problem:
        # A damage that is seen only when the damaged page is read.
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
        # Else another process has begun to rebuild it meanwhile.
        kept = database.put_aside(location.address, home, damage.text)
        before.append(_put_aside(damage, kept))
    store = await open_store(location, home, rules)
    try:
        # Also one that was put aside by a start that was cut short before it had asked it.
        aside = database.unfinished(location.address, home) if location.kind == "sqlite" else []
        if aside:
            # Whole mirrors first, then what the damaged database still gives, then damaged mirrors.
            before.append(await heal(store, home, location, progress=progress, salvaging=True))
            for path in aside:
                before.append(_report(done=await salvage(store, home, path)))
            await order_queue(store)
        report = _together([*before, await heal(store, home, location, deep=deep, progress=progress)])
        for path in aside:
            database.finish(path)
        report = _written_down(home, report)
    except BaseException:
        await store.close()
        raise
    return store, report


async def look(store: Store, home: Home, location: Location, deep: bool = False) -> Looked:
    """What is not as it should be; nothing is changed."""
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
    """Look, and repair what can be repaired; one that fails never stops the rest.

    `salvaging`: take whole mirrors only; a damaged database is asked for the others next.
    """
    looked = await look(store, home, location, deep)
    done, problems = await mend(store, home, looked.findings, progress, salvaging=salvaging)
    if looked.unsealed:
        sealed = await store.with_mirrors(lambda files: _synced(files, looked.unsealed))
        await store.transact(lambda sql: put_seals(sql, [MirrorSeal(*each) for each in sealed or []]))
    return _report(
        sessions=looked.sessions + sum(d.code in CAME_BACK for d in done),
        compared=looked.compared,
        findings=looked.findings,
        done=done,
        problems=problems,
        left=unhealed(looked.findings),
    )


async def mend(
    store: Store,
    home: Home,
    findings: Sequence[Finding],
    progress: Progress | None = None,
    *,
    salvaging: bool = False,
) -> tuple[list[Done], list[str]]:
    """Repair each finding that has a repair."""
    mendable = sorted((f for f in findings if f.action is not None and f.code in REPAIRS), key=_rank)
    done: list[Done] = []
    problems: list[str] = []
    waiting: list[Finding] = []  # for another session to give up their key

    async def one(finding: Finding, give_way: bool = False) -> None:
        try:
            done.append(await repair(store, home, finding, Terms(give_way, salvaging)))
        except errors.KeyTaken:
            waiting.append(finding)
        except PutOff:
            log.info("%s of %s: the damaged database is asked first", finding.code, finding.subject)
        except Exception as problem:
            if isinstance(problem, errors.StoreUnreadable) and database.is_damage(problem):
                raise  # of the database itself: all that is left to do is to rebuild it
            log.warning("%s of %s could not be repaired: %s", finding.code, finding.subject, problem)
            problems.append(f"{finding.code} {finding.subject}: {problem}")

    for code, group in itertools.groupby(mendable, key=lambda f: f.code):
        for some in _batches(list(group), AT_ONCE if code == "session_missing" else 1):
            if progress is not None:
                progress(len(done) + len(problems), len(mendable), some[0].subject)
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
            break  # the damaged database may tell who gave the key up
        if len(waiting) == len(again):  # they wait for each other, or for one that keeps the key
            await one(waiting.pop(0), give_way=True)
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
    """Bring level mirrors to disk before they are sealed; those that changed meanwhile are not."""
    seals = []
    for session, mark in unsealed:
        try:
            now = seal(int(mark.split("/")[0]), files.sync(session))
        except OSError:
            continue
        if now == mark:
            seals.append((session, mark))
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


def _put_aside(damage: Finding, kept: list[str]) -> Report:
    done = Done(
        finding=damage.id,
        code=damage.code,
        subject=damage.subject,
        result="put into quarantine; rebuilt from the mirrors" if kept else "rebuilt",
        kept=kept,
    )
    return _report(findings=[damage], done=[done])


def _together(reports: Sequence[Report]) -> Report:
    """One report of what was done in several rounds."""
    findings = {f.id: f for r in reports for f in r.findings}
    return _report(
        sessions=reports[-1].sessions,
        compared=sum(r.compared for r in reports),
        findings=list(findings.values()),
        done=[d for r in reports for d in r.done],
        problems=list(dict.fromkeys(p for r in reports for p in r.problems)),
        left=reports[-1].unhealed,  # what a later round has healed is not left
    )


def _written_down(home: Home, report: Report) -> Report:
    """The report as a file; what only could not be healed is written once, not at every start."""
    left = [finding for finding in report.findings if finding.action is None]
    mark = f"-{fingerprint(left)}.json" if report.unhealed else ".json"
    if not report.done and not report.problems and (not report.unhealed or _is_known(home, mark)):
        return report
    name = f"heal-{report.at.replace(':', '')}{mark}"
    path = os.path.join(home.reports, name)
    try:
        durable_io.create(path, [msgspec.json.format(msgspec.json.encode(report), indent=1), b"\n"])
    except (errors.HoldfastError, OSError) as problem:
        log.warning("what was healed could not be written down: %s", problem)
        report.problems.append(f"the report could not be written: {problem}")
    return report


def _is_known(home: Home, mark: str) -> bool:
    """Whether a report of just this was written before."""
    with suppress(OSError):
        return any(name.endswith(mark) for name in os.listdir(home.reports))
    return False
