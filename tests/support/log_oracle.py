"""What a task's log must hold, told from its spool: a fresh driver hears all of it, undisturbed."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.driver import AgentJob, Entry
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.event import Event, NewEvent
from holdfast.resume.log_evidence import NOT_LAUNCHED
from holdfast.runner.control import CANCEL, requests
from holdfast.runner.finish import GIVEN_BACK
from holdfast.spool import archive
from holdfast.spool.task_dir import Spool

# Notices and errors that are the runner's own, not the agent's.
OURS = {
    *("survivors", GIVEN_BACK, NOT_LAUNCHED, "pull_request", "left_behind", "launch", CANCEL),
    *("resume_attempt", "not_resumed", "waiting", "overruled"),
    *("relay_restarted", "input_lost", "spool_shrunk", "drained", "set_aside"),
}

Told = tuple[str, dict[str, Any]]


def spooled(home: Home, task: str, registry: AgentRegistry, events: list[Event]) -> list[Told]:
    """The events of a task as its spool tells them, and the answers that were given."""
    answers = requests([event for event in events if event.task == task]).answers
    spool = Spool(home.task(task))
    job = msgspec.convert(spool.launch()["job"], AgentJob)
    driver = registry.make_driver(job)
    entries: list[Entry] = [*driver.start_messages().entries]
    for line in archive.lines(spool):
        if line.data is not None:
            entries += driver.on_line(line.data).entries
        else:
            entries.append(NewEvent("notice", {"code": line.problem}))
        for ask in [ask for ask in driver.pending_permissions if ask in answers]:
            driver.answer(ask, answers[ask])
    entries += driver.on_eof().entries
    return [told(e.kind, e.body) for e in entries if isinstance(e, NewEvent)]


def logged(events: list[Event], task: str) -> list[Told]:
    """The same as its log tells them: the agent's events, without the answers that people gave.

    What the agent's store told besides is left out, but for the ends of calls that its stream began.
    """
    own = [event for event in events if event.task == task]
    begun = {event.body["call"] for event in own if event.kind == "tool_progress" and not event.replayed}
    return [
        told(event.kind, event.body) if not event.replayed else _ended(event.body)
        for event in own
        if event.kind not in ("session", "token", "task")
        and not (event.kind in ("notice", "error") and event.body.get("code") in OURS)
        and not (event.kind == "permission" and event.body.get("by") not in (None, "policy"))
        and event.body.get("code") != "internal"
        and (not event.replayed or (event.kind == "tool_summary" and event.body["call"] in begun))
    ]


def told(kind: str, body: dict[str, Any]) -> Told:
    """What is compared of an event."""
    if body.get("code") == "too_long":
        return kind, {"code": "too_long"}
    denied = str(body.get("output")).startswith("Permission was")
    if kind == "tool_summary" and (denied or body["outcome"] == "interrupted"):
        # An answer may be recorded while the run that would pass it on is being settled; and where the stream
        # tells no end the agent's store may.
        return _ended(body)
    return kind, {name: value for name, value in body.items() if name != "duration_ms"}


def _ended(body: dict[str, Any]) -> Told:
    return "tool_summary", {"call": body["call"], "name": body["name"]}
