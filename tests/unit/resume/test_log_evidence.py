"""Our log as a witness, and what an agent's store lacks of it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.task import Status, Task
from holdfast.model.token import Token
from holdfast.resume import log_evidence
from holdfast.resume.log_evidence import MOST, gap
from holdfast.runner import sessions

TOKEN = Token("demo", "n1", "acp", "stream", "2026", "t1", "current")


def task(name: str, status: Status = "succeeded", delivery: Any = "accepted") -> Task:
    return Task(name, "s1", "do it", status, "2026", delivery)


def log(*entries: tuple[str, str, dict[str, Any]]) -> list[Event]:
    """Events of (task, kind, body)."""
    return [Event(seq, kind, body, "2026", name or None) for seq, (name, kind, body) in enumerate(entries, 1)]


def seen(native_id: str = "n1") -> tuple[str, str, dict[str, Any]]:
    return ("t1", "token", {"op": "seen", "native_id": native_id})


def note(name: str, event: NewEvent) -> tuple[str, str, dict[str, Any]]:
    return (name, event.kind, event.body)


def user(name: str, text: str = "do it") -> tuple[str, str, dict[str, Any]]:
    return (name, "user", {"text": text})


def status(name: str, became: str, reason: str | None = None) -> tuple[str, str, dict[str, Any]]:
    return (name, "task", {"op": "status", "status": became, "reason": reason})


@pytest.mark.parametrize(
    ("became", "delivery", "counts"),
    [
        ("succeeded", "accepted", True),
        ("failed", "accepted", True),
        ("failed", "sent", False),
        ("failed", "waiting", False),
        ("cancelled", "waiting", False),
        ("cancelled", "sent", True),
        ("interrupted", "sent", True),
        ("running", "sent", True),
        ("queued", "waiting", False),
    ],
)
def test_only_what_may_have_come_to_an_agent_counts(became: Any, delivery: str, counts: bool) -> None:
    tasks = [task("t1"), task("t2", became, delivery)]
    last = log_evidence.read([], tasks, TOKEN).last
    assert last is not None and last.id == ("t2" if counts else "t1")


def test_a_token_without_its_task() -> None:
    assert log_evidence.read([], [], TOKEN).missing
    imported = Token("demo", "n1", "acp", "import", "2026", None, "current")
    assert not log_evidence.read([], [], imported).missing and not log_evidence.read([], [], None).missing


def test_the_same_failure_is_counted_until_a_resume_succeeds() -> None:
    tries = sessions.attempt("n1")
    failing = [
        *(note("t2", tries), status("t2", "queued", "killed by 9")),
        *(note("t2", tries), status("t2", "failed", "exit 7")),
    ]
    assert log_evidence.read(log(seen(), *failing), [], TOKEN).failures == ("killed by 9", "exit 7")
    other = NewEvent("notice", {"code": log_evidence.OTHER, "text": ""})
    instead = [note("t3", tries), note("t3", other), status("t3", "succeeded")]
    found = log_evidence.read(log(seen(), *failing, *instead), [], TOKEN).failures
    assert len(found) == 3 and "another conversation" in found[-1]
    proof = NewEvent("notice", {"code": log_evidence.RESUMED, "native_id": "n1", "text": ""})
    proven = [note("t4", tries), note("t4", proof), status("t4", "failed", "API error")]
    assert log_evidence.read(log(seen(), *failing, *proven), [], TOKEN).failures == ()
    of_another = [note("t2", sessions.attempt("n0")), status("t2", "failed", "exit 7")]
    assert log_evidence.read(log(seen(), *of_another), [], TOKEN).failures == ()
    trusted = note("", sessions.trusted_event("ann", "looked", "t2"))
    assert log_evidence.read(log(seen(), *failing, trusted), [], TOKEN).failures == ()


def test_an_error_in_place_of_an_answer_is_none() -> None:
    failed = Task("t1", "s1", "x", "failed", "2026", "accepted", outcome={"answer": "I begin."})
    assert log_evidence.read(log(seen(), user("t1")), [failed], TOKEN).answered
    error = ("t1", "error", {"code": "agent_error", "text": "overloaded"})
    assert not log_evidence.read(log(seen(), user("t1"), error), [failed], TOKEN).answered
    assert not log_evidence.read(log(seen(), user("t1")), [task("t1", "failed")], TOKEN).answered


def test_trust_is_of_what_was_there() -> None:
    trusted = note("", sessions.trusted_event("ann", "looked", "t1"))
    tasks = [task("t1", "cancelled"), task("t2", "cancelled")]
    assert log_evidence.read(log(seen(), user("t1"), trusted), tasks[:1], TOKEN).trusted
    assert not log_evidence.read(log(seen(), user("t1"), trusted, user("t2")), tasks, TOKEN).trusted
    assert not log_evidence.read(log(seen(), trusted, user("t1")), tasks[:1], TOKEN).trusted


def test_what_the_agent_should_remember() -> None:
    events = log(user("t0", "before the token"), seen(), user("t1"), ("t1", "thinking", {"text": "hm"}))
    replayed = Event(9, "user", {"text": "old"}, "2026", None, True)
    assert [e.body["text"] for e in log_evidence.read([*events, replayed], [], TOKEN).shown] == ["do it"]
    proof = NewEvent("notice", {"code": log_evidence.RESUMED, "native_id": "n1", "text": ""})
    overruled = NewEvent("notice", {"code": log_evidence.OVERRULED, "by": "ann", "text": ""})
    went_on = log(seen(), user("t1"), note("t2", overruled), note("t2", proof), user("t2", "on"))
    assert [e.body["text"] for e in log_evidence.read(went_on, [], TOKEN).shown] == ["on"]
    not_proven = log(seen(), user("t1"), note("t2", overruled))
    assert len(log_evidence.read(not_proven, [], TOKEN).shown) == 1


# --- gaps

numbers = count(1)


def shown(kind: str, body: dict[str, Any], origin: Origin | None = None) -> Event:
    return Event(next(numbers), kind, body, "2026", "t1", False, origin)


CALL = {"call": "c1", "name": "shell", "input": {"command": "make"}}
RESULT = {"call": "c1", "name": "shell", "outcome": "ok", "output": "made"}


def stored(*events: Event) -> list[NewEvent]:
    return [NewEvent(event.kind, event.body) for event in events]


def test_what_both_have_is_no_gap_and_what_only_we_have_is_one() -> None:
    told = [shown("user", {"text": "do it"}), shown("tool_progress", CALL), shown("tool_summary", RESULT)]
    assert gap(told, stored(*told)) == []
    for lost in told:
        found = gap(told, stored(*[event for event in told if event is not lost]))
        gone = told[1:] if lost is told[1] else [lost]  # without its call a result tells nothing
        assert [one.seq for one in found] == [event.seq for event in gone]
    assert [one.kind for one in gap(told, [])] == ["user", "tool_progress", "tool_summary"]


def test_the_same_prompt_twice_must_be_there_twice() -> None:
    told = [shown("user", {"text": "go on"}), shown("user", {"text": "go on"})]
    assert len(gap(told, stored(told[0]))) == 1 and gap(told, stored(*told)) == []


def test_an_end_that_nobody_told_is_no_result() -> None:
    """Neither is it missing from a store, nor does it stand for the result that we saw."""
    cut = {**RESULT, "outcome": "interrupted", "output": "unknown"}
    call = shown("tool_progress", CALL)
    assert gap([call, shown("tool_summary", cut)], stored(call)) == []
    saw = [call, shown("tool_summary", RESULT)]
    assert [one.kind for one in gap(saw, [*stored(call), NewEvent("tool_summary", cut)])] == ["tool_summary"]


def test_copies_meet_by_origin_however_they_are_worded() -> None:
    origin = Origin("demo", "n1", "r1")
    told = [shown("user", {"text": "do it"}, origin)]
    assert gap(told, [NewEvent("user", {"text": '"do it"'}, origin=origin)]) == []
    assert len(gap(told, [NewEvent("user", {"text": '"do it"'})])) == 1


def test_what_is_named_is_bounded() -> None:
    found = gap([shown("user", {"text": "x" * 10_000 + str(n)}) for n in range(100)], [])
    assert len(found) == MOST and max(len(one.what) for one in found) <= 200
