"""Bring a home's database and mirrors level with each other: at start, and on demand."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence

import msgspec

from holdfast import clock, errors, fsio
from holdfast.home import Home
from holdfast.model.token import TokenRules
from holdfast.recover import database
from holdfast.recover.examine import Looked, examine
from holdfast.recover.finding import Done, Finding, Report
from holdfast.recover.repair import REPAIRS, repair
from holdfast.recover.salvage import salvage
from holdfast.store.base import BaseStore, Outcome
from holdfast.store.location import Location
from holdfast.store.opening import open_store
from holdfast.store.sql import Sql

Progress = Callable[[int, int, str], None]  # done, of how many, what

log = logging.getLogger(__name__)

AT_ONCE = 32  # sessions put back in one transaction of the writer

# A session must be there before another can be found to share its key, and gone before it is made.
ORDER = ("delete_unfinished", "database_behind", "deleted_not_in_database", "session_missing")


async def open_healed(
    location: Location,
    home: Home,
    rules: TokenRules,
    *,
    deep: bool = False,
    progress: Progress | None = None,
) -> tuple[BaseStore, Report]:
    """Open a store, its database put aside and rebuilt if it must be, and heal it."""
    home.make()
    found: list[Finding] = []
    done: list[Done] = []
    kept: list[str] = []
    if location.kind == "sqlite":
        damage = database.examine(location.address, home, deep)
        if damage is not None:
            kept = database.put_aside(location.address, home)
            found.append(damage)
            done.append(
                Done(
                    finding=damage.id,
                    code=damage.code,
                    subject=damage.subject,
                    result="put into quarantine; rebuilt from the mirrors" if kept else "rebuilt",
                    kept=kept,
                )
            )
    store = await open_store(location, home, rules)
    try:
        report = await heal(store, home, location, deep=deep, progress=progress)
        extra = await salvage(store, kept) if kept else []
    except BaseException:
        await store.close()
        raise
    report = msgspec.structs.replace(
        report, findings=[*found, *report.findings], done=[*done, *report.done, *extra]
    )
    if report.done:
        _write_down(home, report)
    return store, report


async def look(store: BaseStore, home: Home, location: Location, deep: bool = False) -> Looked:
    """What is not as it should be; nothing is changed."""
    return await store.query(lambda sql: examine(sql, home, host_of(location), deep))


async def heal(
    store: BaseStore,
    home: Home,
    location: Location,
    *,
    deep: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Look, and repair what can be repaired; one that fails never stops the rest."""
    looked = await look(store, home, location, deep)
    done, problems = await mend(store, home, looked.findings, progress)
    if looked.unsealed:
        await store.transact(lambda sql: _seal(sql, looked.unsealed))
    return Report(
        at=clock.now(),
        sessions=looked.sessions + sum(d.code == "session_missing" for d in done),
        compared=looked.compared,
        findings=looked.findings,
        done=done,
        problems=problems,
    )


async def mend(
    store: BaseStore, home: Home, findings: Sequence[Finding], progress: Progress | None = None
) -> tuple[list[Done], list[str]]:
    """Repair each finding that has a repair."""
    mendable = sorted(
        (f for f in findings if f.action is not None and f.code in REPAIRS),
        key=lambda f: (ORDER.index(f.code) if f.code in ORDER else len(ORDER), f.code),
    )
    done: list[Done] = []
    problems: list[str] = []

    async def one(finding: Finding) -> None:
        try:
            done.append(await repair(store, home, finding))
        except (errors.HoldfastError, OSError) as problem:
            log.warning("%s of %s could not be repaired: %s", finding.code, finding.subject, problem)
            problems.append(f"{finding.code} {finding.subject}: {problem}")

    for code, group in itertools.groupby(mendable, key=lambda f: f.code):
        for some in _batches(list(group), AT_ONCE if code == "session_missing" else 1):
            if progress is not None:
                progress(len(done) + len(problems), len(mendable), some[0].subject)
            await asyncio.gather(*(one(finding) for finding in some))
    return done, problems


def _batches(findings: list[Finding], size: int) -> Iterator[list[Finding]]:
    for i in range(0, len(findings), size):
        yield findings[i : i + size]


def host_of(location: Location) -> str | None:
    """The host whose sessions this home mirrors; None: all of the store's."""
    return socket.gethostname() if location.kind == "postgres" else None


async def _seal(sql: Sql, seals: list[tuple[str, str]]) -> Outcome:
    for session, seal in seals:
        await sql.run("put_seal", id=session, seal=seal)
    return Outcome(None)


def _write_down(home: Home, report: Report) -> None:
    path = os.path.join(home.reports, f"heal-{report.at.replace(':', '')}.json")
    fsio.create(path, [msgspec.json.format(msgspec.json.encode(report), indent=1), b"\n"])
