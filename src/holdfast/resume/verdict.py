"""May this session be gone on with? A pure judgement of the facts, by the rows of one table."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.resume.environment import Process
from holdfast.resume.facts import Facts
from holdfast.resume.rules import PROBLEM, ROWS, SOUND, Action, Evidence, Row, row_of

TOO_SOON = "too_soon"


class Reason(msgspec.Struct, frozen=True):
    """Why: a code, a sentence for a person, and what shows it."""

    code: str
    text: str
    evidence: Evidence = {}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done, and why."""

    action: Action
    reasons: list[Reason]
    session: str
    token: str | None


def judge(facts: Facts, *, fork: bool = False) -> Verdict:
    """The verdict; `fork`: the caller prefers a copy to a new conversation where both will do."""
    found = [(row, shown) for row in ROWS for shown in row.shows(facts)]
    if any(row.action == "fresh" for row, _ in found):  # what is not loaded at all need not be waited for
        found = [(row, shown) for row, shown in found if row.code != TOO_SOON]
    action: Action = "resume"
    if any(row.action == "wait" for row, _ in found):
        action = "wait"
    elif found:
        forked = fork and facts.can_fork and all(row.fork for row, _ in found)
        action = "fork" if forked else "fresh"
    ranked = sorted(found, key=lambda one: one[0].action != action)  # what decides it comes first
    reasons = [_reason(*one) for one in ranked or [(SOUND, shown) for shown in SOUND.shows(facts)]]
    return Verdict(action=action, reasons=reasons, session=facts.session, token=facts.token)


def wants_brief(verdict: Verdict) -> bool:
    """Whether a fresh run after this verdict is told what happened."""
    return any(row_of(reason.code).brief for reason in verdict.reasons)


def passes(verdict: Verdict) -> bool:
    """Whether nothing but a little time is waited for."""
    waits = {reason.code for reason in verdict.reasons if row_of(reason.code).action == "wait"}
    return waits == {TOO_SOON}


def told(verdict: Verdict) -> str:
    """The reasons in one line."""
    return "; ".join(reason.text for reason in verdict.reasons)


def _reason(row: Row, evidence: Evidence) -> Reason:
    shown = {name: _named(value) for name, value in evidence.items()}
    return Reason(evidence.get(PROBLEM, row.code), row.text.format_map(shown), evidence)


def _named(value: Any) -> Any:
    """A value as a sentence names it."""
    if isinstance(value, list):
        named = [_named(one) for one in value]
        return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
    if isinstance(value, dict) and "pid" in value:
        return Process(value["pid"], value["command"]).shown()
    if isinstance(value, dict):
        return str(value.get("what", value))
    return str(value)
