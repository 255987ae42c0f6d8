"""What people ask of a task, as records."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import errors
from holdfast.model.event import Event
from holdfast.runner import control

AT = "2026-01-01T00:00:00.000000Z"
ASKED: dict[str, Any] = {
    "call": "c1",
    "ask": "7",
    "name": "Bash",
    "input": {},
    "options": [],
    "answer": None,
    "by": None,
}
OTHER = {**ASKED, "call": "c2", "ask": "9"}


def event(kind: str, body: dict[str, Any], replayed: bool = False, seq: int = 1) -> Event:
    return Event(seq, kind, body, AT, "t", replayed)


def test_the_first_answer_counts_and_replays_do_not() -> None:
    deny = event("permission", {**ASKED, "answer": "deny", "by": "bob"})
    allow = event("permission", {**ASKED, "answer": "allow", "by": "ann"})
    replay = event("permission", {**ASKED, "ask": "8", "answer": "allow"}, replayed=True)
    found = control.requests([event("permission", ASKED), deny, allow, replay])
    assert found.answers == {"7": "deny"}


def test_an_id_that_is_used_again_waits_for_an_answer_of_its_own() -> None:
    asked, again = event("permission", ASKED, seq=1), event("permission", ASKED, seq=3)
    allowed = control.answer_event(asked, "allow", "ann")
    past = [asked, event(allowed.kind, allowed.body), again]
    assert control.requests(past).answers == {} and control.waiting(past) == [again]
    denied = control.answer_event(again, "deny", "ann")
    assert control.requests([*past, event(denied.kind, denied.body)]).answers == {"7": "deny"}
    assert allowed.origin != denied.origin, "or the log would take the second for the first"


def test_what_waits_for_an_answer() -> None:
    asked = [event("permission", ASKED), event("permission", OTHER, seq=2)]
    assert control.waiting(asked) == asked
    answered = control.answer_event(asked[0], "allow", "ann")
    assert answered.body == {**ASKED, "answer": "allow", "by": "ann"}
    assert answered.origin == control.answer_event(asked[0], "deny", "bob").origin, (
        "the log takes one of them"
    )
    assert control.waiting([*asked, event("permission", answered.body)]) == asked[1:]


def test_one_call_or_all_are_meant() -> None:
    asked = [event("permission", ASKED), event("permission", OTHER)]
    assert control.choose(asked, None, "t") == asked
    assert control.choose(asked, "c2", "t") == asked[1:]
    with pytest.raises(errors.NotFound):
        control.choose([], None, "t")


def test_wishes_to_stop_are_counted() -> None:
    wish = control.cancel_event("ann")
    assert control.requests([event(wish.kind, wish.body)] * 2).cancels == ("ann", "ann")
    other = event("notice", {"text": "x", "code": "y"})
    assert control.requests([other]).cancels == ()
