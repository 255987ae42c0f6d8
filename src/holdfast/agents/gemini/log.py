"""Which messages does Gemini's mutation log hold, and where in the file is each one?

Only positions are kept, not the messages: a log repeats its whole conversation at every resume.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.gemini import messages
from holdfast.transcripts.jsonl import JsonlLine, storable_id, text_field

STARTS = (b'{"id":', b'{"sessionId":', b'{"$set":', b'{"$rewindTo":')

_MARKS = ("type", "projectHash", "$set", "$rewindTo")  # each kind of record has one of these

SHOWN = 20  # how many examples of a problem are kept
ODD = 10_000  # how many unreadable lines keep a place in the history; further ones are only counted


class MessageRef(msgspec.Struct, frozen=True):
    """Where a message is: a piece of the file, and its number in a list there."""

    offset: int
    size: int
    index: int = -1  # -1: the piece is the message itself


class LogMessage(msgspec.Struct):
    """One message, or a stand-in for one."""

    id: str
    kind: str  # user, gemini, info, warning, error; result, context; odd, unknown, reset
    ref: MessageRef
    at: str | None = None
    first: int = 0  # the offset of its first record; over ACP its calls may come later
    digest: int = 0  # of its text
    is_message: bool = False  # a person or the model said something
    has_text: bool = False
    calls_ref: MessageRef | None = None
    has_results: bool = False  # its calls are recorded with their results
    calls: list[tuple[str, bool]] = []  # id, and whether it has a result
    thoughts_ref: MessageRef | None = None
    problem: str = ""  # of an unreadable line
    line: int = 0


class MutationLog:
    """Folds a mutation log into messages."""

    def __init__(self) -> None:
        self.entries: dict[str, LogMessage] = {}  # everything recorded and not rewound, in order
        self.live: dict[str, None] = {}  # the conversation as Gemini would read it
        self.lost: dict[str, str] = {}  # removed by a reset -> the key of the reset's entry
        self.compacted: set[str] = set()  # resets that brought a summary instead
        self.results: dict[str, MessageRef] = {}  # call id -> position
        self.begun: dict[str, int] = {}  # call id -> the offset of its first record
        self.header_ids: dict[str, None] = {}
        self.project: str | None = None
        self.kind: str | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.cwd: str | None = None
        self.has_messages = False  # anybody ever said anything
        self.records = 0
        self.left_out = 0  # unreadable lines beyond the limit
        self._stood_in = 0
        self.odd: dict[str, list[dict[str, Any]]] = {}
        self.counts: dict[str, int] = {}

    def on_line(self, line: JsonlLine) -> None:
        """Process one line."""
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
        """Whether a reset removed messages and nothing brought them back."""
        return any(key not in self.compacted for key in self.lost.values())

    def conversation(self) -> list[LogMessage]:
        """The messages that Gemini would resume with."""
        return [self.entries[id] for id in self.live if id in self.entries]

    def has_result(self, call: str, name: str = "") -> bool:
        """Whether a message holds the result of this call."""
        return call in self.results or f"name:{name}" in self.results

    # --- Records

    def _header(self, value: dict[str, Any], here: MessageRef) -> None:
        self._name(value.get("sessionId"))
        self.project = storable_id(value.get("projectHash")) or self.project
        self.kind = text_field(value, "kind") or self.kind
        self._metadata(value)
        if isinstance(listed := value.get("messages"), list):  # a file from before the log format
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
        reset = self._stand_in("reset", here, line)  # comes before the messages that the reset brings
        is_summary = False  # it has text that is new
        for index, inner in enumerate(listed):
            if isinstance(inner, dict) and isinstance(id := inner.get("id"), str):
                fresh = id not in self.entries
                self._message(inner, MessageRef(here.offset, here.size, index))
                is_summary |= fresh and self.entries[id].is_message
        removed = [id for id in before if id not in self.live and self.entries[id].is_message]
        if not removed:
            self._stood_in -= 1
            self.entries.pop(reset, None)
        elif is_summary:
            self.compacted.add(reset)
        self.lost.update(dict.fromkeys(removed, reset))

    def _rewind(self, target: str, here: MessageRef, line: JsonlLine) -> None:
        """Go back to before a message. If that message is missing, Gemini removes all: a reset."""
        if target not in self.live:
            self._replace([], here, line)
            return
        id = None
        while id != target:
            id, _ = self.live.popitem()
            del self.entries[id]

    def _message(self, value: dict[str, Any], here: MessageRef) -> None:
        id, type = value["id"], text_field(value, "type")
        text = messages.text(value)
        calls = messages.completed_calls(value) if value.get("toolCalls") else []
        asked, results, thought = [], [], bool(value.get("thoughts")) and bool(messages.thoughts(value))
        if isinstance(value.get("content"), (list, dict)):  # only parts can be anything else than text
            asked, results = messages.requested_calls(value), messages.responses(value)
            thought = thought or bool(messages.thoughts(value))
        fresh = LogMessage(
            id, _kind(type, value, text), here, timestamps.when_stamp(value.get("timestamp")), here.offset
        )
        fresh.digest = zlib.crc32(text.strip().encode(errors="surrogatepass"))
        fresh.has_text = bool(text.strip())
        fresh.thoughts_ref = here if thought else None
        if calls or asked:
            fresh.calls_ref, fresh.has_results = here, bool(calls)
            fresh.calls = [(call.id, call.outcome is not None) for call in calls or asked]
            for call in calls or asked:
                self.begun.setdefault(call.id, here.offset)
        for response in results:
            self.results.setdefault(response.id or f"name:{response.name}", here)
        fresh.is_message = fresh.kind in ("user", "gemini") and (
            fresh.has_text or bool(fresh.calls) or thought
        )
        before = self.entries.get(id)
        self.entries[id] = fresh if before is None else _merged(before, fresh)
        self.live[id] = None
        self.lost.pop(id, None)
        self.has_messages |= fresh.is_message
        if fresh.kind == "user" and self.title is None:
            self.title = title(text)
        elif fresh.kind == "context" and self.cwd is None:
            self.cwd = _workspace(text)

    # --- Helpers

    def _name(self, agent_id: Any) -> None:
        if (id := storable_id(agent_id)) is not None and len(self.header_ids) < SHOWN:
            self.header_ids[id] = None

    def _metadata(self, changed: dict[str, Any]) -> None:
        self.updated_at = timestamps.when_stamp(changed.get("lastUpdated")) or self.updated_at
        if summary := text_field(changed, "summary"):
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
        examples = self.odd.setdefault(code, [])
        if len(examples) < SHOWN:
            examples.append({"line": line.number, "offset": line.offset})


def is_record(value: dict[str, Any]) -> bool:
    """Whether an object is a record and not a part of one, such as a call with its id."""
    return any(mark in value for mark in _MARKS)


def title(prompt: str) -> str | None:
    """The first line of a prompt, shortened; None if it is empty or not fit for a title."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return storable_id(first if len(first) <= 100 else first[:99] + "…")


def _kind(type: str, value: dict[str, Any], text: str) -> str:
    if type == "user":
        if messages.is_result(value):
            return "result"
        return "context" if messages.is_context(text) else "user"
    if type == "gemini":
        return "synthetic" if text.strip() == messages.INTERRUPTED else "gemini"
    return type if type in ("info", "warning", "error") else "unknown"


def _merged(before: LogMessage, fresh: LogMessage) -> LogMessage:
    """Merge a repeated message. A resume writes less than was known, so keep what is known."""
    fresh.at, fresh.first = before.at or fresh.at, before.first
    if fresh.digest == before.digest or not fresh.has_text:
        fresh.ref, fresh.digest, fresh.has_text = before.ref, before.digest, before.has_text
        fresh.kind = before.kind if fresh.kind in ("unknown", before.kind) else fresh.kind
    if before.calls and (not fresh.calls or (before.has_results and not fresh.has_results)):
        fresh.calls, fresh.calls_ref, fresh.has_results = before.calls, before.calls_ref, before.has_results
    fresh.thoughts_ref = fresh.thoughts_ref or before.thoughts_ref
    fresh.is_message = fresh.is_message or before.is_message
    return fresh


def _workspace(context: str) -> str | None:
    """The folder that a session's context names first."""
    _, heading, rest = context.partition("**Workspace Directories:**")
    for line in rest.splitlines() if heading else ():
        if line.strip().startswith("- /"):
            return storable_id(line.strip()[2:])
    return None
