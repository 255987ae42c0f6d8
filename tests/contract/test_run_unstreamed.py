"""An agent dies, and its own store has more of what it did than its stream showed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import errors
from holdfast.agents.demo.reader import DemoReader
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.process import identity
from holdfast.runner import finish, replay
from holdfast.runner.context import Context
from holdfast.settings import Settings
from holdfast.shortage import Shortages
from holdfast.store.store import Store
from holdfast.store.types import Dispatch
from holdfast.transcripts.backups import TranscriptBackup
from holdfast.transcripts.reader import SessionRef
from tests.support import silent_agent as hushed_agent
from tests.support.terminal import Terminal

SPOKEN = ("user", "assistant", "tool_progress", "tool_summary")
SCRIPT: list[dict[str, Any]] = [
    {"say": "One by one.", "chunk": 4},
    {"tool": "shell", "run": "echo ran >> ran; echo https://git.example.org/o/r/pulls/7"},
    {"say": "Two."},
    {"die": "KILL"},
]
WHOLE = ["user", "assistant", "tool_progress", "tool_summary", "assistant"]


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Terminal:
    where = tmp_path / "work"
    where.mkdir()
    return Terminal(home, str(where))


def hush(terminal: Terminal, word: str) -> None:
    terminal.config(f"[agents.demo]\ncommand = {json.dumps([sys.executable, hushed_agent.__file__, word])}\n")


@pytest.mark.parametrize(
    ("word", "shown"),
    [('"sessionId"', 0), ('"agent_message_chunk"', 2), ('"tool_call"', 3)],
    ids=["before it took the prompt", "in its words", "in its tool"],
)
def test_what_its_store_tells_is_in_the_log(terminal: Terminal, word: str, shown: int) -> None:
    hush(terminal, word)
    task = terminal.run(*SCRIPT, status=13)
    assert (task["status"], task["delivery"]) == ("interrupted", "accepted")
    assert Path(terminal.cwd, "ran").read_text() == "ran\n", "it was run again"
    log = terminal.log(task["session"])
    told = [event for event in log if event["kind"] in SPOKEN]
    assert [event["kind"] for event in told if not event["body"].get("cut")] == WHOLE
    assert [event["replayed"] for event in told].count(False) == shown
    assert [e["body"]["outcome"] for e in told if e["kind"] == "tool_summary"] == ["ok"]
    borders = [e for e in log if e["kind"] == "notice" and e["body"]["code"] == "replayed"]
    assert len(borders) == 1 and borders[0]["replayed"]
    assert "links" not in task["outcome"], "what is replayed has no effect"


def test_the_next_prompt_adds_nothing_of_it_again(terminal: Terminal) -> None:
    hush(terminal, '"tool_call"')
    session = terminal.run(*SCRIPT, status=13)["session"]
    before = terminal.log(session)
    terminal.config("")
    terminal.give("resume", session, "--anyway", '<<[{"say":"Three."}]>>')
    after = terminal.log(session)
    assert after[: len(before)] == before
    assert not any(event["replayed"] for event in after[len(before) :])


async def with_demo_file(store: Store, home: Home, monkeypatch: pytest.MonkeyPatch) -> tuple[Context, Task]:
    """A task in a session of the demo agent, whose reader finds a file."""
    made = await store.create_session("demo", cwd=home.path)
    queued = await store.dispatch(Dispatch(made.id, "go", {}))
    task = await store.claim(queued.id, queued.generation, identity.me("here"), 60)
    home.make()
    path = Path(home.path, "d-1.jsonl")
    path.write_text('{"type":"session","id":"d-1","cwd":"/"}\n')
    monkeypatch.setattr(
        DemoReader, "find", lambda *_: [SessionRef(agent="demo", native_id="d-1", path=str(path))]
    )
    assert store.node is not None
    owner = identity.me(store.node.id)
    watch, settings = cast(Any, None), Settings()
    context = Context(store, home, AgentRegistry(), settings, watch, owner, store.node, {}, Shortages())
    return context, task


@pytest.mark.parametrize(
    "problem", [errors.StoreBusy("never at rest"), errors.DiskFull("no room"), ValueError("odd")]
)
async def test_a_reader_that_fails_is_told_and_stops_no_end(
    store: Store, home: Home, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise problem

    context, task = await with_demo_file(store, home, monkeypatch)
    monkeypatch.setattr(DemoReader, "events", fails)
    rest = [NewEvent("assistant", {"text": "half", "cut": True})]
    told = await finish.unstreamed_events(context, task, AgentRegistry().get("demo"), "d-1", rest)
    assert told.entries[0] == rest[0] and not told.level
    (said,) = [e.body for e in told.entries[1:] if isinstance(e, NewEvent)]
    assert said["code"] == "replay_failed" and str(problem) in said["text"]


@pytest.mark.parametrize("where", ["find", "events"])
@pytest.mark.parametrize(
    "problem", [errors.StoreBusy("never at rest"), errors.StoreUnreadable("odd rows"), OSError("gone")]
)
async def test_a_past_that_cannot_be_read_is_told_and_stops_no_run(
    store: Store, home: Home, where: str, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise problem

    context, task = await with_demo_file(store, home, monkeypatch)
    monkeypatch.setattr(DemoReader, where, fails)
    await replay.catch_up(context, task, AgentRegistry().get("demo"), "d-1")
    (said,) = [e.body for e in await store.events(task.session) if e.kind == "error"]
    assert said["code"] == "replay_failed" and str(problem) in said["text"]


async def test_a_full_disk_of_our_own_stops_a_run(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise errors.DiskFull("no room")

    context, task = await with_demo_file(store, home, monkeypatch)
    monkeypatch.setattr(TranscriptBackup, "update", full)
    with pytest.raises(errors.DiskFull):
        await replay.catch_up(context, task, AgentRegistry().get("demo"), "d-1")


def test_a_store_that_cannot_be_read_is_told_and_stops_nothing(terminal: Terminal) -> None:
    hush(terminal, '"tool_call"')
    demo = Path(terminal.env["HOLDFAST_DEMO_HOME"])
    spoil = f"sleep 0.2; for f in {demo}/*.jsonl; do rm $f; mkdir $f; done"
    task = terminal.run({"tool": "shell", "run": spoil}, {"die": "KILL"}, status=13)
    assert task["status"] == "interrupted"
    ends = [e["body"]["outcome"] for e in terminal.log(task["session"]) if e["kind"] == "tool_summary"]
    assert ends == ["interrupted"]
