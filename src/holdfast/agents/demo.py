"""The demo agent: ships with Holdfast, needs no model."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from holdfast import __version__, timestamps
from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.driver import AgentJob
from holdfast.model.event import NewEvent, Origin
from holdfast.process import open_files
from holdfast.transcripts import jsonl
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem, TranscriptReader
from holdfast.transcripts.turns import ABORTED, COMPLETE, FAILED, TurnTracker

# -P: a `json.py` in the user's folder must not be what it imports.
PROGRAM = (sys.executable, "-P", "-m", "holdfast.demo")


def _launch(job: AgentJob) -> AgentLaunch:
    """Our own Python running our own package, wherever that was imported from."""
    return AgentLaunch(argv=(*(job.program or PROGRAM), *job.args), env=_environment())


@lru_cache  # sysconfig takes milliseconds each time
def _environment() -> dict[str, str]:
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return {} if installed else {"PYTHONPATH": folder}


def _history() -> TranscriptReader:

    return DemoReader()


AGENT = Agent(
    name="demo",
    title="Demo",
    protocols=("acp",),
    driver="acp",
    command=PROGRAM,
    install=f"it comes with Holdfast {__version__}",
    launch=_launch,
    forks="turn",
    keeps=("HOLDFAST_DEMO_HOME", "XDG_DATA_HOME"),
    history=_history,
)


# --- The demo agent's own sessions; `holdfast.demo` says what a file of one holds.

DEMO_AGENT = "demo"
STARTS = (b'{"type":',)
SUFFIX = ".jsonl"
QUIET = ("session", "ask", "answer")


class DemoReader:
    """One folder of files, one session a file."""

    agent = DEMO_AGENT
    missing = "no_transcript"

    def root(self, env: Mapping[str, str]) -> str:
        """As the demo agent itself finds it."""
        home = env.get("HOME") or os.path.expanduser("~")
        data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        return env.get("HOLDFAST_DEMO_HOME") or os.path.join(data, "holdfast-demo")

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The file of that id, or at that path."""
        path = name if os.path.isfile(name) else os.path.join(root, os.path.basename(name) + SUFFIX)
        found = _place(path)
        return [found] if found is not None else []

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All files of the folder that are sessions."""
        names = sorted(os.listdir(root)) if os.path.isdir(root) else []
        for name in names:
            found = _place(os.path.join(root, name)) if name.endswith(SUFFIX) else None
            if found is not None and cwd in (None, found.cwd):
                yield found

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """One record after the other, as they happened."""
        yield from _DemoEvents(place).events()

    def inspect(self, place: SessionRef) -> Inspection:
        """By the rules that the demo agent gives itself."""
        story = _DemoEvents(place)
        for _ in story.events():
            pass
        problems = [*story.problems, *story.turns.problems()]
        return Inspection(
            agent=DEMO_AGENT,
            native_id=place.native_id,
            path=place.path,
            sound=not problems,
            problems=problems,
            dangling=story.turns.dangling,
            turns=story.turns.count,
            last_complete=story.turns.last_complete,
            title=place.title,
            cwd=place.cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """Its one file."""
        return [place.path]

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Who has the file open: the demo agent holds it for as long as it has the session."""
        return open_files.writers(place.path)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """What runs the commands that have no result."""
        return open_files.commands(self.inspect(place).dangling, place.cwd)


class _DemoEvents:
    """A file told record by record."""

    def __init__(self, place: SessionRef):
        self.turns = TurnTracker()
        self.problems: list[TranscriptProblem] = []
        self._place = place
        self._names: dict[str, str] = {}
        self._last = 0

    def events(self) -> Iterator[NewEvent]:
        for line in jsonl.lines(self._place.path, STARTS):
            if line.problem is not None:
                text = f"line {line.number} cannot be read whole"
                self.problems.append(TranscriptProblem(line.problem, text, {"line": line.number}))
            if line.value is None:
                yield jsonl.notice(line, DEMO_AGENT, self._place.native_id)
            else:
                yield from self._told(line.value)
        yield from self.turns.close()

    def _told(self, record: dict[str, Any]) -> Iterator[NewEvent]:
        kind, number = record.get("type"), record.get("n")
        if isinstance(number, int):
            if number != self._last + 1:
                text = f"record {number} comes after {self._last}"
                self.problems.append(TranscriptProblem("ordinal_gap", text, {"n": number}))
            self._last = number
        origin = Origin(DEMO_AGENT, self._place.native_id, f"record:{number}")
        text = str(record.get("text", ""))
        at = timestamps.when_stamp(record.get("at"))
        match kind:
            case "prompt":
                yield from self.turns.prompt()
                yield NewEvent("user", {"text": text}, at, origin=origin)
            case "message" | "thought":
                self.turns.spoke()
                yield NewEvent(
                    "assistant" if kind == "message" else "thinking", {"text": text}, origin=origin
                )
            case "call":
                call, name = str(record.get("id")), str(record.get("name"))
                self._names[call] = name
                self.turns.call(call, name, record.get("input"))
                body = {"call": call, "name": name, "input": record.get("input")}
                yield NewEvent("tool_progress", body, origin=origin)
            case "result":
                yield self._result(record, origin)
            case "end":
                self._end(record)
            case _ if kind not in QUIET:
                yield wire.unknown(record)

    def _result(self, record: dict[str, Any], origin: Origin) -> NewEvent:
        call = str(record.get("call"))
        if self.turns.result(call) is None and self.turns.late(call) is None:
            self.problems.append(
                TranscriptProblem("orphan_result", f"{call} has a result and no call", {"call": call})
            )
        outcome = "ok" if record.get("status") == "completed" else "error"
        output = str(record.get("output", ""))
        body = {"call": call, "name": self._names.get(call, "tool"), "outcome": outcome, "output": output}
        return NewEvent("tool_summary", body, origin=origin)

    def _end(self, record: dict[str, Any]) -> None:
        stop = record.get("stop")
        self.turns.now.ended = {"end_turn": COMPLETE, "cancelled": ABORTED}.get(str(stop), FAILED)
        self.turns.now.reason = str(record.get("error") or stop)


def _place(path: str) -> SessionRef | None:
    """The session that a file is; None if it is none."""
    try:
        updated = timestamps.of_seconds(os.stat(path).st_mtime)
        lines = jsonl.lines(path, STARTS)
        head, first = next(lines, None), next(lines, None)
    except OSError:
        return None
    value = head.value if head is not None else None
    if value is None or value.get("type") != "session" or not isinstance(value.get("id"), str):
        return None
    cwd = value.get("cwd")
    text = (first.value or {}).get("text") if first is not None else None
    return SessionRef(
        agent=DEMO_AGENT,
        native_id=value["id"],
        path=os.path.abspath(path),
        cwd=cwd if isinstance(cwd, str) else None,
        title=" ".join(text.split())[:80] if isinstance(text, str) else None,
        updated_at=updated,
    )
