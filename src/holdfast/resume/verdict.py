"""Is this session safe to resume? A pure decision over the facts, by one table of rules."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.resume.environment import LiveProcess
from holdfast.resume.facts import ArchiveState, ResumeFacts
from holdfast.resume.next_steps import NEXT_STEPS
from holdfast.resume.rule_evidence import PROBLEM, Evidence
from holdfast.resume.rules import ARCHIVED_RULE, RULES, SAFE_RULES, Action, VerdictRule, rule_of

TOO_SOON = "too_soon"


class Reason(msgspec.Struct, frozen=True):
    """Why: a code, sentences for a person, and what shows it."""

    code: str
    text: str  # ends with what to do next
    evidence: Evidence = {}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done, and why."""

    action: Action
    reasons: list[Reason]
    session: str
    token: str | None


def judge(facts: ResumeFacts, *, fork: bool = False) -> Verdict:
    """The verdict; `fork`: the caller prefers a copy to a new conversation where both will do."""
    found = [(row, shown) for row in RULES for shown in row.shows(facts)]
    if any(row.action == "fresh" for row, _ in found):  # what is not loaded at all need not be waited for
        found = [(row, shown) for row, shown in found if row.code != TOO_SOON]
    action: Action = "resume"
    if any(row.action == "wait" for row, _ in found):
        action = "wait"
    elif found:
        forked = fork and facts.can_fork and all(row.fork for row, _ in found)
        action = "fork" if forked else "fresh"
    ranked = sorted(found, key=lambda one: one[0].action != action)  # what decides it comes first
    safe = [(row, shown) for row in SAFE_RULES for shown in row.shows(facts)]
    reasons = [_reason(facts, *one) for one in ranked or safe]
    can_fork = facts.can_fork and all(row.fork for row, _ in found)
    reasons += [_archived(facts, shown, can_fork) for shown in ARCHIVED_RULE.shows(facts)]
    return Verdict(action=action, reasons=reasons, session=facts.session, token=facts.token)


def wants_brief(verdict: Verdict) -> bool:
    """Whether a fresh run after this verdict is told what happened."""
    return any(rule_of(reason.code).brief for reason in verdict.reasons)


def is_short_wait(verdict: Verdict) -> bool:
    """Whether nothing but a little time is waited for."""
    waits = {reason.code for reason in verdict.reasons if rule_of(reason.code).action == "wait"}
    return waits == {TOO_SOON}


def reasons_text(verdict: Verdict) -> str:
    """The reasons in one line, for a log or an error: without what to do next."""
    return "; ".join(sentence_of(verdict, reason) for reason in verdict.reasons)


def sentence_of(verdict: Verdict, reason: Reason) -> str:
    """Why, without what to do next."""
    return reason.text.removesuffix(f". {_next_step(verdict.session, rule_of(reason.code), reason.evidence)}")


def return_commands(session: str, archived: ArchiveState, can_fork: bool) -> str:
    """The commands that continue an archived session."""
    key = f" and takes the key {archived.key} back from session {archived.holder}" if archived.holder else ""
    ways = [f"`holdfast resume {session} --anyway` brings it back{key}"]
    if can_fork:
        ways.append(f"`holdfast resume {session} --fork` continues in a copy of its conversation")
    return "; ".join(ways)


def _archived(facts: ResumeFacts, evidence: Evidence, can_fork: bool) -> Reason:
    assert facts.archived is not None
    note = facts.archived
    why = f" by {note.by}: {note.reason}" if note.reason else f" by {note.by}" if note.by else ""
    text = f"it is archived{why}. A plain resume is refused; {return_commands(facts.session, note, can_fork)}"
    return Reason(ARCHIVED_RULE.code, text, evidence)


def _reason(facts: ResumeFacts, row: VerdictRule, evidence: Evidence) -> Reason:
    shown = {name: _named(value) for name, value in evidence.items()}
    sentence = row.text.format_map(shown).removesuffix(".")
    text = f"{sentence}. {_next_step(facts.session, row, evidence)}"
    return Reason(evidence.get(PROBLEM, row.code), text, evidence)


def _next_step(session: str, row: VerdictRule, evidence: Evidence) -> str:
    shown = {name: _named(value) for name, value in evidence.items()}
    return NEXT_STEPS.get(row.code, "").format_map({"task": "TASK", **shown, "session": session})


def _named(value: Any) -> Any:
    """A value as a sentence names it."""
    if isinstance(value, list):
        named = [_named(one) for one in value]
        return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")
    if isinstance(value, dict) and "pid" in value:
        return LiveProcess(value["pid"], value["command"]).shown()
    if isinstance(value, dict):
        return str(value.get("what", value))
    return str(value)
