"""Codex by `codex exec --json`: it is told everything by its command line and never listens."""

from __future__ import annotations

from typing import Any

from holdfast.drive import line as lines
from holdfast.drive.codex.items import TOOLS, Tool, tool
from holdfast.drive.driver import Ask, Decision, Entry, Final, Job, Out
from holdfast.model.event import NewEvent, Origin

PROTOCOL = "exec-json"
COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}


class CodexDriver:
    """One `codex exec` process."""

    def __init__(self, job: Job):
        """For that job; nothing is said yet."""
        self.job = job
        self.final: Final | None = None
        self.accepted = False
        self.native_id: str | None = None
        self.asking: dict[str, Ask] = {}
        self.open_calls: dict[str, str] = {}
        self._begun: set[str] = set()
        self._answer: str | None = None
        self._problem: str | None = None  # what an `error` said before `turn.failed`

    def open(self) -> Out:
        """Nothing: the prompt is in its command line."""
        return Out()

    def answer(self, ask: str, decision: Decision) -> Out:
        """Nothing: it does not ask."""
        return Out()

    def unfinished(self) -> tuple[str, str] | None:
        """See `Driver`."""
        return None

    def interrupt(self) -> Out | None:
        """Only a signal stops it: SIGINT is its clean stop."""
        return None

    def hear(self, line: bytes) -> Out:
        """Take one whole line of stdout."""
        out = Out()
        if lines.is_blank(line):
            return out
        record = lines.parse(line)
        if isinstance(record, NewEvent):
            out.entries.append(record)
            return out
        kind = lines.word(record, "type")
        if kind == "thread.started":
            self._named(record, out.entries)
        elif kind == "turn.started":
            self._accept(out.entries)
        elif kind in ("item.started", "item.updated", "item.completed"):
            item = record.get("item")
            if isinstance(item, dict):
                self._item(kind, item, out.entries)
            else:
                out.entries.append(lines.unknown(record))
        elif kind == "turn.completed":
            self.final = Final(ok=True, usage=self._usage(record), answer=self._answer)
        elif kind == "turn.failed":
            self._failed(record)
        elif kind == "error":
            said = record.get("message")
            self._problem = said if isinstance(said, str) else lines.shown(record)
            out.entries.append(lines.error("agent_error", self._problem))
        else:
            out.entries.append(lines.unknown(record))
        return out

    def close(self) -> Out:
        """Stdout has ended for good."""
        out = Out()
        for call, name in self.open_calls.items():
            body = {"call": call, "name": name, "outcome": "interrupted", "output": lines.UNKNOWN_OUTCOME}
            out.entries.append(NewEvent("tool_summary", body))
        self.open_calls.clear()
        return out

    def _named(self, record: dict[str, Any], entries: list[Entry]) -> None:
        named = lines.plain(record.get("thread_id"))
        if named is None or named == self.native_id:
            return
        entries += lines.named(self.job, self.native_id, named, PROTOCOL)
        self.native_id = named

    def _accept(self, entries: list[Entry]) -> None:
        if not self.accepted:
            self.accepted = True
            entries.append(NewEvent("user", {"text": self.job.prompt}, origin=self._origin("prompt")))

    def _failed(self, record: dict[str, Any]) -> None:
        error = record.get("error")
        said = error.get("message") if isinstance(error, dict) else None
        reason = said if isinstance(said, str) and said else self._problem
        self.final = Final(ok=False, reason=reason or "the turn failed without a reason")

    def _usage(self, record: dict[str, Any]) -> dict[str, Any]:
        """It counts over all turns of a conversation (0.166.0), so that a resume's are not its own."""
        usage = record.get("usage")
        told = usage if isinstance(usage, dict) else {}
        found = {name: told[key] for name, key in COUNTS.items() if type(told.get(key)) is int}
        return {"conversation": found} if self.job.resume and found else found

    def _item(self, kind: str, item: dict[str, Any], entries: list[Entry]) -> None:
        id, what = item.get("id"), item.get("type")
        if not isinstance(id, str) or not isinstance(what, str):
            entries.append(lines.unknown(item))
            return
        if what in TOOLS:
            self._tool(kind, f"{self.job.task}:{id}", tool(item), entries)
            return
        if kind != "item.completed":
            return  # a plan that grows; its last state is told
        said = item.get("text")
        if what in ("agent_message", "reasoning") and isinstance(said, str):
            if what == "agent_message":
                self._answer = said
            if said:
                name = "assistant" if what == "agent_message" else "thinking"
                entries.append(NewEvent(name, {"text": said}, origin=self._origin(id)))
        elif what == "error":
            # Warnings arrive this way too; a failure is `turn.failed`.
            entries.append(lines.notice("agent_warning", str(item.get("message", ""))))
        elif what == "todo_list":
            entries.append(lines.notice("plan", _plan(item.get("items"))))
        else:
            entries.append(lines.unknown(item))

    def _tool(self, kind: str, call: str, told: Tool, entries: list[Entry]) -> None:
        if call not in self._begun:
            self._begun.add(call)
            self.open_calls[call] = told.name
            body: dict[str, Any] = {"call": call, "name": told.name, "input": told.input}
            entries.append(NewEvent("tool_progress", body, origin=self._origin(f"call:{call}")))
        if kind == "item.completed" and self.open_calls.pop(call, None) is not None:
            body = {"call": call, "name": told.name, "outcome": told.outcome, "output": told.output}
            if told.exit_code is not None:
                body["exit_code"] = told.exit_code
            entries.append(NewEvent("tool_summary", body, origin=self._origin(f"result:{call}")))

    def _origin(self, record: str) -> Origin | None:
        """Its item ids begin again in every process, so that they are ours only with the task."""
        record_id = record if self.job.task in record else f"{self.job.task}:{record}"
        return lines.origin(self.job.agent, self.native_id or self.job.native_id, record_id)


def _plan(items: Any) -> str:
    steps = items if isinstance(items, list) else []
    return "\n".join(
        f"[{'x' if step.get('completed') else ' '}] {step.get('text', '')}"
        for step in steps
        if isinstance(step, dict)
    )
