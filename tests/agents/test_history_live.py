"""A run's log and the agent's own history of it are the same, event by event.

What a store does not keep, or words otherwise, and what that means for the comparison:

* claude: nothing; origins are the same.
* codex: names, inputs and outputs are those the model was given, and there is no id in common; events meet
  by what they say (`history/codex/match.py`).
* gemini: over ACP it tells neither input nor output of a tool, its store has both; calls meet by their id.
* opencode, kimi: see `test_history_acp.py`.
"""

from __future__ import annotations

import json
import time

import msgspec

from holdfast.agents.registry import AgentRegistry
from holdfast.model.event import Event
from holdfast.transcripts.dedupe import KnownEvents
from tests.agents import scripts
from tests.agents.fake_model.script import Call, Step
from tests.agents.lab import Lab, next_prompt

PARALLEL = (
    Step(say="First words.", shell="echo one"),
    Step(say="Second words.", calls=(Call(shell="echo p1"), Call(shell="touch started; sleep 20"))),
    Step(text="All is done."),
)
SPOKEN = ("user", "assistant", "thinking", "tool_progress", "tool_summary")


def test_nothing_is_missing_on_either_side(lab: Lab) -> None:
    running = lab.run(scripts.TWO_TOOLS)
    ended = running.task.ended_as("succeeded")
    history = AgentRegistry().get(lab.agent.name).history
    assert history is not None
    reader = history()
    root = reader.root(lab.agent.env)
    (place,) = reader.find(root, ended["outcome"]["native_id"])
    log = [_event(line) for line in running.task.log()]
    past = list(reader.events(place))
    known = KnownEvents(reader.wording)
    for event in log:
        known.add(event)
    assert [e for e in known.missing(past) if e.kind in SPOKEN] == []
    told = [event.kind for event in past if event.kind in SPOKEN]
    lived = [event.kind for event in log if event.kind in SPOKEN]
    assert told == lived
    words = [e.body["text"] for e in past if e.kind in ("user", "assistant")]
    assert words == [e.body["text"] for e in log if e.kind in ("user", "assistant")]
    found = reader.inspect(place)
    assert (found.turns, found.last_complete, found.dangling) == (1, 1, []), found
    problems = {problem.code for problem in found.problems}
    assert problems <= {"resume_destroys_history"}, found  # Gemini, in the minute in which it was made
    adopted = json.loads(lab.holdfast.call("import", lab.agent.name, place.native_id, "--json"))["adopted"]
    assert [(a["new"], a["session"]) for a in adopted] == [(False, running.task.session)]
    after = [e["kind"] for e in running.task.log() if e["kind"] in SPOKEN]
    assert after == lived, "importing what we have seen adds nothing"


def test_killed_when_one_of_two_calls_has_ended(lab: Lab) -> None:
    running = lab.run(PARALLEL)
    lab.wait_for_file("started")
    time.sleep(0.7)  # the end of the other call comes into the store
    running.task.kill_agent()
    ended = running.task.ended_as("interrupted")
    history = AgentRegistry().get(lab.agent.name).history
    assert history is not None
    reader = history()
    (place,) = reader.find(reader.root(lab.agent.env), ended["outcome"]["native_id"])
    found = reader.inspect(place)
    assert (found.sound, found.turns, found.last_complete) == (False, 1, None), found
    # Gemini keeps nothing of a call that runs: all that it shows is a turn without an answer.
    keeps = lab.agent.name != "gemini"
    assert len(found.dangling) == keeps
    assert ("dangling_call" if keeps else "turn_unfinished") in {problem.code for problem in found.problems}
    past = [event for event in reader.events(place) if event.kind in SPOKEN]
    words = [event.body["text"] for event in past if event.kind == "assistant"]
    assert words == ["First words.", "Second words."]
    outcomes = [event.body["outcome"] for event in past if event.kind == "tool_summary"]
    assert outcomes == ["ok", "ok", "interrupted"][: 2 + keeps]


def test_a_second_prompt_replays_nothing_that_was_seen(lab: Lab) -> None:
    running = lab.run(scripts.TWO_TOOLS)
    running.task.ended_as("succeeded")
    next_prompt(lab, running)
    log = running.task.log()
    assert not [event for event in log if event["replayed"]], "all of it was in the log"


def _event(line: dict[str, object]) -> Event:
    return msgspec.convert(line, Event)
