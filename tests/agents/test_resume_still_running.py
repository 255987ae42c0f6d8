"""An agent that still has the conversation, or a tool of it that still runs, is waited for and named.

| | the agent itself | its tool, when it is dead |
|---|---|---|
| Claude Code | its registry names it | has the session's id in its environment |
| Codex | holds the thread's lock | has the thread's id in its environment |
| Gemini CLI | has the id on its command line | has Gemini's mark and the project's folder |
| OpenCode | has the id on its command line | runs the command of a call without a result |
| Kimi Code | has the id on its command line, or the file open | the same |

Kimi Code lends no shell on its command line to a conversation that was begun over ACP: outside, its model is
slow instead. Gemini's tool dies with it, and a call that was cut off outside leaves no trace in its history:
what it said before that looks like its answer, and nobody can tell.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.agents import outside, scripts
from tests.agents.fake_model.script import Step
from tests.agents.lab import Lab
from tests.agents.thread import dispatch, judged, settled, tokens
from tests.agents.waiting import until

SLOW_MODEL = (Step(text="I was slow.", hang=120),)


def pids(lab: Lab, code: str) -> set[int]:
    """The processes that a verdict which waits names for that reason."""
    found = judged(lab)
    named = [reason["evidence"]["processes"] for reason in found["reasons"] if reason["code"] == code]
    assert not named or found["action"] == "wait", found
    return {process["pid"] for processes in named for process in processes}


def refusal(lab: Lab) -> str:
    """What `holdfast run` for the same key says when it does not run."""
    words = ("run", "-a", lab.agent.name, "--key", "k", "--cwd", lab.agent.cwd, "--detach", "--json", "next")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env=lab.holdfast.env,
        cwd=lab.agent.cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_an_agent_outside_and_then_its_tool(lab: Lab) -> None:
    _, first = dispatch(lab, scripts.ANSWER)
    before = first.ended_as("succeeded")
    native_id = before["outcome"]["native_id"]
    has_shell = lab.agent.name != "kimi"
    other = outside.go_on(lab, native_id, scripts.GATED_TOOL if has_shell else SLOW_MODEL)
    if has_shell:
        lab.wait_for_file("started")
    else:
        until(lambda: lab.model.journal.scripted(other.words), "the model is asked")
    owner = until(lambda: pids(lab, "live_owner"), "the agent is named as the owner")
    assert owner & other.tree(), (owner, other.tree())
    said = refusal(lab)
    assert any(str(pid) in said for pid in owner), said

    tools = other.tree() - {other.process.pid}
    other.die()
    if lab.agent.tools_outlive_it and has_shell:
        left = until(lambda: pids(lab, "tools_running"), "the tool is named")
        assert left & tools, (left, tools)
    lab.open_gate()
    if lab.agent.name == "gemini":
        until(lambda: not pids(lab, "live_owner"), "the owner is gone")
    else:
        action, codes = settled(lab)
        assert action == "fresh" and not {"sound", "last_interrupted"} & {*codes}, codes
    assert tokens(lab, before["session"]) == [native_id]


def test_a_task_that_runs_and_one_whose_tool_does(lab: Lab) -> None:
    _, running = dispatch(lab, scripts.GATED_TOOL)
    lab.wait_for_file("started")
    found = judged(lab)
    assert found["action"] == "wait" and found["reasons"][0]["evidence"]["tasks"] == [running.id], found
    assert running.id in refusal(lab)
    running.kill_agent()
    running.ended_as("interrupted")
    if lab.agent.tools_outlive_it:
        left = pids(lab, "tools_running")
        said = refusal(lab)  # some of them are `sleep 0.1`, and are others by now
        assert any(json.dumps(pid) in said for pid in left), (left, said)
    lab.open_gate()
    assert settled(lab)[0] == "fresh"
