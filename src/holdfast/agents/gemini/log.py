"""Gemini's mutation log folded: which messages there are, and where in the file each is told.

Only places are kept, not the messages: a log repeats its whole conversation at every resume.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.gemini import messages as said
from holdfast.transcripts.jsonl import JsonlLine, plain, word

STARTS = (b'{"id":', b'{"sessionId":', b'{"$set":', b'{"$rewindTo":')

_MARKS = ("type", "projectHash", "$set", "$rewindTo")  # one of these is in each kind of record

SHOWN = 20  # pieces of evidence that are kept of one kind of problem
ODD = 10_000  # lines that are no messages and have a place in the history; of more there is only the number


class MessageRef(msgspec.Struct, frozen=True):
    """Where a message is told: a piece of the file, and its number in a list there."""

    offset: int
    size: int
    index: int = -1  # -1: the piece is the message itself


class LogMessage(msgspec.Struct):
    """One message, or what stands in the place of one."""

    id: str
    kind: str  # user, gemini, info, warning, error; result, context; odd, unknown, reset
    ref: MessageRef
    at: str | None = None
    first: int = 0  # the offset at which it was first told; over ACP its calls may come later
    digest: int = 0  # of its text
    is_said: bool = False  # a person or the model said something
    has_text: bool = False
    calls_ref: MessageRef | None = None
    are_told: bool = False  # its calls are told with their ends
    calls: list[tuple[str, bool]] = []  # id, and whether its end is told
    thoughts_ref: MessageRef | None = None
    problem: str = ""  # of an odd line
    line: int = 0


class MutationLog:
    """The fold of a mutation log."""

    def __init__(self) -> None:
        self.entries: dict[str, LogMessage] = {}  # all that was ever told and not taken back, in order
        self.live: dict[str, None] = {}  # the conversation as Gemini would read it
        self.lost: dict[str, str] = {}  # out of the conversation by a reset: the key of its entry
        self.compacted: set[str] = set()  # the resets that brought a summary instead
        self.results: dict[str, MessageRef] = {}  # by the id of their call
        self.begun: dict[str, int] = {}  # by the id of a call: the offset at which it was first told
        self.header_ids: dict[str, None] = {}
        self.project: str | None = None
        self.kind: str | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.cwd: str | None = None
        self.said = False  # anybody ever said anything
        self.records = 0
        self.left_out = 0  # odd lines behind the first many
        self._stood_in = 0
        self.odd: dict[str, list[dict[str, Any]]] = {}
        self.counts: dict[str, int] = {}

    def take(self, line: JsonlLine) -> None:
        """One more line."""
        self.records += 1
        here = MessageRef(line.offset, line.size)
        if line.problem is not None:
            self._note(line)
        if line.value is None:
            self._stand_in("odd", here, line)
            return
        value = line.value
        if isinstance(target := value.get("$rewindTo"), str):
            self._rewind(target, here, line)
        elif isinstance(value.get("id"), str):
            self._message(value, here)
        elif isinstance(changed := value.get("$set"), dict):
            self._set(changed, here, line)
        elif isinstance(value.get("sessionId"), str):
            self._header(value, here)
        else:
            self._stand_in("unknown", here, line)

    @property
    def is_wiped(self) -> bool:
        """Whether a reset took messages away, and nothing brought them back."""
        return any(key not in self.compacted for key in self.lost.values())

    def conversation(self) -> list[LogMessage]:
        """What Gemini would go on with."""
        return [self.entries[id] for id in self.live if id in self.entries]

    def has_result(self, call: str, name: str = "") -> bool:
        """Whether a message gives the result of that call."""
        return call in self.results or f"name:{name}" in self.results

    # --- records

    def _header(self, value: dict[str, Any], here: MessageRef) -> None:
        self._name(value.get("sessionId"))
        self.project = plain(value.get("projectHash")) or self.project
        self.kind = word(value, "kind") or self.kind
        self._metadata(value)
        if isinstance(listed := value.get("messages"), list):  # a file of before the log
            for index, inner in enumerate(listed):
                if isinstance(inner, dict) and isinstance(inner.get("id"), str):
                    self._message(inner, MessageRef(here.offset, here.size, index))

    def _set(self, changed: dict[str, Any], here: MessageRef, line: JsonlLine) -> None:
        self._metadata(changed)
        if "sessionId" in changed:
            self._name(changed["sessionId"])
        listed = changed.get("messages")
        if isinstance(listed, list):
            self._replace(listed, here, line)

    def _replace(self, listed: list[Any], here: MessageRef, line: JsonlLine) -> None:
        before, self.live = self.live, {}
        reset = self._stand_in("reset", here, line)  # stands before what it brings
        is_summary = False  # whether it says something that was not said before
        for index, inner in enumerate(listed):
            if isinstance(inner, dict) and isinstance(id := inner.get("id"), str):
                fresh = id not in self.entries
                self._message(inner, MessageRef(here.offset, here.size, index))
                is_summary |= fresh and self.entries[id].is_said
        gone = [id for id in before if id not in self.live and self.entries[id].is_said]
        if not gone:
            self._stood_in -= 1
            self.entries.pop(reset, None)
        elif is_summary:
            self.compacted.add(reset)
        self.lost.update(dict.fromkeys(gone, reset))

    def _rewind(self, target: str, here: MessageRef, line: JsonlLine) -> None:
        """Back to before a message, on purpose; if that is not there, Gemini takes all back: a reset."""
        if target not in self.live:
            self._replace([], here, line)
            return
        id = None
        while id != target:
            id, _ = self.live.popitem()
            del self.entries[id]

    def _message(self, value: dict[str, Any], here: MessageRef) -> None:
        id, type = value["id"], word(value, "type")
        text = said.text(value)
        told = said.told_calls(value) if value.get("toolCalls") else []
        asked, results, thought = [], [], bool(value.get("thoughts")) and bool(said.thoughts(value))
        if isinstance(value.get("content"), (list, dict)):  # only parts can be anything else than text
            asked, results = said.asked_calls(value), said.responses(value)
            thought = thought or bool(said.thoughts(value))
        fresh = LogMessage(
            id, _kind(type, value, text), here, timestamps.when_stamp(value.get("timestamp")), here.offset
        )
        fresh.digest = zlib.crc32(text.strip().encode(errors="surrogatepass"))
        fresh.has_text = bool(text.strip())
        fresh.thoughts_ref = here if thought else None
        if told or asked:
            fresh.calls_ref, fresh.are_told = here, bool(told)
            fresh.calls = [(call.id, call.outcome is not None) for call in told or asked]
            for call in told or asked:
                self.begun.setdefault(call.id, here.offset)
        for response in results:
            self.results.setdefault(response.id or f"name:{response.name}", here)
        fresh.is_said = fresh.kind in ("user", "gemini") and (fresh.has_text or bool(fresh.calls) or thought)
        before = self.entries.get(id)
        self.entries[id] = fresh if before is None else _merged(before, fresh)
        self.live[id] = None
        self.lost.pop(id, None)
        self.said |= fresh.is_said
        if fresh.kind == "user" and self.title is None:
            self.title = title(text)
        elif fresh.kind == "context" and self.cwd is None:
            self.cwd = _workspace(text)

    # --- what is around them

    def _name(self, told: Any) -> None:
        if (id := plain(told)) is not None and len(self.header_ids) < SHOWN:
            self.header_ids[id] = None

    def _metadata(self, changed: dict[str, Any]) -> None:
        self.updated_at = timestamps.when_stamp(changed.get("lastUpdated")) or self.updated_at
        if summary := word(changed, "summary"):
            self.title = title(summary) or self.title

    def _stand_in(self, kind: str, here: MessageRef, line: JsonlLine) -> str:
        key = f"\0{kind}:{line.offset}"
        self._stood_in += 1
        if self._stood_in > ODD:
            self.left_out += 1
            return key
        problem = line.problem or ""
        self.entries[key] = LogMessage(key, kind, here, first=here.offset, problem=problem, line=line.number)
        return key

    def _note(self, line: JsonlLine) -> None:
        code = line.problem or ""
        self.counts[code] = self.counts.get(code, 0) + 1
        shown = self.odd.setdefault(code, [])
        if len(shown) < SHOWN:
            shown.append({"line": line.number, "offset": line.offset})


def is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record of its own, and not a part of one, such as a call with its id."""
    return any(mark in value for mark in _MARKS)


def title(prompt: str) -> str | None:
    """The first line of a prompt, cut; None if it is empty or not for a header."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return plain(first if len(first) <= 100 else first[:99] + "…")


def _kind(type: str, value: dict[str, Any], text: str) -> str:
    if type == "user":
        if said.is_result(value):
            return "result"
        return "context" if said.is_context(text) else "user"
    if type == "gemini":
        return "synthetic" if text.strip() == said.INTERRUPTED else "gemini"
    return type if type in ("info", "warning", "error") else "unknown"


def _merged(before: LogMessage, fresh: LogMessage) -> LogMessage:
    """A message told again: a resume tells it with less than was known, so nothing known is given up."""
    fresh.at, fresh.first = before.at or fresh.at, before.first
    if fresh.digest == before.digest or not fresh.has_text:
        fresh.ref, fresh.digest, fresh.has_text = before.ref, before.digest, before.has_text
        fresh.kind = before.kind if fresh.kind in ("unknown", before.kind) else fresh.kind
    if before.calls and (not fresh.calls or (before.are_told and not fresh.are_told)):
        fresh.calls, fresh.calls_ref, fresh.are_told = before.calls, before.calls_ref, before.are_told
    fresh.thoughts_ref = fresh.thoughts_ref or before.thoughts_ref
    fresh.is_said = fresh.is_said or before.is_said
    return fresh


def _workspace(context: str) -> str | None:
    """The folder that a session's context names first."""
    _, found, rest = context.partition("**Workspace Directories:**")
    for line in rest.splitlines() if found else ():
        if line.strip().startswith("- /"):
            return plain(line.strip()[2:])
    return None
