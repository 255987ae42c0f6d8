"""The acts of the tour: each breaks something, and shows what is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.cli import output
from holdfast.errors import HoldfastError
from holdfast.home import Home
from holdfast.process import identity
from holdfast.process.identity import Ident
from holdfast.spool.task_dir import Spool

T = TypeVar("T")

PATIENCE_S = 60.0  # for anything that is waited for; on a quiet machine it takes a moment
COMMAND = (sys.executable, "-m", "holdfast")


class TourHome:
    """A scratch home; leaving it ends all that was started there and removes it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="holdfast-demo-")
        self.home = Home(os.path.join(self.folder, "home"))
        self.cwd = os.path.join(self.folder, "project")
        os.mkdir(self.cwd)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self._env = {
            **kept,
            "HOLDFAST_HOME": self.home.path,
            "HOLDFAST_DEMO_HOME": os.path.join(self.folder, "agent"),
        }
        self._hub: subprocess.Popen[str] | None = None
        self._port = "0"
        self._begun: set[str] = set()  # tasks
        self.address = ""

    def __enter__(self) -> TourHome:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_hub()
        for task in self._begun:
            with suppress(HoldfastError):  # it has ended, and nothing of it runs
                self.give("cancel", task, "--now")
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the hub

    def start_hub(self) -> None:
        """Start it, on the same port as before, and wait until it says its address."""
        log = os.path.join(self.folder, "hub.log")
        with open(log, "a") as errors:
            self._hub = subprocess.Popen(
                [*COMMAND, "up", "--port", self._port],
                env=self._env,
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for the tour, which ends it
            )
        assert self._hub.stdout is not None
        for line in self._hub.stdout:
            words = [word for word in line.split() if word.startswith("http://")]
            if words:
                self.address = words[0]
                self._port = self.address.split("/")[2].rpartition(":")[2]
                return
        with open(log) as errors:
            raise HoldfastError("the hub did not start", hint=errors.read()[-400:].strip())

    @property
    def hub_pid(self) -> int:
        """The hub's process."""
        return self._hub.pid if self._hub is not None else 0

    def kill_hub(self) -> None:
        """End it as the kernel does when memory is short."""
        self._end_hub(signal.SIGKILL)

    def stop_hub(self) -> None:
        """SIGTERM, as a service manager ends it."""
        self._end_hub(signal.SIGTERM)

    def _end_hub(self, number: signal.Signals) -> None:
        if self._hub is not None:
            self._hub.send_signal(number)
            self._hub.wait()
            if self._hub.stdout is not None:
                self._hub.stdout.close()
            self._hub = None

    # --- commands

    def give(self, *words: str) -> str:
        """What a command prints; its complaint as an error."""
        done = subprocess.run(
            [*COMMAND, *words],
            env=self._env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise HoldfastError(f"`holdfast {words[0]}` failed: {done.stderr.strip()}")
        return done.stdout

    def asked(self, *words: str) -> Any:
        """What a command says with --json."""
        return json.loads(self.give(*words, "--json"))

    def begin(self, steps: list[dict[str, Any]], said: str, *words: str) -> dict[str, str]:
        """Have the demo agent do these steps; {"task", "session"}."""
        prompt = f"{said} <<{json.dumps(steps)}>>"
        begun: dict[str, str] = self.asked("run", "-a", "demo", "--detach", *words, prompt)
        self._begun.add(begun["task"])
        return begun

    def events(self, session: str) -> list[dict[str, Any]]:
        """A session's log."""
        return [json.loads(line) for line in self.give("log", session, "--json").splitlines()]

    def task(self, task: str) -> dict[str, Any]:
        """One task as it is now."""
        found: dict[str, Any] = next(t for t in self.asked("tasks") if t["id"] == task)
        return found

    # --- what happens

    def until(self, what: str, look: Callable[[], T]) -> T:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := look()):
            if time.monotonic() > deadline:
                raise HoldfastError(f"timed out: {what}")
            time.sleep(0.05)
        return found

    def ended(self, task: str) -> dict[str, Any]:
        """A task once it has ended."""
        over = ("succeeded", "failed", "cancelled", "interrupted")
        return self.until(f"the end of {task}", lambda: (t := self.task(task))["status"] in over and t) or {}

    def lines(self, name: str) -> list[str]:
        """The lines of a file that the agent writes; none before it is there."""
        try:
            with open(os.path.join(self.cwd, name)) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def agent(self, task: str) -> Ident:
        """The agent's process."""
        found = Spool(self.home.task(task)).agent()
        if found is None:
            raise HoldfastError(f"task {task} has no agent")
        return found

    def lives(self, process: Ident) -> bool:
        """Whether that very process still runs."""
        return identity.is_alive(*process)


# --- Output: each claim was checked, or the tour stops there.

WIDTH = 88


class TourPrinter:
    """Speaks to a person, or keeps the claims for a program."""

    def __init__(self, aloud: bool):
        self._aloud = aloud
        self._colored = aloud and sys.stdout.isatty()
        self.claims: list[dict[str, Any]] = []
        self._act = ""

    def act(self, title: str) -> None:
        """A new part begins."""
        self._act = title
        self._print(f"\n{self._paint('1', title)}")

    def say(self, text: str) -> None:
        """A paragraph."""
        self._print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  "))

    def point(self, address: str) -> None:
        """An address, whole on a line of its own."""
        self._print(f"  {address}")

    def command(self, line: str) -> None:
        """What anybody could have typed."""
        self._print(self._paint("36", f"  $ {line}"))

    def quote(self, text: str, lines: int = 8) -> None:
        """Some lines of what Holdfast said."""
        plain_lines = [output.plain(line) for line in text.strip().splitlines()]
        told = [
            part
            for line in plain_lines
            for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ") or [""]
        ]
        for line in told[:lines]:
            self._print(self._paint("2", f"    {output.plain(line)}"))
        if len(told) > lines:
            self._print(self._paint("2", f"    … {len(told) - lines} more lines"))

    def claim(self, text: str, holds: bool, **evidence: Any) -> None:
        """Something that must be so; the tour fails where it is not."""
        self.claims.append({"act": self._act, "claim": text, "holds": holds, "evidence": evidence})
        if not holds:
            raise HoldfastError(f"the tour failed: not true: {text}", evidence=evidence)
        self._print(f"  {self._paint('32', '✓')} {text}")

    def _paint(self, color: str, text: str) -> str:
        return f"\033[{color}m{text}\033[0m" if self._colored else text

    def _print(self, line: str) -> None:
        if self._aloud:
            output.styled(line)
            sys.stdout.flush()


# --- The acts: each breaks something, and shows what survives.

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


def hub_dies(stage: TourHome, tell: TourPrinter) -> None:
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
    stage.until("more output of the tool", lambda: len(stage.lines("steps")) > before)
    tell.claim("its tool keeps writing", True, lines=[before, len(stage.lines("steps"))])
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


def agent_dies(stage: TourHome, tell: TourPrinter) -> None:
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
    tell.command(f"holdfast cancel {begun['task']}    # ends its leftover processes")
    verdict = stage.asked("verdict", KEY)
    tell.command(f"holdfast verdict {KEY}")
    tell.quote(_shown(verdict))
    tell.claim(
        "now the verdict is to start fresh, not to resume half a plan",
        verdict["action"] == "fresh",
        verdict=verdict,
    )
    again = stage.begin(
        [{"say": "I have read the brief, and look before I continue."}], "Continue.", "--key", KEY
    )
    tell.command(f"holdfast run --key {KEY} 'Continue'")
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


def database_goes(stage: TourHome, tell: TourPrinter) -> None:
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
    tell.claim("a sound session is still safe to resume", verdict["action"] == "resume", verdict=verdict)


ACTS = (hub_dies, agent_dies, database_goes)


def _shown(verdict: dict[str, Any]) -> str:
    return "\n".join([verdict["action"], *[f"  {r['code']}: {r['text']}" for r in verdict["reasons"]]])
