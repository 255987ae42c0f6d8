"""How is a conversation read from content-addressed blobs, as in the CLI's store and the SDK's checkpoints?

The root names turns, a turn names its user message and its steps; each is a protobuf blob of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast import timestamps
from holdfast.agents.acp.content import AcpOrigins, block_text, join_surrogates, raw_text
from holdfast.agents.cursor import tool_calls
from holdfast.agents.cursor.protobuf import ProtobufMessage
from holdfast.agents.cursor.tool_calls import streams
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

Blobs = Callable[[str], bytes | None]  # a blob by the hex of its sha256

_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_AROUND = re.compile(r"<(user_info|system_reminder|additional_data|timestamp)>.*?</\1>", re.DOTALL)


class PromptMessages:
    """Finds each call and each result in the messages for the model; only blob ids are kept."""

    def __init__(self, ids: Iterable[bytes], blob: Blobs):
        self.ids = [blob_id.hex() for blob_id in ids]
        self.missing: list[str] = []
        self.last_role = ""
        self._blob = blob
        self._calls: dict[str, str] = {}
        self._results: dict[str, str] = {}
        for blob_id in self.ids:
            message = read(blob(blob_id))
            if message is None:
                self.missing.append(blob_id)
                continue
            self.last_role = jsonl.text_field(message, "role")
            for part in parts(message):
                if call := jsonl.text_field(part, "toolCallId"):
                    into = self._results if part.get("type") == "tool-result" else self._calls
                    into.setdefault(call, blob_id)

    def call(self, call: str) -> dict[str, Any] | None:
        """The part that made a call."""
        return self._part(self._calls.get(call), call, "tool-call")

    def result(self, call: str) -> str | None:
        """What the model was told about a call's result."""
        part = self._part(self._results.get(call), call, "tool-result")
        return None if part is None else result_text(part)

    def _part(self, blob_id: str | None, call: str, kind: str) -> dict[str, Any] | None:
        message = None if blob_id is None else read(self._blob(blob_id))
        of_call = (p for p in parts(message or {}) if p.get("toolCallId") == call and p.get("type") == kind)
        return next(of_call, None)


def read(data: bytes | None) -> dict[str, Any] | None:
    """The message in a blob; None if there is none."""
    value = jsonl.parse(data) if data is not None else None
    return value if isinstance(value, dict) else None


def parts(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a message's content in any form."""
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))


def result_text(part: dict[str, Any]) -> str:
    """A tool-result part as text."""
    for key in ("result", "output"):
        value = part.get(key)
        if isinstance(value, dict) and "value" in value and "type" in value:
            value = value["value"]
        if isinstance(value, list):
            return join_surrogates("\n".join(block_text(item) for item in value))
        if value is not None:
            return raw_text(value)
    return ""


def user_text(text: str) -> str:
    """The user's text, without what the CLI wraps around it for the model."""
    if queries := _QUERY.findall(text):
        return "\n".join(queries)
    return _AROUND.sub("", text).strip()


# --- The graph

AGENT = "cursor"
Item = NewEvent | TranscriptProblem

# ConversationStateStructure
_PROMPTS, _PENDING, _TURNS = 1, 4, 8
# ConversationTurnStructure, and the two turns
_AGENT_TURN, _SHELL_TURN = 1, 2
_USER, _STEPS, _REQUEST = 1, 2, 3
# UserMessage
_TEXT, _SIMULATED, _TEXT_BLOB, _STARTED = 1, 5, 18, 25
# ConversationStep
_ASSISTANT, _TOOL, _THINKING = 1, 2, 3


class CheckpointGraph:
    """One state of a conversation, starting at its root."""

    def __init__(self, native_id: str, root: str, blob: Blobs):
        self._native_id = native_id
        self._root = root
        self._blob = blob
        self._keys: set[str] = set()  # turns already read
        self._calls: set[str] = set()  # calls that have begun
        self._open: dict[str, str] = {}  # open calls of this turn: id -> name

    def items(self) -> Iterator[Item]:
        """Its events in order, with problems where they occur."""
        data = self._blob(self._root)
        if data is None:
            yield from self._missing(self._root, "the root of the conversation", f"root:{self._root}")
            return
        state = ProtobufMessage(data)
        if state.broken:
            yield TranscriptProblem(
                "store_damaged", "the root of the conversation is truncated", {"blob": self._root}
            )
        prompts = PromptMessages(state.many(_PROMPTS), self._blob)
        if prompts.missing:
            yield TranscriptProblem(
                "missing_blob", "messages for the model are missing", {"blobs": prompts.missing[:20]}
            )
        turns = [turn.hex() for turn in state.many(_TURNS)]
        seen: set[str] = set()
        last: list[NewEvent] = []
        for number, turn in enumerate(turns, 1):
            yield from last
            if turn in seen:
                yield TranscriptProblem("duplicate_record", "a turn is listed twice", {"blob": turn})
                continue
            seen.add(turn)
            yield from self._turn(turn, number, prompts)
            last = self._close()
        if not turns:
            yield from self._from_prompts(prompts)
        yield from self._pending(state.texts(_PENDING), prompts)
        yield from self._close()
        yield from last
        if prompts.last_role == "user":
            yield TranscriptProblem("no_reply", "the last message for the model is the user's", {})

    def prompts_by_request(self) -> dict[str, str]:
        """The prompts by request id."""
        prompts = {}
        for turn in ProtobufMessage(self._blob(self._root) or b"").many(_TURNS):
            agent = ProtobufMessage(self._blob(turn.hex()) or b"").inside(_AGENT_TURN)
            user = agent.one(_USER) if agent is not None else None
            data = self._blob(user.hex()) if user is not None else None
            if agent is not None and data is not None:
                prompts[agent.text(_REQUEST)] = self._words(ProtobufMessage(data))
        return prompts

    # --- One turn

    def _turn(self, turn: str, number: int, prompts: PromptMessages) -> Iterator[Item]:
        data = None if turn == self._root else self._blob(turn)
        if turn == self._root:
            yield TranscriptProblem("parent_cycle", "a turn refers to its own conversation", {"blob": turn})
        if data is None:
            yield from self._missing(turn, f"turn {number}", f"turn:{number}")
            return
        message = ProtobufMessage(data)
        if message.broken:
            yield TranscriptProblem("store_damaged", "a turn is truncated", {"blob": turn, "turn": number})
        if (shell := message.inside(_SHELL_TURN)) is not None:
            yield from self._shell(shell, number)
            return
        agent = message.inside(_AGENT_TURN)
        if agent is None:
            yield self._notice("unknown_record", f"turn {number} is of an unknown kind", f"turn:{number}")
            return
        key = agent.text(_REQUEST)
        if not key or key in self._keys:
            key = f"turn:{number}"
        self._keys.add(key)
        yield from self._user(agent.one(_USER), key)
        for at, step in enumerate(agent.many(_STEPS)):
            if step.hex() in (turn, self._root):
                yield TranscriptProblem("parent_cycle", "a step refers to its own turn", {"blob": step.hex()})
                continue
            yield from self._step(step.hex(), key, at, prompts)

    def _user(self, blob_id: bytes | None, key: str) -> Iterator[Item]:
        record = f"{key}:prompt"
        if blob_id is None:
            yield self._notice("no_prompt", "this turn has no prompt", record)
            return
        data = self._blob(blob_id.hex())
        if data is None:
            yield self._notice("no_prompt", "the prompt of this turn is missing", f"{record}:gone")
            yield from self._missing(blob_id.hex(), "a prompt", record)
            return
        user = ProtobufMessage(data)
        text, at = self._words(user), timestamps.of(user.number(_STARTED))
        if user.number(_SIMULATED):
            yield NewEvent("notice", {"text": text, "code": "synthetic"}, at=at, origin=self._origin(record))
        else:
            yield NewEvent("user", {"text": text}, at=at, origin=self._origin(record))

    def _words(self, user: ProtobufMessage) -> str:
        text = user.text(_TEXT)
        if not text and (blob_id := user.one(_TEXT_BLOB)) is not None:
            text = (self._blob(blob_id.hex()) or b"").decode(errors="replace")
        return text

    def _step(self, step: str, key: str, at: int, prompts: PromptMessages) -> Iterator[Item]:
        record = f"{key}:{at}"
        data = self._blob(step)
        if data is None:
            yield from self._missing(step, "a step", record)
            return
        message = ProtobufMessage(data)
        if message.broken:
            yield TranscriptProblem("store_damaged", "a step is truncated", {"blob": step})
        if (tool := message.one(_TOOL)) is not None:
            yield from self._tool(tool_calls.read(tool), key, record, prompts)
        elif (spoken := message.inside(_ASSISTANT)) is not None:
            yield from self._spoken("assistant", spoken, record)
        elif (thought := message.inside(_THINKING)) is not None:
            yield from self._spoken("thinking", thought, record)
        else:
            yield self._notice("unknown_record", f"a step of kind {message.numbers[:5]}", record)

    def _spoken(self, kind: str, message: ProtobufMessage, record: str) -> Iterator[NewEvent]:
        if text := message.text(1):
            yield NewEvent(kind, {"text": text}, origin=self._origin(record))

    def _tool(
        self, call: tool_calls.CheckpointCall, key: str, record: str, prompts: PromptMessages
    ) -> Iterator[NewEvent]:
        name, arguments = call.id or record, call.input
        asked = None if call.known or not call.id else prompts.call(call.id)
        if asked is not None and isinstance(asked.get("args"), dict):
            arguments = asked["args"]
        # The same ids as the ACP driver's, so that a call of the live stream is recognized.
        again = name in self._calls
        self._calls.add(name)
        origins = AcpOrigins(AGENT, key)
        origins.native_id = self._native_id
        begun = self._origin(record) if again else origins.of("call", name)
        ended = self._origin(f"{record}:result") if again else origins.of("result", name)
        body = {"call": name, "name": call.name, "input": arguments}
        yield NewEvent("tool_progress", body, at=call.started, origin=begun)
        if call.outcome is None:
            self._open[name] = call.name
            return
        output = call.output
        if call.name != "shell" and call.id:
            output = prompts.result(call.id) or output
        done: dict[str, Any] = {"call": name, "name": call.name, "outcome": call.outcome, "output": output}
        if call.exit_code is not None:
            done["exit_code"] = call.exit_code
        yield NewEvent("tool_summary", done, at=call.ended, origin=ended)

    def _shell(self, shell: ProtobufMessage, number: int) -> Iterator[Item]:
        """The user's own shell command, which no model saw as a prompt."""
        texts = []
        for field in (1, 2):
            blob_id = shell.one(field)
            data = self._blob(blob_id.hex()) if blob_id is not None else b""
            if blob_id is not None and data is None:
                yield from self._missing(blob_id.hex(), "the user ran a command", f"turn:{number}:{field}")
            inner = ProtobufMessage(data or b"")
            texts.append(f"$ {inner.text(1)}" if field == 1 else streams(inner.text(1), inner.text(2)))
        yield self._notice("local_command", "\n".join(text for text in texts if text), f"turn:{number}")

    # --- Outside the turns

    def _pending(self, texts: list[str], prompts: PromptMessages) -> Iterator[NewEvent]:
        """Calls that the checkpoint lists as running; the format of these texts is not published."""
        for number, text in enumerate(texts, 1):
            value = read(text.encode(errors="surrogatepass")) or {}
            names = ("toolCallId", "tool_call_id", "callId", "call_id", "call", "id")
            call = next((value[n] for n in names if isinstance(value.get(n), str) and value[n]), "")
            if call in self._calls and call:
                continue
            asked = (prompts.call(call) if call else None) or {}
            name = (
                jsonl.text_field(value, "toolName")
                or jsonl.text_field(value, "name")
                or jsonl.text_field(asked, "toolName")
            )
            arguments = value.get("args") or asked.get("args") or value.get("input") or {"pending": text}
            call = call or f"pending:{number}"
            self._calls.add(call)
            self._open[call] = name or "tool"
            origins = AcpOrigins(AGENT, "pending")
            origins.native_id = self._native_id
            body = {"call": call, "name": name or "tool", "input": arguments}
            yield NewEvent("tool_progress", body, origin=origins.of("call", call))

    def _from_prompts(self, prompts: PromptMessages) -> Iterator[Item]:
        """A conversation without turns: the messages for the model."""
        names: dict[str, str] = {}
        for number, blob_id in enumerate(prompts.ids):
            message = read(self._blob(blob_id)) or {}
            role = jsonl.text_field(message, "role")
            for at, part in enumerate(parts(message)):
                # The number is needed too: the same text said twice is one blob.
                record = f"prompt:{number}:{blob_id[:16]}:{at}"
                kind, text = jsonl.text_field(part, "type"), jsonl.text_field(part, "text")
                call = jsonl.text_field(part, "toolCallId") or record
                if kind == "tool-call":
                    names[call] = self._open[call] = jsonl.text_field(part, "toolName") or "tool"
                    self._calls.add(call)
                    body = {"call": call, "name": names[call], "input": part.get("args") or {}}
                    yield NewEvent("tool_progress", body, origin=self._origin(record))
                elif kind == "tool-result":
                    name = names.get(call) or jsonl.text_field(part, "toolName") or "tool"
                    if self._open.pop(call, None) is None:
                        yield TranscriptProblem("orphan_result", "a result without its call", {"call": call})
                    outcome = "error" if part.get("isError") else "ok"
                    body = {"call": call, "name": name, "outcome": outcome, "output": result_text(part)}
                    yield NewEvent("tool_summary", body, origin=self._origin(record))
                elif role == "user" and (text := user_text(text)):
                    yield NewEvent("user", {"text": text}, origin=self._origin(record))
                elif role == "assistant" and text and kind in ("text", "reasoning"):
                    spoken = "assistant" if kind == "text" else "thinking"
                    yield NewEvent(spoken, {"text": text}, origin=self._origin(record))

    def _close(self) -> list[NewEvent]:
        """An end for each open call of this turn."""
        events = []
        for call, name in self._open.items():
            body = {"call": call, "name": name, "outcome": "interrupted", "output": jsonl.UNKNOWN_OUTCOME}
            events.append(NewEvent("tool_summary", body))
        self._open = {}
        return events

    def _missing(self, blob: str, what: str, record: str) -> Iterator[Item]:
        yield self._notice("missing_blob", f"{what} is missing from the store", record, blob=blob)
        yield TranscriptProblem("missing_blob", f"{what} is missing from the store", {"blob": blob})

    def _notice(self, code: str, text: str, record: str, **facts: Any) -> NewEvent:
        return NewEvent("notice", {"text": text, "code": code, **facts}, origin=self._origin(record))

    def _origin(self, record: str) -> Origin | None:
        return jsonl.origin(AGENT, self._native_id, record)
