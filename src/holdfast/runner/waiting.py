"""A task that cannot start yet: what it waits for, until when, and what its policy does then."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from holdfast import timestamps
from holdfast.model.changes import SetStatus
from holdfast.model.task import Task, WaitingFor
from holdfast.resume.rules import rule_of
from holdfast.resume.verdict import Verdict, sentence_of
from holdfast.runner.context import header
from holdfast.runner.task_options import LEFTOVERS
from holdfast.settings import Leftovers, Settings

TEXT = 1000  # characters of what a task waits for

CAUSES = {"tools_running": "leftovers", "live_owner": "owner", "too_soon": "too_soon"}
PERSON = "person"  # the time is over, and the policy asks


class WaitPolicy(NamedTuple):
    """How long one task waits, and what happens then."""

    leftovers: Leftovers
    leftovers_s: float
    time_limit_s: float | None


class WaitStep(NamedTuple):
    """What to do with a task that must not start now."""

    do: Literal["wait", "end", "ignore", "cancel"]
    waiting_for: WaitingFor
    not_before: str | None = None
    decided_in: tuple[float, ...] = ()  # seconds from now to the times at which something is decided

    def change(self) -> SetStatus:
        """The change that lets the task wait."""
        text = self.waiting_for.text
        return SetStatus(
            status="waiting", reason=text, waiting_for=self.waiting_for, not_before=self.not_before
        )


def policy_of(task: Task, settings: Settings) -> WaitPolicy:
    """The policy of the task, or of the settings where it has none."""
    run = settings.run
    chosen: Leftovers = task.options.get(LEFTOVERS) or run.leftovers
    return WaitPolicy(chosen, run.leftovers_s, task.options.get("time_limit_s") or run.time_limit_s)


def step(
    found: Verdict, task: Task, policy: WaitPolicy, now: float, leftovers_of: Collection[str] = ()
) -> WaitStep:
    """What a `wait` verdict means for a task; `leftovers_of`: the dead tasks that left processes behind."""
    waits = [reason for reason in found.reasons if rule_of(reason.code).action == "wait"]
    causes = {CAUSES.get(rule_of(reason.code).code, rule_of(reason.code).code) for reason in waits}
    cause = next(iter(causes)) if len(causes) == 1 else "owner" if "owner" in causes else sorted(causes)[0]
    since = now if task.waiting_for is None else timestamps.parse(task.waiting_for.since)
    text = "; ".join(sentence_of(found, reason) for reason in waits)
    if leftovers_of:
        text += "; " + " or ".join(f"`holdfast cancel {one}`" for one in sorted(leftovers_of)) + " ends them"
    bounded = causes <= {"leftovers", "owner"}
    until = since + policy.leftovers_s if bounded else None
    if policy.time_limit_s is not None and now >= since + policy.time_limit_s:
        return WaitStep("cancel", _waiting(cause, text, since, until))
    if until is not None and now >= until:
        # Nobody ends a program that a person has open, nor starts beside it.
        if causes == {"leftovers"} and policy.leftovers != "wait":
            return WaitStep(policy.leftovers, _waiting(cause, text, since, until))
        cause, text = PERSON, f"it needs you: {text}"
    known = [timestamps.when_stamp(reason.evidence.get("until")) for reason in waits]
    not_before = max((at for at in known if at is not None), default=None)
    times = [until, None if not_before is None else timestamps.parse(not_before)]
    times.append(None if policy.time_limit_s is None else since + policy.time_limit_s)
    decided_in = tuple(at - now for at in times if at is not None)
    return WaitStep("wait", _waiting(cause, text, since, until), not_before, decided_in)


def _waiting(cause: str, text: str, since: float, until: float | None) -> WaitingFor:
    return WaitingFor(
        cause=cause,
        text=header(text, TEXT),
        since=timestamps.stamp(since),
        until=None if until is None else timestamps.stamp(until),
    )
