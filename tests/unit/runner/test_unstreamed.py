"""The last entries of a task, and what its agent's store adds to them."""

from __future__ import annotations

from typing import Any

from holdfast.model.changes import Deliver
from holdfast.model.commit import Entry
from holdfast.model.event import NewEvent
from holdfast.runner.finish import merge


def end(call: str, outcome: str, **more: Any) -> NewEvent:
    return NewEvent("tool_summary", {"call": call, "name": "sh", "outcome": outcome, "output": ""}, **more)


def said(text: str, **more: Any) -> NewEvent:
    return NewEvent("assistant", {"text": text}, **more)


def test_nothing_is_added_to_what_is_whole() -> None:
    rest: list[Entry] = [said("half"), end("a", "interrupted"), Deliver(delivery="accepted")]
    assert merge(rest, []) == rest


def test_an_end_that_the_store_has_is_the_end() -> None:
    rest = [end("a", "interrupted"), end("b", "interrupted")]
    found = merge(rest, [end("b", "ok"), said("after")])
    assert found == [rest[0], end("b", "ok", replayed=True), said("after", replayed=True)]


def test_each_call_ends_once() -> None:
    found = merge([end("a", "interrupted")], [end("a", "interrupted"), end("c", "interrupted")])
    assert [(e.body["call"], e.replayed) for e in found if isinstance(e, NewEvent)] == [
        ("a", False),
        ("c", True),
    ]
