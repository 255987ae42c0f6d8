"""The doctor of our own home: the findings of recovery, shown before anything is done."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import msgspec

from holdfast import config, errors
from holdfast.agents.registry import Registry
from holdfast.home import Home
from holdfast.recover import database
from holdfast.recover.examine import Looked, examine
from holdfast.recover.finding import Done, Finding, as_json, fingerprint
from holdfast.recover.heal import Progress, host_of, open_healed
from holdfast.store.location import Location

TARGET = "self"


class Diagnosis(msgspec.Struct, frozen=True):
    """What was seen, and what would be done about it."""

    findings: list[Finding]

    @property
    def plan(self) -> list[dict[str, str]]:
        """The repairs, in words."""
        return [{"finding": f.id, "action": f.action} for f in self.findings if f.action]

    @property
    def fingerprint(self) -> str:
        """Names the state that the plan was made from."""
        return fingerprint(self.findings)

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "target": TARGET,
            "findings": [as_json(f) for f in self.findings],
            "plan": self.plan,
            "fingerprint": self.fingerprint,
        }


class Receipt(msgspec.Struct, frozen=True):
    """What was done."""

    fingerprint: str
    done: list[Done]
    problems: list[str]

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {"target": TARGET, **msgspec.to_builtins(self)}


async def diagnose(home: Home, location: Location) -> Diagnosis:
    """Look at everything, content included; nothing is changed, not even a lock file."""
    if not home.exists() and location.kind == "sqlite" and not os.path.exists(location.address):
        raise errors.StoreMissing(f"there is no Holdfast home at {home.path}")
    if location.kind == "postgres":
        from holdfast.store.postgres.asking import ask_once

        looked: Looked = await ask_once(
            location.address, lambda sql: examine(sql, home, host_of(location), True)
        )
        return Diagnosis(looked.findings)
    damage = database.examine(location.address, home, deep=True)
    looked = await _look_at_sqlite(home, location, damage is not None)
    return Diagnosis([*([damage] if damage else []), *looked.findings])


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
    with home.lock("doctor self"):
        store, report = await open_healed(location, home, rules, deep=True, progress=progress)
        await store.close()
    return Receipt(plan, report.done, report.problems)


def read_plan(given: str) -> str:
    """The fingerprint in what `--apply` was given: itself, a file of `doctor --json`, or `-` for stdin."""
    if given != "-" and not os.path.exists(given):
        return given
    try:
        if given == "-":
            plan = json.load(sys.stdin)
        else:
            with open(given, encoding="utf-8") as file:
                plan = json.load(file)
        if plan["target"] != TARGET:
            raise errors.BadInput(f"{given} is a plan for {plan['target']}")
        return str(plan["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise errors.BadInput(f"{given} is not a plan of the doctor's: {problem}") from None
