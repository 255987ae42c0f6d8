"""The acts of the tour: each breaks something, and shows what is left."""

from __future__ import annotations

import os
import signal
from typing import Any

from holdfast.cli.tour.stage import Stage
from holdfast.cli.tour.telling import Telling

KEY = "tour"
STEPS = 8  # of the tool that the hub does not live to see the end of

CONVERSATION = ("user", "assistant", "thinking", "tool_progress", "tool_summary")

WORK: list[dict[str, Any]] = [
    {"say": "I will write eight lines, slowly.", "chunk": 4},
    {"tool": "shell", "run": f"for i in $(seq {STEPS}); do echo step $i | tee -a steps; sleep 0.3; done"},
    {"say": "All eight are written."},
]
CUT: list[dict[str, Any]] = [
    {"say": "First the migration, then the long part."},
    {"tool": "shell", "run": "echo 'create table uploads (id);' > migrate.sql"},
    {"tool": "shell", "run": "touch half-done; sleep 600"},
    {"say": "Nobody will ever read this."},
]


def hub_dies(stage: Stage, tell: Telling) -> None:
    """The hub is killed while an agent's tool runs; the agent does not notice."""
    tell.act("1. The hub dies in the middle of a tool")
    stage.start_hub()
    tell.say("A hub runs on a scratch home:")
    tell.point(stage.address)
    tell.command("holdfast run -a demo --key tour-1 'Write eight lines, slowly'")
    begun = stage.begin(WORK, "Write eight lines, slowly.", "--key", "tour-1")
    stage.until("the tool's second line", lambda: len(stage.lines("steps")) >= 2)
    agent, hub = stage.agent(begun["task"]), stage.hub_pid
    stage.kill_hub()
    tell.command(f"kill -9 {hub}    # the hub")
    before = len(stage.lines("steps"))
    tell.claim(f"the agent, process {agent.pid}, is alive without a hub", stage.lives(agent))
    stage.until("the tool to go on", lambda: len(stage.lines("steps")) > before)
    tell.claim("its tool goes on writing", True, lines=[before, len(stage.lines("steps"))])
    stage.start_hub()
    tell.command("holdfast up")
    task = stage.ended(begun["task"])
    events = stage.events(begun["session"])
    told = [(e["kind"], e["body"].get("text")) for e in events if e["kind"] in CONVERSATION]
    expected = [
        ("user", told[0][1]),
        ("assistant", WORK[0]["say"]),
        ("tool_progress", None),
        ("tool_summary", None),
        ("assistant", WORK[2]["say"]),
    ]
    tell.claim(
        "the task ended as if nothing had happened", task["status"] == "succeeded", status=task["status"]
    )
    tell.claim(
        f"every one of its {len(events)} records is there, once, in order", told == expected, told=told
    )
    seqs = [event["seq"] for event in events]
    tell.claim("no number is missing or doubled", seqs == list(range(1, len(seqs) + 1)))
    (summary,) = [event["body"] for event in events if event["kind"] == "tool_summary"]
    written = str(summary["output"]).split("\n")
    tell.claim(
        f"the tool's output has all {STEPS} lines, those of the time without a hub included",
        [line for line in written if line] == [f"step {n}" for n in range(1, STEPS + 1)],
        output=summary["output"],
    )


def agent_dies(stage: Stage, tell: Telling) -> None:
    """The agent is killed in a tool; what it did is known, and nobody resumes it blindly."""
    tell.act("2. The agent dies in the middle of a tool")
    tell.command(f"holdfast run -a demo --key {KEY} 'Migrate the uploads'")
    begun = stage.begin(CUT, "Migrate the uploads.", "--key", KEY)
    stage.until("the long tool", lambda: os.path.exists(os.path.join(stage.cwd, "half-done")))
    agent = stage.agent(begun["task"])
    os.kill(agent.pid, signal.SIGKILL)
    tell.command(f"kill -9 {agent.pid}    # the agent")
    task = stage.ended(begun["task"])
    tell.claim(
        "the task is interrupted, and says why", task["status"] == "interrupted", reason=task["reason"]
    )
    tell.quote(str(task["reason"]))
    cut = [e["body"] for e in stage.events(begun["session"]) if e["kind"] == "tool_summary"]
    outcomes = [body["outcome"] for body in cut]
    tell.claim(
        "the finished call is known as done, the open one as cut short", outcomes == ["ok", "interrupted"]
    )
    verdict = stage.asked("verdict", KEY)
    tell.command(f"holdfast verdict {KEY}")
    tell.quote(_shown(verdict))
    tell.claim(
        "its tool outlived it, so the verdict is to wait", verdict["action"] == "wait", verdict=verdict
    )
    stage.give("cancel", begun["task"])
    tell.command(f"holdfast cancel {begun['task']}    # ends what it left running")
    verdict = stage.asked("verdict", KEY)
    tell.command(f"holdfast verdict {KEY}")
    tell.quote(_shown(verdict))
    tell.claim(
        "now it is to begin anew, not to resume half a plan", verdict["action"] == "fresh", verdict=verdict
    )
    again = stage.begin([{"say": "I have read the brief, and look before I go on."}], "Go on.", "--key", KEY)
    tell.command(f"holdfast run --key {KEY} 'Go on'")
    ended = stage.ended(again["task"])
    events = stage.events(again["session"])
    brief = next(str(e["body"]["text"]) for e in events if e["kind"] == "user")
    tell.claim(
        "the new run is a new session",
        again["session"] != begun["session"] and ended["status"] == "succeeded",
    )
    tell.claim(
        "its prompt begins with a brief of what was cut short",
        "half-done" in brief and "migrate.sql" in brief,
    )
    tell.quote(brief, 14)


def database_goes(stage: Stage, tell: Telling) -> None:
    """The database is deleted; it is rebuilt from the session files."""
    tell.act("3. The database is deleted")
    sessions = sorted(session["id"] for session in stage.asked("ls", "--state", "all"))
    before = {session: stage.events(session) for session in sessions}
    stage.kill_hub()
    for name in os.listdir(stage.home.path):
        if name.startswith("state.db"):
            os.unlink(os.path.join(stage.home.path, name))
    tell.command("kill -9 the hub; rm state.db*")
    stage.start_hub()
    tell.command("holdfast up")
    after = sorted(session["id"] for session in stage.asked("ls", "--state", "all"))
    tell.claim(f"all {len(sessions)} sessions are back", after == sessions, before=sessions, after=after)
    records = sum(map(len, before.values()))
    same = all(stage.events(session)[: len(before[session])] == before[session] for session in sessions)
    tell.claim(f"and their {records} records, each as it was", same)
    verdict = stage.asked("verdict", "tour-1")
    tell.claim("a sound session may still be resumed", verdict["action"] == "resume", verdict=verdict)


ACTS = (hub_dies, agent_dies, database_goes)


def _shown(verdict: dict[str, Any]) -> str:
    return "\n".join([verdict["action"], *[f"  {r['code']}: {r['text']}" for r in verdict["reasons"]]])
