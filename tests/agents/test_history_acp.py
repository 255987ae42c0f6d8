"""OpenCode's and Kimi's own stores: read by us, replayed by the agent over ACP, and lived through.

What an agent's `session/load` replays, what its store says to our reader and what Holdfast's log of the run
says must be the same conversation, but for these differences:

* OpenCode tells over ACP the folder that a command runs in as part of its input (`cwd`); its store has the
  input as the model gave it.
* A call that a crash cut off is replayed by both as running, for ever; our reader ends it as interrupted.
* Kimi replays the reminders that it gives its model (`<system-reminder>`) as if the user had said them.
* Kimi numbers the calls of a replay otherwise than live (`0:call_x`, `1:call_x`); we leave the number out.
* Kimi tells no ids of what is said: the log has a counter there, the store the part's own id. Such events
  meet by what they say, not by their origin.
* The user's words have no origin in a log (Holdfast wrote them before the agent had them).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.agents.kimi.reader import KimiReader
from holdfast.agents.opencode.reader import OpenCodeReader
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import SessionRef, TranscriptReader
from tests.agents import scripts
from tests.agents.fake_model.script import Call, Step
from tests.agents.fake_model.server import FakeModel
from tests.agents.install import program
from tests.agents.lab import Lab, laboratory, next_prompt

Json = dict[str, Any]
READERS: dict[str, type[OpenCodeReader] | type[KimiReader]] = {"opencode": OpenCodeReader, "kimi": KimiReader}

MANY = (
    Step(think="Let me think.", say="Two at once.", calls=(Call(shell="echo p1"), Call(shell="echo p2"))),
    Step(say="One that fails.", shell="echo bad; exit 3"),
    Step(text="So it is done.", chunk=3),
)


@pytest.fixture(params=["opencode", "kimi"])
def label(request: pytest.FixtureRequest) -> str:
    """The agents whose stores are compared here."""
    found: str = request.param
    return found


def read(lab: Lab) -> tuple[TranscriptReader, SessionRef, list[NewEvent]]:
    """The one session in the agent's store."""
    reader: TranscriptReader = READERS[lab.agent.name]()
    root = reader.root(lab.agent.env)
    (place,) = reader.sessions(root, lab.agent.cwd)
    # A store that is written to may have a title or a time more at the next look.
    for found in (list(reader.sessions(root)), reader.find(root, place.native_id)):
        assert [(one.native_id, one.path) for one in found] == [(place.native_id, place.path)]
    return reader, place, list(reader.events(place))


def gist(kind: str, body: Json) -> tuple[str, ...]:
    """What is compared of an event."""
    if kind == "tool_progress":
        given = {key: value for key, value in body["input"].items() if key != "cwd"}
        return kind, body["call"], body["name"], json.dumps(given, sort_keys=True)
    if kind == "tool_summary":
        return kind, body["call"], body["outcome"], body["output"].strip()
    return kind, body["text"]


SPOKEN = ("user", "assistant", "thinking", "tool_progress", "tool_summary")


def of_store(events: list[NewEvent]) -> list[tuple[str, ...]]:
    return [gist(event.kind, event.body) for event in events if event.kind in SPOKEN]


def of_log(log: list[Json]) -> list[tuple[str, ...]]:
    return [gist(event["kind"], event["body"]) for event in log if event["kind"] in SPOKEN]


def meet(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> None:
    """The same events; the results of calls that ran at once may come in another order."""
    assert sorted(one) == sorted(other)
    assert [e for e in one if e[0] != "tool_summary"] == [e for e in other if e[0] != "tool_summary"]


def replayed(lab: Lab, native_id: str) -> Iterator[Json]:
    """The updates of `session/load`, asked by a client of its own."""
    node = [program("node")] if lab.agent.name == "kimi" else []
    process = subprocess.Popen(
        [*node, program(lab.label), "acp"],
        env={**lab.agent.env, "PWD": lab.agent.cwd},
        cwd=lab.agent.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        load = {"sessionId": native_id, "cwd": lab.agent.cwd, "mcpServers": []}
        for number, (method, params) in enumerate(
            [("initialize", {"protocolVersion": 1}), ("session/load", load)]
        ):
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    assert "error" not in message, message
                    break
                if message.get("method") == "session/update":
                    yield message["params"]["update"]
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def of_replay(lab: Lab, native_id: str) -> list[tuple[str, ...]]:
    """A replay in the words of our events; calls without an end have none here either."""
    said = {
        "user_message_chunk": "user",
        "agent_message_chunk": "assistant",
        "agent_thought_chunk": "thinking",
    }
    outcomes = {"completed": "ok", "failed": "error"}
    found: list[tuple[str, ...]] = []
    for update in replayed(lab, native_id):
        kind = update["sessionUpdate"]
        if kind in said:
            text = update["content"]["text"]
            if not text.startswith("<system-reminder>"):
                found.append((said[kind], text))
        elif kind in ("tool_call", "tool_call_update"):
            call = update["toolCallId"].rpartition(":")[2]
            if kind == "tool_call":
                name = {"opencode": "bash", "kimi": "Bash"}[lab.agent.name]
                found.append(gist("tool_progress", {"call": call, "name": name, "input": update["rawInput"]}))
            if outcome := outcomes.get(update["status"]):
                texts = [item["content"]["text"] for item in update["content"] if item["type"] == "content"]
                body = {"call": call, "outcome": outcome, "output": "\n".join(texts)}
                found.append(gist("tool_summary", body))
    return found


def test_store_replay_and_log_agree(lab: Lab) -> None:
    first = lab.run(MANY)
    first.task.ended_as("succeeded")
    second = lab.run(scripts.TWO_TOOLS, session=first.task.session)
    second.task.ended_as("succeeded")
    log = second.task.log()
    reader, place, events = read(lab)
    assert place.native_id == second.task.now()["outcome"]["native_id"] and place.cwd == lab.agent.cwd
    meet(of_store(events), of_log(log))
    meet(of_store(events), of_replay(lab, place.native_id))
    seen = reader.inspect(place)
    assert (seen.sound, seen.problems, seen.turns, seen.last_complete) == (True, [], 2, 2)
    assert events == list(reader.events(place)), "a replay changed the store"


def test_origins_meet(lab: Lab) -> None:
    running = lab.run(MANY)
    running.task.ended_as("succeeded")
    _, place, events = read(lab)
    stored = {event.origin.record_id for event in events if event.origin is not None}
    lived = [event for event in running.task.log() if event["kind"] in SPOKEN and event["kind"] != "user"]
    for event in lived:
        with_id = lab.agent.name == "opencode" or event["kind"].startswith("tool_")
        assert event["origin"]["native_id"] == place.native_id
        assert (event["origin"]["record_id"] in stored) == with_id, event


def test_killed_in_the_middle_of_a_tool(lab: Lab) -> None:
    running = lab.run(scripts.LONG_TOOL)
    lab.wait_for_file("started")
    time.sleep(0.5)
    reader, place, _ = read(lab)
    root = reader.root(lab.agent.env)
    assert [call["input"]["command"] for call in reader.inspect(place).dangling] == [
        scripts.LONG_TOOL[0].shell
    ]
    assert reader.tools(root, place), "the tool runs"
    running.task.kill_agent()
    running.task.ended_as("interrupted")
    _, place, events = read(lab)
    seen = reader.inspect(place)
    assert [problem.code for problem in seen.problems] == ["dangling_call"] and not seen.sound
    assert [event.kind for event in events][-2:] == ["tool_progress", "tool_summary"]
    assert events[-1].body["outcome"] == "interrupted" and events[-1].origin is None
    told = of_store(events)
    meet(told[:-1], of_replay(lab, place.native_id))
    lived = of_log(running.task.log())
    assert [event[:3] for event in told] == [event[:3] for event in lived]


def test_a_hot_store_is_read_and_left_alone(lab: Lab) -> None:
    running = lab.run(scripts.SLOW_TOOL)
    lab.wait_for_file("started")
    counts = []
    while running.task.now()["status"] == "running":
        _, place, events = read(lab)
        if lab.agent.name == "opencode":
            names = sorted(os.listdir(os.path.dirname(place.path)))
            assert "opencode.db-shm" in names or "opencode.db-wal" not in names
        counts.append(len([event for event in events if event.origin is not None]))
    running.task.ended_as("succeeded")
    assert counts == sorted(counts) and len(set(counts)) > 1
    assert len(running.steps()) == len(scripts.SLOW_TOOL)


def test_a_session_that_its_own_tool_deleted_is_put_back(model: FakeModel) -> None:
    with laboratory("opencode", model) as lab:
        other = lab.run(scripts.ANSWER)
        kept = other.task.ended_as("succeeded")["outcome"]["native_id"]  # two that make its database fail
        first = lab.run(MANY)
        native_id = first.task.ended_as("succeeded")["outcome"]["native_id"]
        reader = OpenCodeReader()
        root = reader.root(lab.agent.env)
        told = {name: list(reader.events(*reader.find(root, name))) for name in (native_id, kept)}
        words = [program(lab.label), "session", "delete", native_id]
        subprocess.run(words, env={**lab.agent.env, "PWD": lab.agent.cwd}, cwd=lab.agent.cwd, check=True)
        assert reader.find(root, native_id) == []
        shown = lab.holdfast.call("restore", first.task.session, "--native", "--dry-run")
        assert "is missing in" in shown and reader.find(root, native_id) == []
        (done,) = json.loads(lab.holdfast.call("restore", first.task.session, "--native", "--json"))
        assert done["was"] == "missing" and done["rows"] > 10
        assert {name: list(reader.events(*reader.find(root, name))) for name in told} == told
        assert reader.inspect(*reader.find(root, native_id)).sound
        meet(of_store(told[native_id]), of_replay(lab, native_id))
        next_prompt(lab, first)
