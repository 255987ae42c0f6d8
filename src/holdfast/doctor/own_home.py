"""The doctor of our own home: what recovery finds, shown before it repairs anything."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast import config, errors, timestamps
from holdfast.agents.registry import AgentRegistry
from holdfast.doctor import files, operation, receipts
from holdfast.doctor.files import digest_file
from holdfast.doctor.plan import Diagnosis, DoctorFinding, Progress
from holdfast.doctor.receipts import Intent, OperationDir, Receipt, TouchedFile
from holdfast.home import Home
from holdfast.process.open_files import ENDINGS
from holdfast.recovery import database, findings
from holdfast.recovery.examine import Examination, examine
from holdfast.recovery.findings import Done, Signature, signature
from holdfast.recovery.heal import FILES_ONLY, look, open_healed, owned_by, repair_all
from holdfast.store.location import Location
from holdfast.store.store import Store

TARGET = "self"
ON_A_SERVER = "the store is on a database server, and no backup of it was made"
IN_USE = "the repair changed the database too, and a running hub has changed it since"
LAG_S = 1.0  # a mirror is written after the commit; a longer difference is real
# Differences that a diagnosis may see in a session that changes at the same time.
TRANSIENT = frozenset(
    {"database_behind", "session_missing", "mirror_unreadable", "mirror_empty"}
    | {"mirror_missing", "mirror_behind", "mirror_short", "mirror_torn", "tombstone_missing"}
)
BY_FILES = FILES_ONLY | {"mirror_torn", "mirror_damaged", "mirror_wrong_session"}
INTERRUPTED = "the repair was interrupted; the old bytes are in {}"


class HomePlan(NamedTuple):
    """The findings to repair, and the fingerprint of their state."""

    fingerprint: str
    findings: Sequence[DoctorFinding]


async def diagnose(home: Home, location: Location) -> Diagnosis:
    """Check everything, content included; it changes nothing and creates no lock file."""
    lasting = await _lasting_findings(home, location)
    shown = [
        DoctorFinding(code=f.code, subject=f.subject, text=f.text, action=f.action, evidence=f.evidence)
        for f in lasting
    ]
    state = findings.fingerprint(lasting)
    return Diagnosis(target=TARGET, path=home.path, findings=shown, state=state)


async def _lasting_findings(home: Home, location: Location) -> list[findings.Finding]:
    """The findings that last: in a home that is in use, a mirror that lags is not a finding."""
    first = await _findings(home, location)
    if not any(one.code in TRANSIENT for one in first):
        return first
    await asyncio.sleep(LAG_S)
    return [one for one in await _findings(home, location) if one.code not in TRANSIENT or one in first]


async def _findings(home: Home, location: Location) -> list[findings.Finding]:
    if not home.exists() and location.kind == "sqlite" and not os.path.exists(location.address):
        raise errors.StoreMissing(f"there is no Holdfast home at {home.path}")
    if location.kind == "postgres":
        from holdfast.store.postgres.readonly import ask_once

        examined: Examination = await ask_once(
            location.address, lambda sql: examine(sql, home, owned_by(home, location), True)
        )
        return examined.findings
    damage = database.examine(location.address, home, deep=True)
    examined = await _examine_sqlite(home, location, damage is not None)
    return [*([damage] if damage else []), *examined.findings]


async def _examine_sqlite(home: Home, location: Location, damaged: bool) -> Examination:
    from holdfast.store.sqlite import migrations
    from holdfast.store.sqlite.connection import open_reader, translated
    from holdfast.store.sqlite.sql import SqliteSql

    with translated(location.address):
        if damaged or not os.path.exists(location.address):
            db = migrations.in_memory()  # a rebuild starts from an empty database
        else:
            db = open_reader(location.address)
        try:
            db.execute("begin")
            return await examine(SqliteSql(db), home, None, True)
        finally:
            db.close()


async def apply(home: Home, location: Location, plan: str, progress: Progress | None = None) -> Receipt:
    """Apply the plan with that fingerprint; PlanChanged if the home changed since."""
    diagnosis = await diagnose(home, location)
    if diagnosis.fingerprint != plan:
        raise errors.PlanChanged(f"the plan {plan} was made from another state of this home")
    rules = AgentRegistry.from_config(config.load(home).get("agents", {})).token_rules()
    home.make()
    with home.lock("doctor self"), operation.exclusive(home, home.path):
        own = location.address if location.kind == "sqlite" else None
        directory, before, intent = _begin(home, own, HomePlan(plan, diagnosis.findings))
        store, report = await open_healed(location, home, rules, deep=True, progress=progress)
        await store.close()
        receipt = _receipt_of(intent, before, dict(_signatures(home)), report.done, report.problems)
        if location.kind == "postgres":
            receipt = replace(receipt, sealed=ON_A_SERVER)
        directory.write_receipt(receipt)
    return receipt


async def apply_in_hub(store: Store, home: Home, location: Location, plan: HomePlan) -> Receipt:
    """Apply a plan inside the hub that holds the home's lock; changes to the database cannot be undone."""
    with operation.exclusive(home, home.path):
        directory, before, intent = await asyncio.to_thread(_begin, home, None, plan)
        named = {one.id for one in plan.findings}
        planned = [one for one in (await look(store, home, location, deep=True)).findings if one.id in named]
        done, problems = await repair_all(store, home, planned)
        is_planned = _is_about(plan)
        now = {path: version for path, version in _signatures(home) if is_planned(path)}
        then = {
            path: version for path, version in before.items() if is_planned(path)
        }  # other files may have changed since
        receipt = await asyncio.to_thread(_receipt_of, intent, then, now, done, problems)
        if not all(one.code in BY_FILES and not one.evidence.get("new") for one in planned if one.action):
            receipt = replace(receipt, sealed=ON_A_SERVER if location.kind == "postgres" else IN_USE)
        directory.write_receipt(receipt)
    return receipt


def undo(home: Home, receipt: Receipt) -> Receipt:
    """Restore the database and the mirrors; Refused if one changed since."""
    with home.lock("doctor self"), operation.exclusive(home, home.path):
        return operation.restore_files(OperationDir(home, receipt.id), receipt)


def _begin(
    home: Home, own: str | None, plan: HomePlan
) -> tuple[OperationDir, dict[str, Signature | None], Intent]:
    """End interrupted repairs, then stage this one: backups first."""
    for old, intent in receipts.interrupted_operations(home, home.path):
        old.write_receipt(_receipt(intent, [], sealed=INTERRUPTED.format(old.folder)))
    directory = OperationDir.new(home)
    before = dict(_signatures(home))
    return directory, before, _stage(directory, home, own, plan)


def _stage(directory: OperationDir, home: Home, own: str | None, plan: HomePlan) -> Intent:
    """Back up the database at `own`, if it is ours, and every file that a finding is about."""
    items = []
    if own is not None:
        items.append(_back_up(directory, 0, "database", own))
    is_planned = _is_about(plan)
    for path, _ in _signatures(home):
        if is_planned(path):
            items.append(_back_up(directory, len(items), "file", path))
    intent = Intent(
        id=directory.id,
        at=timestamps.now(),
        target=TARGET,
        path=home.path,
        fingerprint=plan.fingerprint,
        actions={f.id: f.action for f in plan.findings if f.action},
        items=items,
    )
    directory.write_intent(intent)
    return intent


def _is_about(plan: HomePlan) -> Callable[[str], bool]:
    """A test whether a finding is about a file."""
    subjects = tuple({f.subject for f in plan.findings})
    return lambda path: os.path.basename(path).startswith(subjects)


def _back_up(directory: OperationDir, number: int, kind: receipts.Kind, path: str) -> TouchedFile:
    endings = ("",) if kind == "file" else ENDINGS
    before = {ending: files.back_up(path + ending, directory.old(number, ending)) for ending in endings}
    return TouchedFile(kind=kind, path=path, before=before)


def _receipt_of(
    intent: Intent,
    before: Mapping[str, Signature | None],
    now: Mapping[str, Signature | None],
    done: Sequence[Done],
    problems: Sequence[str],
) -> Receipt:
    items = [replace(item, after={"": digest_file(item.path)}) for item in intent.items]
    known = {item.path for item in items}
    sealed = None
    for path in sorted(set(now) | set(before)):
        if path in known or now.get(path) == before.get(path):
            continue
        if path in before:
            sealed = f"the repair also changed {path}, which is not among the backups"
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
    """The files that a repair may change, apart from the database."""
    for folder in (home.sessions, home.trash):
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if (version := signature(path)) is not None:
                    yield path, version
