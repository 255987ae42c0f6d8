"""The doctor of our own home: the findings of recovery, shown before anything is done."""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from holdfast import clock, config, errors
from holdfast.agents.registry import Registry
from holdfast.doctor import case as cases
from holdfast.doctor import files, operation
from holdfast.doctor.case import ENDINGS, Case, Intent, Item, Receipt
from holdfast.doctor.finding import Diagnosis, Finding, Progress
from holdfast.doctor.mark import mark
from holdfast.home import Home
from holdfast.recover import database, finding
from holdfast.recover.examine import Looked, examine
from holdfast.recover.finding import Report, Signature, signature
from holdfast.recover.heal import host_of, open_healed
from holdfast.store.location import Location

TARGET = "self"
ON_A_SERVER = "the store is on a database server, of which no backup was made"
CUT_SHORT = "it was cut short; the old bytes are kept in {}"


async def diagnose(home: Home, location: Location) -> Diagnosis:
    """Look at everything, content included; nothing is changed, not even a lock file."""
    found = await _look(home, location)
    shown = [
        Finding(code=f.code, subject=f.subject, text=f.text, action=f.action, evidence=f.evidence)
        for f in found
    ]
    state = finding.fingerprint(found)
    return Diagnosis(target=TARGET, path=home.path, findings=shown, state=state)


async def _look(home: Home, location: Location) -> list[finding.Finding]:
    if not home.exists() and location.kind == "sqlite" and not os.path.exists(location.address):
        raise errors.StoreMissing(f"there is no Holdfast home at {home.path}")
    if location.kind == "postgres":
        from holdfast.store.postgres.asking import ask_once

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
    rules = Registry.from_config(config.load(home).get("agents", {})).token_rules()
    home.make()
    with home.lock("doctor self"), operation.alone(home, home.path):
        for old, intent in cases.pending(home, home.path):
            old.write_receipt(_receipt(intent, [], sealed=CUT_SHORT.format(old.folder)))
        case = Case.new(home)
        seen = dict(_signatures(home))
        intent = _stage(case, home, location, found)
        store, report = await open_healed(location, home, rules, deep=True, progress=progress)
        await store.close()
        receipt = _end(intent, home, location, seen, report)
        case.write_receipt(receipt)
    return receipt


def undo(home: Home, receipt: Receipt) -> Receipt:
    """Give back the database and mirrors as they were; refused if any has changed since."""
    with home.lock("doctor self"), operation.alone(home, home.path):
        return operation.give_back(Case(home, receipt.id), receipt)


def _stage(case: Case, home: Home, location: Location, found: Diagnosis) -> Intent:
    """Backups of the database and of every file that a finding is about."""
    items = []
    if location.kind == "sqlite":
        items.append(_kept(case, 0, "database", location.address))
    subjects = {f.subject for f in found.findings}
    for path, _ in _signatures(home):
        if any(os.path.basename(path).startswith(subject) for subject in subjects):
            items.append(_kept(case, len(items), "file", path))
    intent = Intent(
        id=case.id,
        at=clock.now(),
        target=TARGET,
        path=home.path,
        fingerprint=found.fingerprint,
        actions={f.id: f.action for f in found.findings if f.action},
        items=items,
    )
    case.write_intent(intent)
    return intent


def _kept(case: Case, number: int, kind: cases.Kind, path: str) -> Item:
    endings = ("",) if kind == "file" else ENDINGS
    before = {ending: files.keep(path + ending, case.old(number, ending)) for ending in endings}
    return Item(kind=kind, path=path, before=before)


def _end(
    intent: Intent, home: Home, location: Location, seen: dict[str, Signature | None], report: Report
) -> Receipt:
    items = [replace(item, after={"": mark(item.path)}) for item in intent.items]
    known = {item.path for item in items}
    now = dict(_signatures(home))
    sealed = ON_A_SERVER if location.kind == "postgres" else None
    for path in sorted(set(now) | set(seen)):
        if path in known or now.get(path) == seen.get(path):
            continue
        if path in seen:
            sealed = f"{path} was mended too, and is not among the backups"
        items.append(Item(kind="file", path=path, before={"": None}, after={"": mark(path)}))
    receipt = _receipt(intent, items, sealed=sealed)
    return replace(
        receipt,
        actions={done.finding: done.result for done in report.done},
        problems=list(report.problems),
        kept=[path for done in report.done for path in done.kept],
    )


def _receipt(intent: Intent, items: list[Item], sealed: str | None) -> Receipt:
    return Receipt(
        id=intent.id,
        at=clock.now(),
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
