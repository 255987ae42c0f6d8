"""The doctor of our own home: the findings of recovery, shown before anything is done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast import config, errors, timestamps
from holdfast.agents.registry import AgentRegistry
from holdfast.doctor import files, operation
from holdfast.doctor import receipts as cases
from holdfast.doctor.files import digest_file
from holdfast.doctor.plan import Diagnosis, DoctorFinding, Progress
from holdfast.doctor.receipts import Intent, OperationDir, Receipt, TouchedFile
from holdfast.home import Home
from holdfast.process.open_files import ENDINGS
from holdfast.recovery import database
from holdfast.recovery import findings as finding
from holdfast.recovery.examine import Looked, examine
from holdfast.recovery.findings import Done, Signature, signature
from holdfast.recovery.heal import FILES_ONLY, host_of, look, mend, open_healed
from holdfast.store.location import Location
from holdfast.store.store import BaseStore

TARGET = "self"
ON_A_SERVER = "the store is on a database server, of which no backup was made"
IN_USE = "the database was mended too, and has gone on since: a hub has it open"
LAG_S = 1.0  # a mirror is written after the commit; what is still so then is no lag
# What a look may see of a session that goes on while it is looked at.
IN_MOTION = frozenset(
    {"database_behind", "session_missing", "mirror_unreadable", "mirror_empty"}
    | {"mirror_missing", "mirror_behind", "mirror_short", "mirror_torn", "tombstone_missing"}
)
BY_FILES = FILES_ONLY | {"mirror_torn", "mirror_damaged", "mirror_wrong_session"}
CUT_SHORT = "it was cut short; the old bytes are kept in {}"


class HomePlan(NamedTuple):
    """What was seen, and the name that it goes by."""

    fingerprint: str
    findings: Sequence[DoctorFinding]


async def diagnose(home: Home, location: Location) -> Diagnosis:
    """Look at everything, content included; nothing is changed, not even a lock file."""
    found = await _look_twice(home, location)
    shown = [
        DoctorFinding(code=f.code, subject=f.subject, text=f.text, action=f.action, evidence=f.evidence)
        for f in found
    ]
    state = finding.fingerprint(found)
    return Diagnosis(target=TARGET, path=home.path, findings=shown, state=state)


async def _look_twice(home: Home, location: Location) -> list[finding.Finding]:
    """What is so twice: of a home in use, what only lags or goes on is no finding."""
    first = await _look(home, location)
    if not any(one.code in IN_MOTION for one in first):
        return first
    await asyncio.sleep(LAG_S)
    return [one for one in await _look(home, location) if one.code not in IN_MOTION or one in first]


async def _look(home: Home, location: Location) -> list[finding.Finding]:
    if not home.exists() and location.kind == "sqlite" and not os.path.exists(location.address):
        raise errors.StoreMissing(f"there is no Holdfast home at {home.path}")
    if location.kind == "postgres":
        from holdfast.store.postgres.readonly import ask_once

        looked: Looked = await ask_once(
            location.address, lambda sql: examine(sql, home, host_of(location), True)
        )
        return looked.findings
    damage = database.examine(location.address, home, deep=True)
    looked = await _look_at_sqlite(home, location, damage is not None)
    return [*([damage] if damage else []), *looked.findings]


async def _look_at_sqlite(home: Home, location: Location, damaged: bool) -> Looked:
    from holdfast.store.sqlite import migrations
    from holdfast.store.sqlite.connection import open_reader, translated
    from holdfast.store.sqlite.sql import SqliteSql

    with translated(location.address):
        if damaged or not os.path.exists(location.address):
            db = migrations.in_memory()  # as if it were empty: that is what a rebuild starts from
        else:
            db = open_reader(location.address)
        try:
            db.execute("begin")
            return await examine(SqliteSql(db), home, None, True)
        finally:
            db.close()


async def apply(home: Home, location: Location, plan: str, progress: Progress | None = None) -> Receipt:
    """Do what the plan of that fingerprint says; PlanChanged if the home is not as it was."""
    found = await diagnose(home, location)
    if found.fingerprint != plan:
        raise errors.PlanChanged(f"the plan {plan} was made from another state of this home")
    rules = AgentRegistry.from_config(config.load(home).get("agents", {})).token_rules()
    home.make()
    with home.lock("doctor self"), operation.exclusive(home, home.path):
        own = location.address if location.kind == "sqlite" else None
        case, seen, intent = _begin(home, own, HomePlan(plan, found.findings))
        store, report = await open_healed(location, home, rules, deep=True, progress=progress)
        await store.close()
        receipt = _end(intent, seen, dict(_signatures(home)), report.done, report.problems)
        if location.kind == "postgres":
            receipt = replace(receipt, sealed=ON_A_SERVER)
        case.write_receipt(receipt)
    return receipt


async def apply_in_hub(store: BaseStore, home: Home, location: Location, plan: HomePlan) -> Receipt:
    """The same in a home that is in use, by who holds its lock; what the database had is not taken back."""
    with operation.exclusive(home, home.path):
        case, seen, intent = await asyncio.to_thread(_begin, home, None, plan)
        named = {one.id for one in plan.findings}
        meant = [one for one in (await look(store, home, location, deep=True)).findings if one.id in named]
        done, problems = await mend(store, home, meant)
        is_meant = _about(plan)
        now = {path: what for path, what in _signatures(home) if is_meant(path)}
        then = {path: what for path, what in seen.items() if is_meant(path)}  # the rest has gone on
        receipt = await asyncio.to_thread(_end, intent, then, now, done, problems)
        if not all(one.code in BY_FILES and not one.evidence.get("new") for one in meant if one.action):
            receipt = replace(receipt, sealed=ON_A_SERVER if location.kind == "postgres" else IN_USE)
        case.write_receipt(receipt)
    return receipt


def undo(home: Home, receipt: Receipt) -> Receipt:
    """Give back the database and mirrors as they were; refused if any has changed since."""
    with home.lock("doctor self"), operation.exclusive(home, home.path):
        return operation.restore_files(OperationDir(home, receipt.id), receipt)


def _begin(
    home: Home, own: str | None, plan: HomePlan
) -> tuple[OperationDir, dict[str, Signature | None], Intent]:
    """Settle what was cut short, then stage this: backups first."""
    for old, intent in cases.interrupted_operations(home, home.path):
        old.write_receipt(_receipt(intent, [], sealed=CUT_SHORT.format(old.folder)))
    case = OperationDir.new(home)
    seen = dict(_signatures(home))
    return case, seen, _stage(case, home, own, plan)


def _stage(case: OperationDir, home: Home, own: str | None, plan: HomePlan) -> Intent:
    """Backups of the database, where that is `own`, and of every file that a finding is about."""
    items = []
    if own is not None:
        items.append(_kept(case, 0, "database", own))
    is_meant = _about(plan)
    for path, _ in _signatures(home):
        if is_meant(path):
            items.append(_kept(case, len(items), "file", path))
    intent = Intent(
        id=case.id,
        at=timestamps.now(),
        target=TARGET,
        path=home.path,
        fingerprint=plan.fingerprint,
        actions={f.id: f.action for f in plan.findings if f.action},
        items=items,
    )
    case.write_intent(intent)
    return intent


def _about(plan: HomePlan) -> Callable[[str], bool]:
    """Whether a finding is about a file."""
    subjects = tuple({f.subject for f in plan.findings})
    return lambda path: os.path.basename(path).startswith(subjects)


def _kept(case: OperationDir, number: int, kind: cases.Kind, path: str) -> TouchedFile:
    endings = ("",) if kind == "file" else ENDINGS
    before = {ending: files.back_up(path + ending, case.old(number, ending)) for ending in endings}
    return TouchedFile(kind=kind, path=path, before=before)


def _end(
    intent: Intent,
    seen: Mapping[str, Signature | None],
    now: Mapping[str, Signature | None],
    done: Sequence[Done],
    problems: Sequence[str],
) -> Receipt:
    items = [replace(item, after={"": digest_file(item.path)}) for item in intent.items]
    known = {item.path for item in items}
    sealed = None
    for path in sorted(set(now) | set(seen)):
        if path in known or now.get(path) == seen.get(path):
            continue
        if path in seen:
            sealed = f"{path} was mended too, and is not among the backups"
        items.append(TouchedFile(kind="file", path=path, before={"": None}, after={"": digest_file(path)}))
    receipt = _receipt(intent, items, sealed=sealed)
    return replace(
        receipt,
        actions={one.finding: one.result for one in done},
        problems=list(problems),
        kept=[path for one in done for path in one.kept],
    )


def _receipt(intent: Intent, items: list[TouchedFile], sealed: str | None) -> Receipt:
    return Receipt(
        id=intent.id,
        at=timestamps.now(),
        target=TARGET,
        path=intent.path,
        fingerprint=intent.fingerprint,
        actions={},
        items=items,
        numbers=list(range(len(items))),
        sealed=sealed,
    )


def _signatures(home: Home) -> Iterator[tuple[str, Signature | None]]:
    """The files that a heal may touch, besides the database."""
    for folder in (home.sessions, home.trash):
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if (what := signature(path)) is not None:
                    yield path, what
