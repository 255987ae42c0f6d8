"""How are the demo agent's sessions read? `holdfast.demo` describes the file format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import timestamps
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
    home_folder,
    is_same_folder,
)
from holdfast.transcripts.turns import ABORTED, COMPLETE, FAILED, TurnTracker

DEMO_AGENT = "demo"
STARTS = (b'{"type":',)
SUFFIX = ".jsonl"
QUIET = ("session", "ask", "answer")


class DemoReader(TranscriptReader):
    """A folder with one file per session."""

    agent = DEMO_AGENT

    def root(self, env: Mapping[str, str]) -> str:
        """The folder that the demo agent itself uses."""
        data = env.get("XDG_DATA_HOME") or os.path.join(home_folder(env), ".local", "share")
        return env.get("HOLDFAST_DEMO_HOME") or os.path.join(data, "holdfast-demo")

    def at_file(self, path: str) -> list[SessionRef]:
        """The session in that file, if it is one."""
        ref = _session_ref(path)
        return [ref] if ref is not None else []

    def with_id(self, root: str, native_id: str) -> list[SessionRef]:
        """The file with that name."""
        return self.at_file(os.path.join(root, os.path.basename(native_id) + SUFFIX))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All session files in the folder."""
        names = sorted(os.listdir(root)) if os.path.isdir(root) else []
        for name in names:
            for ref in self.at_file(os.path.join(root, name)) if name.endswith(SUFFIX) else ():
                if cwd is None or is_same_folder(ref.cwd, cwd):
                    yield ref

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """One record after the other, in the order they happened."""
        yield from _DemoEvents(ref).events()

    def inspect(self, ref: SessionRef) -> Inspection:
        """The demo agent's own rules decide."""
        records = _DemoEvents(ref)
        for _ in records.events():
            pass
        problems = [*records.problems, *records.turns.problems()]
        return self.inspection(
            ref,
            problems,
            dangling=records.turns.dangling,
            turns=records.turns.count,
            last_complete=records.turns.last_complete,
        )


class _DemoEvents:
    """Turns the records of one file into events."""

    def __init__(self, ref: SessionRef):
        self.turns = TurnTracker()
        self.problems: list[TranscriptProblem] = []
        self._ref = ref
        self._names: dict[str, str] = {}
        self._last = 0

    def events(self) -> Iterator[NewEvent]:
        for line in jsonl.lines(self._ref.path, STARTS):
            if line.problem is not None:
                text = f"line {line.number} is damaged"
                self.problems.append(TranscriptProblem(line.problem, text, {"line": line.number}))
            if line.value is None:
                yield jsonl.notice(line, DEMO_AGENT, self._ref.native_id)
            else:
                yield from self._on_record(line.value)
        yield from self.turns.close()

    def _on_record(self, record: dict[str, Any]) -> Iterator[NewEvent]:
        kind, number = record.get("type"), record.get("n")
        if isinstance(number, int):
            if number != self._last + 1:
                text = f"record {number} comes after {self._last}"
                self.problems.append(TranscriptProblem("ordinal_gap", text, {"n": number}))
            self._last = number
        origin = Origin(DEMO_AGENT, self._ref.native_id, f"record:{number}")
        text = str(record.get("text", ""))
        at = timestamps.when_stamp(record.get("at"))
        match kind:
            case "prompt":
                yield from self.turns.prompt()
                yield NewEvent("user", {"text": text}, at, origin=origin)
            case "message" | "thought":
                self.turns.add_text()
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
                yield jsonl.unknown(record)

    def _result(self, record: dict[str, Any], origin: Origin) -> NewEvent:
        call = str(record.get("call"))
        if self.turns.result(call) is None and self.turns.late_result(call) is None:
            self.problems.append(
                TranscriptProblem("orphan_result", f"{call} has a result but no call", {"call": call})
            )
        outcome = "ok" if record.get("status") == "completed" else "error"
        output = str(record.get("output", ""))
        body = {"call": call, "name": self._names.get(call, "tool"), "outcome": outcome, "output": output}
        return NewEvent("tool_summary", body, origin=origin)

    def _end(self, record: dict[str, Any]) -> None:
        stop = record.get("stop")
        self.turns.now.ended = {"end_turn": COMPLETE, "cancelled": ABORTED}.get(str(stop), FAILED)
        self.turns.now.reason = str(record.get("error") or stop)


def _session_ref(path: str) -> SessionRef | None:
    """The session in a file; None if the file is not a session."""
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
