"""No line can stop a task: recorded streams with anything put anywhere in them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.driver import DriverOutput
from holdfast.agents.registry import AgentRegistry
from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import check_plain, encode
from holdfast.transcripts import jsonl as lines
from tests.support.recorded_streams import Recording

RECORDINGS = [
    Recording("claude-2.1.325", name)
    for name in ("background", "interrupt_asking", "api_429", "asked_denied")
] + [Recording("codex-0.166.0", name) for name in ("tools", "patch", "resume_other")]
ODD: list[Any] = [
    None,
    7,
    0.5,
    True,
    "",
    "x",
    "a\0b",
    "\ud800",
    [],
    [1],
    ["x"],
    {},
    {"x": []},
    [{"type": []}],
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in inside for place in _places(inner, (*path, key)))]


def _put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _put(value[path[0]], path[1:], odd)
    return copy


def _look(out: DriverOutput | None) -> None:
    for entry in out.entries if out is not None else []:
        if isinstance(entry, NewEvent):
            check(entry)
            encode(entry.body)
            if entry.origin is not None:
                check_plain("origin", entry.origin.agent + entry.origin.native_id + entry.origin.record_id)
        else:
            check_plain("id", entry.native_id)
    for sent in out.sends if out is not None else []:
        assert sent.endswith(b"\n") and sent.count(b"\n") == 1 and isinstance(lines.parse(sent[:-1]), dict)


@given(st.data())
def test_anything_may_be_anywhere(data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(RECORDINGS))
    driver = AgentRegistry.from_config({recording.agent: {}}).make_driver(recording.job)
    _look(driver.start_messages())
    changed = data.draw(st.sets(st.integers(0, len(recording.lines) - 1), min_size=1, max_size=4))
    for i, line in enumerate(recording.lines):
        if i in changed:
            record = json.loads(line)
            place = data.draw(st.sampled_from(_places(record)))
            line = json.dumps(_put(record, place, data.draw(st.sampled_from(ODD)))).encode()
        _look(driver.on_line(line))
        for ask in list(driver.pending_permissions)[:1]:
            if data.draw(st.booleans()):
                _look(driver.answer(ask, "allow"))
    _look(driver.interrupt())
    _look(driver.on_eof())
    if driver.final is not None:
        encode(driver.final)
