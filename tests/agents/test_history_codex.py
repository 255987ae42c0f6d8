"""Codex's own reading of a thread beside ours: `app-server` and its `thread/read`, on the same files.

What differs, and why:
- it leaves a call out that has no end; we end it as interrupted.
- it gives what a command printed; we give what the model was told, and the exit code.
- it leaves out calls of tools that it does not know.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.agents.codex import reader as match
from holdfast.agents.codex.reader import CodexReader
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import SessionRef
from tests.agents.agent import Agent, set_up
from tests.agents.fake_model.script import Step, prompt
from tests.agents.fake_model.server import FakeModel
from tests.agents.install import program
from tests.agents.waiting import until

READER = CodexReader()
RICH = (
    Step(think="I ponder.", say="One that fails.", shell="echo out; exit 3"),
    Step(tool="no_such_tool", args={"a": 1}),
    Step(text="All done."),
)
FAILS = (Step(status=400),)
LONG = (Step(say="It takes long.", shell="touch started; sleep 30"), Step(text="never"))


def test_the_same_as_its_own_reading(model: FakeModel, tmp_path: Path) -> None:
    agent = set_up("codex", str(tmp_path), model.url)
    root = READER.root(agent.env)
    _run(agent, prompt("one", RICH))
    (place,) = READER.sessions(root, agent.cwd)
    _run(agent, prompt("two", FAILS), place)
    process = _start(agent, prompt("three", LONG), place)
    until(lambda: os.path.exists(os.path.join(agent.cwd, "started")), "the tool runs")
    assert READER.owners(root, place) == [process.pid]
    tools = READER.tools(root, place)
    assert tools
    process.kill()
    process.wait()
    assert READER.owners(root, place) == []
    for pid in READER.tools(root, place):
        os.kill(pid, signal.SIGKILL)

    before = os.stat(place.path)
    theirs = _turns(agent, place)
    events = list(READER.events(place))
    found = READER.inspect(place)
    after = os.stat(place.path)
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
    assert [turn["status"] for turn in theirs] == ["completed", "failed", "interrupted"]
    assert (found.turns, found.last_complete) == (3, 1)
    dangling = {call["call"] for call in found.dangling}
    assert len(dangling) == 1
    ours = [e for e in events if e.kind in ("user", "assistant", "thinking", "tool_progress")]
    kept = [e for e in ours if e.body.get("call") not in dangling and e.body.get("name") != "no_such_tool"]
    assert list(match.keys(kept)) == list(match.keys(_events(theirs)))
    codes = {e.body["call"]: e.body.get("exit_code") for e in events if e.kind == "tool_summary"}
    for item in (item for turn in theirs for item in turn["items"] if item["type"] == "commandExecution"):
        assert codes[item["id"]] == item["exitCode"]


def _start(agent: Agent, said: str, place: SessionRef | None = None) -> subprocess.Popen[bytes]:
    resume = [] if place is None else ["resume", place.native_id]
    words = [program("codex"), "exec", "--json", "--skip-git-repo-check", *resume, said]
    return subprocess.Popen(
        words,
        cwd=agent.cwd,
        env={**agent.env, "PWD": agent.cwd},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _run(agent: Agent, said: str, place: SessionRef | None = None) -> None:
    _start(agent, said, place).wait(60)


def _turns(agent: Agent, place: SessionRef) -> list[dict[str, Any]]:
    words = [program("codex"), "app-server"]
    about = {"clientInfo": {"name": "test", "title": "test", "version": "0"}}
    asks = [
        {"id": 0, "method": "initialize", "params": {**about, "capabilities": {"experimentalApi": True}}},
        {"method": "initialized"},
        {"id": 1, "method": "thread/read", "params": {"threadId": place.native_id, "includeTurns": True}},
    ]
    server = subprocess.Popen(
        words,
        cwd=agent.cwd,
        env=agent.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdin is not None and server.stdout is not None
    with server:
        server.stdin.write(b"".join(json.dumps(ask).encode() + b"\n" for ask in asks))
        server.stdin.flush()
        answer = next(told for line in server.stdout if (told := json.loads(line)).get("id") == 1)
        server.stdin.close()
    turns: list[dict[str, Any]] = answer["result"]["thread"]["turns"]
    return turns


def _events(turns: list[dict[str, Any]]) -> Iterator[NewEvent]:
    """Its items as events."""
    for item in (item for turn in turns for item in turn["items"]):
        if item["type"] == "userMessage":
            yield NewEvent("user", {"text": item["content"][0]["text"]})
        elif item["type"] == "agentMessage":
            yield NewEvent("assistant", {"text": item["text"]})
        elif item["type"] == "reasoning":
            yield NewEvent("thinking", {"text": "\n".join(item["summary"])})
        elif item["type"] == "commandExecution":
            yield NewEvent(
                "tool_progress", {"name": "command_execution", "input": {"command": item["command"]}}
            )
