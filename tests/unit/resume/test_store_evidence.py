"""The agent's own store as a witness: a reader that fails, and where a conversation can be copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from holdfast.agents import claude, codex, demo, opencode
from holdfast.agents.base import Agent
from holdfast.agents.driver import AgentJob
from holdfast.home import Home
from holdfast.model.event import Event, NewEvent, Origin
from holdfast.resume import store_evidence
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptReader

LAST = "76c9a2f0-0000-4000-8000-000000000002"


NATIVE = "76c9a2f0-1111-4111-8111-111111111111"


def _native(agent: Agent) -> str:
    return "ses_1" if agent is opencode.AGENT else NATIVE


def said(kind: str, text: str, record: str) -> NewEvent:
    return NewEvent(kind, {"text": text}, origin=Origin("claude", NATIVE, record))


class Reader(TranscriptReader):
    """A store with two turns, of which the last may be cut short."""

    agent = "claude"

    def __init__(self, complete: int | None = 1, turns: int = 2, problem: Exception | None = None):
        self._complete, self._turns, self._problem = complete, turns, problem

    def root(self, env: Mapping[str, str]) -> str:
        return "/store"

    def find(self, root: str, name: str) -> list[SessionRef]:
        return [SessionRef(agent="claude", native_id=name, path="/store/n1", cwd="/w")]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        return iter(())

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        yield said("user", "one", "76c9a2f0-0000-4000-8000-000000000000")
        yield said("assistant", "begun", "76c9a2f0-0000-4000-8000-000000000001")
        yield said("assistant", "done", f"{LAST}:1")
        yield said("user", "two", "76c9a2f0-0000-4000-8000-000000000003")
        yield said("assistant", "half", "76c9a2f0-0000-4000-8000-000000000004")

    def inspect(self, ref: SessionRef) -> Inspection:
        if self._problem is not None:
            raise self._problem
        return Inspection(
            agent="claude",
            native_id=NATIVE,
            path=ref.path,
            sound=True,
            turns=self._turns,
            last_complete=self._complete,
            cwd="/w",
        )

    def files(self, ref: SessionRef) -> list[str]:
        return []

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        return []

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        return []


@pytest.mark.parametrize(
    "problem", [ValueError("odd"), OSError("gone"), RecursionError("deep"), KeyError("x")]
)
def test_a_store_that_cannot_be_read_is_not_sound(home: Home, problem: Exception) -> None:
    seen = store_evidence.read_store(claude.AGENT, Reader(problem=problem), {}, home, NATIVE, [])
    assert not seen.store.sound and [p.code for p in seen.store.problems] == ["store_unreadable"]
    assert not seen.can_fork


def test_an_id_that_the_agent_cannot_have_finds_nothing(home: Home) -> None:
    """Not even where a file of that name is there."""
    seen = store_evidence.read_store(claude.AGENT, Reader(), {}, home, "--dangerously-skip-permissions", [])
    assert not seen.store.sound and [p.code for p in seen.store.problems] == ["bad_native_id"]
    assert not seen.can_fork


@pytest.mark.parametrize(
    ("agent", "complete", "turns", "expected"),
    [
        (claude.AGENT, 2, 2, (True, None)),
        (claude.AGENT, 1, 2, (True, LAST)),
        (claude.AGENT, None, 2, (False, None)),
        (demo.AGENT, 1, 2, (True, None)),
        (opencode.AGENT, 2, 2, (True, None)),
        (opencode.AGENT, 1, 2, (False, None)),
        (codex.AGENT, 2, 2, (False, None)),
    ],
)
def test_where_a_copy_ends(home: Home, agent: Agent, complete: int | None, turns: int, expected: Any) -> None:
    seen = store_evidence.read_store(agent, Reader(complete, turns), {}, home, _native(agent), [])
    assert (seen.can_fork, seen.fork_at) == expected


def shown(seq: int, task: str, kind: str, **body: Any) -> Event:
    return Event(seq, kind, body, "2026-01-01T00:00:00Z", task=task)


def log(*, second: str = "two") -> list[Event]:
    """Two tasks as their streams showed them; the store has none of their calls."""
    return [
        shown(1, "t1", "user", text="one"),
        shown(2, "t1", "tool_progress", call="c1", name="shell", input={"command": "one"}),
        shown(3, "t2", "user", text=second),
        shown(4, "t2", "tool_progress", call="c2", name="shell", input={"command": "two"}),
    ]


@pytest.mark.parametrize(
    ("complete", "second", "cut", "expected"),
    [
        (1, "two", "t2", [(2, False), (4, True)]),  # the last turn is cut short, and no copy has it
        (1, "two", None, [(2, False), (4, False)]),  # the last task ended well: it did what is not there
        (2, "two", "t2", [(2, False), (4, False)]),  # the turn is whole in the store, and would be copied
        (1, "three", "t2", [(2, False), (3, True), (4, True)]),  # not even its prompt came to the store
        (2, "one", "t2", [(2, False), (3, True), (4, True)]),  # the same words as before are another prompt
        (None, "two", "t2", [(2, False), (4, True)]),
    ],
)
def test_what_a_copy_leaves_out(
    home: Home, complete: int | None, second: str, cut: str | None, expected: list[tuple[int, bool]]
) -> None:
    seen = store_evidence.read_store(
        claude.AGENT, Reader(complete), {}, home, NATIVE, log(second=second), cut
    )
    assert [(gap.seq, gap.cut) for gap in seen.gaps] == expected


def test_the_words_that_copy_a_conversation_of_claude() -> None:
    job = AgentJob(
        agent="claude",
        session="s",
        task="t",
        prompt="p",
        cwd="/w",
        program=("claude",),
        native_id="new",
        fork_of="old",
        fork_at=LAST,
    )
    words = " ".join(claude.launch(job).argv)
    assert "--resume=old --fork-session" in words and f"--resume-session-at={LAST}" in words
    assert words.endswith("--session-id=new")
