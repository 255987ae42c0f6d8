"""What Claude Code says before a block is whole: in the log only when it died there."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.claude.driver import ClaudeDriver
from holdfast.agents.driver import AgentJob, Entry
from holdfast.model.event import NewEvent
from tests.support.recorded_streams import Recording, Replay

VERSIONS = ("claude-2.1.197", "claude-2.1.325")
NAMES = ("live_text", "live_subagent", "live_dropped", "live_interrupt", "live_killed")
RECORDINGS = {(version, name): Recording(version, name) for version in VERSIONS for name in NAMES}


class Heard:
    """What a driver tells of lines: its entries, and after each line what is being said."""

    def __init__(self, job: AgentJob, lines: list[bytes]):
        self.driver = ClaudeDriver(job)
        self.driver.start_messages()
        self.entries: list[Entry] = []
        self.drafts: list[tuple[str, str] | None] = []
        for line in lines:
            self.entries += self.driver.on_line(line).entries
            self.drafts.append(self.driver.partial_text())

    def spoken(self) -> list[tuple[str, str]]:
        """The texts that came whole."""
        events = [entry for entry in self.entries if isinstance(entry, NewEvent)]
        kinds = ("assistant", "thinking")
        return [(e.kind, e.body["text"]) for e in events if e.kind in kinds and "parent" not in e.body]


def _is_piece(line: bytes) -> bool:
    return bool(json.loads(line)["type"] == "stream_event")


def _without(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if not _is_piece(line)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["live_text", "live_subagent"])
def test_every_block_is_told_as_it_grows_until_it_is_whole(version: str, name: str) -> None:
    recording = RECORDINGS[version, name]
    heard = Heard(recording.job, recording.lines)
    told: list[list[str]] = []  # for each block: the texts that were told of it
    kinds = []
    for before, draft in zip([None, *heard.drafts], heard.drafts, strict=False):
        if draft is not None and before is None:
            kinds.append(draft[0])
            told.append([])
        if draft is not None:
            told[-1].append(draft[1])
    spoken = heard.spoken()
    assert [kind for kind, _ in spoken] == kinds
    assert [texts[-1] for texts in told] == [text for _, text in spoken], "nothing else is ever told"
    for texts in told:
        assert all(later.startswith(text) for text, later in pairwise(texts))
    assert any(len(set(texts)) > 5 for texts in told)
    records = [json.loads(line) for line in recording.lines]
    whole = [r["type"] == "assistant" and r["parent_tool_use_id"] is None for r in records]
    assert not [
        draft for draft, ended in zip(heard.drafts, whole, strict=True) if ended and draft is not None
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_pieces_change_nothing_in_the_log(version: str, name: str) -> None:
    recording = RECORDINGS[version, name]
    lines = recording.lines
    assert sum(map(_is_piece, lines)) > 5
    whole, bare = Heard(recording.job, lines), Heard(recording.job, _without(lines))
    assert whole.entries == bare.entries and whole.driver.final == bare.driver.final
    assert not any(bare.drafts)
    Replay(recording)  # and what was sent then would be sent again


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_half_said_when_it_was_killed_is_kept_and_marked(version: str) -> None:
    replay = Replay(RECORDINGS[version, "live_killed"])
    last = replay.events[-1]
    assert last.kind == "assistant" and last.body["cut"] is True and last.origin is None
    assert last.body["text"].startswith("word0 word1 word2 word3") and replay.driver.final is None
    assert [event.body["text"] for event in replay.events if event.kind == "assistant"][:-1] == [
        "A tool first."
    ]
    assert replay.driver.partial_text() is None and replay.driver.on_eof().entries == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["live_dropped", "live_interrupt"])
def test_what_was_given_up_is_not_told_twice(version: str, name: str) -> None:
    """A broken stream of the model is asked for again; an interrupted one is told as far as it came."""
    recording = RECORDINGS[version, name]
    replay = Replay(recording)
    (said,) = [event for event in replay.events if event.kind == "assistant"]
    assert "cut" not in said.body and said.body["text"].startswith("word0 word1 word2 word3")
    assert replay.driver.final is not None
    drafts = [draft for draft in Heard(recording.job, recording.lines).drafts if draft is not None]
    assert all(said.body["text"].startswith(text) for _, text in drafts)


@given(st.data())
def test_cut_anywhere_the_log_is_the_same_but_for_the_last_words(data: st.DataObject) -> None:
    """A new hub hears the same bytes again: up to any place they give what they gave without the pieces."""
    recording = RECORDINGS[data.draw(st.sampled_from(list(RECORDINGS)))]
    lines = recording.lines[: data.draw(st.integers(0, len(recording.lines)))]
    whole, bare = Heard(recording.job, lines), Heard(recording.job, _without(lines))
    assert whole.entries == bare.entries
    draft = whole.driver.partial_text()
    rest, bare_rest = whole.driver.on_eof().entries, bare.driver.on_eof().entries
    words = [NewEvent(draft[0], {"text": draft[1], "cut": True})] if draft is not None else []
    assert rest == [*words, *bare_rest]
    assert whole.driver.final == bare.driver.final


# --- lines that no recording has

_WORDS = st.sampled_from(
    ["type", "event", "delta", "content_block", "text", "thinking", "index", "parent_tool_use_id"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)
_TYPES = st.sampled_from(
    ["content_block_start", "content_block_delta", "text_delta", "thinking_delta", "text", "message_start"]
)
_PIECE = st.dictionaries(_WORDS, _JSON | _TYPES, max_size=5)


@given(event=_JSON | st.fixed_dictionaries({"type": _TYPES, "delta": _PIECE, "content_block": _PIECE}))
def test_an_odd_piece_is_no_event_and_no_failure(event: Any) -> None:
    driver = ClaudeDriver(RECORDINGS[VERSIONS[0], "live_text"].job)
    line = json.dumps({"type": "stream_event", "event": event, "parent_tool_use_id": None}).encode()
    assert driver.on_line(line).entries == []
    driver.partial_text()


def _said(text: str, parent: str | None = None, kind: str = "text") -> dict[str, Any]:
    delta = {"type": f"{kind}_delta", kind: text}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent}


def _hear(driver: ClaudeDriver, *records: dict[str, Any]) -> None:
    for record in records:
        driver.on_line(json.dumps(record).encode())


def test_a_subagent_does_not_speak_in_the_agents_place() -> None:
    driver = ClaudeDriver(RECORDINGS[VERSIONS[0], "live_text"].job)
    block = {"content": [{"type": "text", "text": "whole"}]}
    _hear(driver, _said("mine, "), _said("its", parent="toolu_1"), _said("and mine"))
    assert driver.partial_text() == ("assistant", "mine, and mine")
    _hear(driver, {"type": "assistant", "message": block, "parent_tool_use_id": "toolu_1", "uuid": "u1"})
    assert driver.partial_text() == ("assistant", "mine, and mine")
    _hear(driver, {"type": "assistant", "message": block, "parent_tool_use_id": None, "uuid": "u2"})
    assert driver.partial_text() is None


def test_thinking_is_told_as_thinking_and_a_cut_character_is_put_together() -> None:
    driver = ClaudeDriver(RECORDINGS[VERSIONS[0], "live_text"].job)
    _hear(driver, _said("so ", kind="thinking"))
    assert driver.partial_text() == ("thinking", "so ")
    _hear(driver, _said("a \ud83d"))
    assert driver.partial_text() == ("assistant", "a \ud83d")
    _hear(driver, _said("\ude00"))
    assert driver.partial_text() == ("assistant", "a 😀")


def test_the_end_of_a_turn_ends_what_was_being_said() -> None:
    driver = ClaudeDriver(RECORDINGS[VERSIONS[0], "live_text"].job)
    _hear(driver, _said("half"), {"type": "result", "subtype": "success", "is_error": True})
    assert driver.partial_text() is None and driver.on_eof().entries == []
