"""Which events and turns do OpenCode's messages and parts contain?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast import timestamps
from holdfast.agents.acp import content
from holdfast.agents.acp.content import AcpOrigins
from holdfast.agents.opencode.database import OpenCodeRow, OpenCodeSession
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl
from holdfast.transcripts.turns import ABORTED, COMPLETE, FAILED, TurnTracker

# Parts that only structure a message, or name a file snapshot that OpenCode keeps elsewhere.
QUIET = frozenset({"step-start", "step-finish", "snapshot"})
_OUTCOMES = {"completed": "ok", "error": "error"}


def origin(
    agent: str, native_id: str, kind: str, agent_id: str, part: OpenCodeRow, number: int | None = None
) -> Origin | None:
    """The same origin as the live driver's; an id that may be a counter is valid for its part only."""
    origins = AcpOrigins(agent, part.id or "part")
    origins.native_id = native_id
    return origins.of(kind, agent_id, number)


def moment(data: dict[str, Any], key: str) -> str | None:
    """A timestamp inside a record."""
    time = data.get("time")
    return timestamps.of_millis(time.get(key)) if isinstance(time, dict) else None


def state(data: dict[str, Any]) -> dict[str, Any]:
    """The state of a tool part."""
    state = data.get("state")
    return state if isinstance(state, dict) else {}


def outcome(state: dict[str, Any]) -> str | None:
    """How a call ended; None if it has not."""
    metadata = state.get("metadata")
    if state.get("status") == "error" and isinstance(metadata, dict) and metadata.get("interrupted") is True:
        return "interrupted"
    return _OUTCOMES.get(jsonl.text_field(state, "status"))


def output(state: dict[str, Any], how: str) -> str:
    """The text of a result."""
    metadata = state.get("metadata")
    if how == "interrupted" and isinstance(metadata, dict) and jsonl.text_field(metadata, "output"):
        return jsonl.text_field(metadata, "output")
    return content.raw_text(state.get("output") if state.get("status") == "completed" else state.get("error"))


def summary(call: str, name: str, state: dict[str, Any], how: str) -> dict[str, Any]:
    """The body of a call's `tool_summary`."""
    body: dict[str, Any] = {"call": call, "name": name, "outcome": how, "output": output(state, how)}
    metadata = state.get("metadata")
    if isinstance(metadata, dict) and type(metadata.get("exit")) is int:
        body["exit"] = metadata["exit"]
    arguments = state.get("input")
    if how == "ok" and isinstance(arguments, dict) and isinstance(arguments.get("oldString"), str):
        new = arguments.get("newString")
        if isinstance(new, str):
            body["diff"] = [
                {"path": jsonl.text_field(arguments, "filePath"), "old": arguments["oldString"], "new": new}
            ]
    return body


def note(data: dict[str, Any]) -> NewEvent:
    """The notice for a part that is neither text nor a tool."""
    kind = jsonl.text_field(data, "type")
    if kind == "file":
        what = [jsonl.text_field(data, "filename"), jsonl.text_field(data, "mime")]
        url = jsonl.text_field(data, "url")
        facts = {} if url.startswith("data:") else {"url": url}
        return jsonl.notice_event("attachment", f"[file {' '.join(filter(None, what))}]", **facts)
    if kind == "agent":
        return jsonl.notice_event("agent", f"@{jsonl.text_field(data, 'name')}")
    if kind == "compaction":
        why = "automatically" if data.get("auto") is True else "by the user"
        return jsonl.notice_event("compaction", f"the conversation was compacted {why}")
    if kind == "patch":
        files = data.get("files")
        names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
        return jsonl.notice_event("patch", "files changed: " + ", ".join(names[:100]))
    if kind == "retry":
        return jsonl.error("retry", failure(data.get("error"))[1], attempt=data.get("attempt"))
    return jsonl.unknown(data)


def failure(error: Any) -> tuple[str, str]:
    """The name and message of the error in a message."""
    if not isinstance(error, dict):
        return "", content.raw_text(error)
    data = error.get("data")
    words = (
        jsonl.text_field(data, "message") if isinstance(data, dict) else jsonl.text_field(error, "message")
    )
    return jsonl.text_field(error, "name"), words or jsonl.text_field(error, "name") or content.raw_text(
        error
    )


# --- The conversation

_SAID = {"text": "assistant", "reasoning": "thinking"}
# After these the model is called again; all other reasons end a turn.
_GOES_ON = frozenset({"", "tool-calls", "unknown"})


class OpenCodeConversation:
    """Reads one session message by message."""

    def __init__(self, agent: str, session: OpenCodeSession):
        self.turns = TurnTracker()
        self.unreadable = 0
        self._agent = agent
        self._session = session

    def on_message(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        """The events of a message and its parts."""
        if message.id and message.id == self._session.reverted:
            yield jsonl.notice_event(
                "reverted", "the user rolled back what follows; the next prompt removes it"
            )
        if message.odd is not None:
            yield self._odd(message, message.odd)
        role = jsonl.text_field(message.data, "role")
        if role == "user":
            yield from self._user(message, of)
        elif role == "assistant" or message.odd is not None:
            yield from self._assistant(message, of)
        else:
            yield self._event(jsonl.unknown(message.data), message, f"message:{message.id}")
            yield from self._assistant(message, of)

    def end(self) -> list[NewEvent]:
        """End what is still open."""
        return self.turns.close()

    def _user(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        number, prompted = 0, False
        for part in of:
            kind = jsonl.text_field(part.data, "type")
            text = jsonl.text_field(part.data, "prompt" if kind == "subtask" else "text")
            if part.odd is not None:
                yield self._odd(part, part.odd)
            elif kind == "text" and (mark := _mark(part.data)):
                yield self._event(jsonl.notice_event(mark, text), part, f"part:{part.id}")
            elif kind in ("text", "subtask"):
                if not text:
                    continue
                if not prompted:
                    yield from self.turns.prompt()
                    prompted = True
                origin = self._origin("message", message.id, part, number)
                number += 1
                yield NewEvent("user", {"text": text}, part.created or message.created, origin=origin)
            elif kind not in QUIET:
                yield self._event(note(part.data), part, f"part:{part.id}")

    def _assistant(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        summary = message.data.get("summary") is True
        number, again, before = -1, 0, ""
        for part in of:
            kind = jsonl.text_field(part.data, "type")
            if part.odd is not None:
                yield self._odd(part, part.odd)
            elif kind in _SAID:
                text, mark = jsonl.text_field(part.data, "text"), _mark(part.data)
                if not text:
                    continue  # text that was streaming when the agent died is not stored
                if mark:
                    yield self._event(jsonl.notice_event(mark, text), part, f"part:{part.id}")
                    continue
                if kind == "text":
                    # The live driver joins text without a break and counts it as one block.
                    number, again = (number, again + 1) if before == "text" else (number + 1, 0)
                before = kind
                # OpenCode 1.18.33 identifies a thought by its part, and text by the message.
                record = f"message:{message.id}:{number}" if kind == "text" else f"message:{part.id}:0"
                record = f"{record}.{again}" if kind == "text" and again else record
                yield self._text_events(part, kind, text, summary, record)
            elif kind == "tool":
                before = ""
                yield from self._tool(part)
            elif kind not in QUIET:
                yield self._event(note(part.data), part, f"part:{part.id}")
        if not summary:
            self._settle(message.data)
        if message.data.get("error") is not None:
            yield self._failure(message)

    def _text_events(self, part: OpenCodeRow, kind: str, text: str, summary: bool, record: str) -> NewEvent:
        origin = jsonl.origin(self._agent, self._session.id, record)
        at = moment(part.data, "start") or part.created
        if summary and kind == "text":
            return NewEvent("notice", {"text": text, "code": "compaction"}, at, origin=origin)
        if kind == "text":
            self.turns.add_text()
        self.turns.now.acted = True
        return NewEvent(_SAID[kind], {"text": text}, at, origin=origin)

    def _tool(self, part: OpenCodeRow) -> Iterator[NewEvent]:
        call = jsonl.text_field(part.data, "callID") or part.id
        name = jsonl.text_field(part.data, "tool") or "tool"
        state = parts_state(part.data)
        arguments = state.get("input")
        self.turns.call(call, name, {} if arguments is None else arguments)
        body: dict[str, Any] = {"call": call, "name": name, "input": {} if arguments is None else arguments}
        at = moment(state, "start") or part.created
        yield NewEvent("tool_progress", body, at, origin=self._origin("call", call, part))
        how = outcome(state)
        if how is None:
            return
        self.turns.result(call)
        at = moment(state, "end") or part.updated
        summary = parts_summary(call, name, state, how)
        yield NewEvent("tool_summary", summary, at, origin=self._origin("result", call, part))

    def _settle(self, data: dict[str, Any]) -> None:
        """Update the turn's state from a message."""
        turn, time = self.turns.now, data.get("time")
        name, words = failure(data.get("error"))
        if data.get("error") is not None:
            turn.ended, turn.reason = (ABORTED if name == "MessageAbortedError" else FAILED), words
        elif (
            isinstance(time, dict)
            and time.get("completed") is not None
            and jsonl.text_field(data, "finish") not in _GOES_ON
        ):
            turn.ended = COMPLETE
        else:
            turn.ended = None

    def _failure(self, message: OpenCodeRow) -> NewEvent:
        name, words = failure(message.data.get("error"))
        if name == "MessageAbortedError":
            event = jsonl.notice_event("interrupted", words, name=name)
        else:
            event = jsonl.error("api_error", words, name=name)
        return self._event(event, message, f"error:{message.id}")

    def _odd(self, row: OpenCodeRow, odd: NewEvent) -> NewEvent:
        self.unreadable += 1
        return self._event(odd, row, f"part:{row.id}" if row.id else "")

    def _event(self, event: NewEvent, row: OpenCodeRow, record: str) -> NewEvent:
        origin = jsonl.origin(self._agent, self._session.id, record) if row.id else None
        return NewEvent(event.kind, event.body, row.created, origin=origin)

    def _origin(self, kind: str, agent_id: str, part: OpenCodeRow, number: int | None = None) -> Any:
        return origin(self._agent, self._session.id, kind, agent_id, part, number)


def _mark(data: dict[str, Any]) -> str:
    """The code of a text that OpenCode inserted or hides; empty if it was said."""
    if data.get("synthetic") is True:
        return "synthetic"
    return "ignored" if data.get("ignored") is True else ""


parts_state = state
parts_summary = summary
