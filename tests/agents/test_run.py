"""A run that nothing disturbs: events equal the script, once each and in order, and the token is kept."""

from __future__ import annotations

from tests.agents import scripts
from tests.agents.events import expected, gist
from tests.agents.fake_model.script import Call, Step
from tests.agents.lab import Lab, next_prompt
from tests.agents.told import logged, told


def test_events_equal_the_script(lab: Lab) -> None:
    running = lab.run(scripts.TWO_TOOLS)
    ended = running.task.ended_as("succeeded")
    assert ended["delivery"] == "accepted"
    log = running.task.log()
    assert gist(log) == expected(running.said, scripts.TWO_TOOLS)
    assert running.steps() == [0, 1, 2]
    assert lab.model.journal.refusals(running.words) == []
    assert ended["outcome"]["answer"] == "Both files are there."
    tokens = [event["body"] for event in log if event["kind"] == "token"]
    assert tokens and ended["outcome"]["native_id"] == tokens[-1]["native_id"]
    assert told(lab.agent.name, running.task.spool("stdout")) == logged(log)


def test_tools_say_what_they_were_and_gave(lab: Lab) -> None:
    running = lab.run(scripts.TWO_TOOLS)
    running.task.ended()
    log = running.task.log()
    begun = {e["body"]["call"]: e["body"] for e in log if e["kind"] == "tool_progress"}
    summaries = [e["body"] for e in log if e["kind"] == "tool_summary"]
    assert [body["call"] for body in summaries] == list(begun)
    for body, output in zip(summaries, ("out-one", "out-two"), strict=True):
        assert body["name"] == begun[body["call"]]["name"]
        assert output in str(body["output"]) or lab.agent.name == "gemini"  # which shows none over ACP
        assert body["duration_ms"] >= 0


def test_a_tool_that_fails_is_an_error(lab: Lab) -> None:
    steps = (Step(say="This fails.", shell="echo bad; exit 3"), Step(text="It failed."))
    running = lab.run(steps)
    running.task.ended_as("succeeded")
    summaries = [e["body"]["outcome"] for e in running.task.log() if e["kind"] == "tool_summary"]
    assert len(summaries) == 1
    assert summaries == ["error"] or lab.agent.name not in ("claude", "codex"), summaries


def test_two_calls_at_once(lab: Lab) -> None:
    calls = (Call(shell="echo p1"), Call(shell="echo p2"))
    running = lab.run((Step(say="Two at once.", calls=calls), Step(text="Both.")))
    running.task.ended_as("succeeded")
    log = running.task.log()
    begun = [e["body"]["call"] for e in log if e["kind"] == "tool_progress"]
    done = [e["body"]["call"] for e in log if e["kind"] == "tool_summary"]
    assert len(begun) == 2 and sorted(begun) == sorted(done)
    assert [e["body"]["text"] for e in log if e["kind"] == "assistant"] == ["Two at once.", "Both."]


def test_a_model_that_fails_is_no_success(lab: Lab) -> None:
    running = lab.run((Step(status=400, message="scripted refusal"),))
    ended = running.task.ended_as("failed")
    assert ended["reason"]


def test_a_second_prompt_goes_on_with_the_conversation(lab: Lab) -> None:
    first = lab.run(scripts.TWO_TOOLS)
    first.task.ended_as("succeeded")
    next_prompt(lab, first)
