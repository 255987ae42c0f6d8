"""Messages and their parts folded into events and turns; values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast import timestamps
from holdfast.agents.acp import content
from holdfast.agents.acp.content import AcpOrigins
from holdfast.agents.opencode.database import OpenCodeRow, OpenCodeSession
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.turns import ABORTED, COMPLETE, FAILED, TurnTracker

# What only structures a message, or names a state of the files that OpenCode keeps elsewhere.
QUIET = frozenset({"step-start", "step-finish", "snapshot"})
_OUTCOMES = {"completed": "ok", "error": "error"}


def origin(
    agent: str, native_id: str, kind: str, told: str, part: OpenCodeRow, number: int | None = None
) -> Origin | None:
    """The origin that the live driver would give; an id that may be a counter counts for its part only."""
    origins = AcpOrigins(agent, part.id or "part")
    origins.native_id = native_id
    return origins.of(kind, told, number)


def moment(data: dict[str, Any], key: str) -> str | None:
    """A time that a record tells of itself."""
    time = data.get("time")
    return timestamps.of_millis(time.get(key)) if isinstance(time, dict) else None


def state(data: dict[str, Any]) -> dict[str, Any]:
    """How a tool part stands."""
    told = data.get("state")
    return told if isinstance(told, dict) else {}


def outcome(told: dict[str, Any]) -> str | None:
    """How a call ended; None if it has not."""
    metadata = told.get("metadata")
    if told.get("status") == "error" and isinstance(metadata, dict) and metadata.get("interrupted") is True:
        return "interrupted"
    return _OUTCOMES.get(wire.word(told, "status"))


def output(told: dict[str, Any], how: str) -> str:
    """The text of a result."""
    metadata = told.get("metadata")
    if how == "interrupted" and isinstance(metadata, dict) and wire.word(metadata, "output"):
        return wire.word(metadata, "output")
    return content.raw_text(told.get("output") if told.get("status") == "completed" else told.get("error"))


def summary(call: str, name: str, told: dict[str, Any], how: str) -> dict[str, Any]:
    """The body of a call's end."""
    body: dict[str, Any] = {"call": call, "name": name, "outcome": how, "output": output(told, how)}
    metadata = told.get("metadata")
    if isinstance(metadata, dict) and type(metadata.get("exit")) is int:
        body["exit"] = metadata["exit"]
    given = told.get("input")
    if how == "ok" and isinstance(given, dict) and isinstance(given.get("oldString"), str):
        new = given.get("newString")
        if isinstance(new, str):
            body["diff"] = [{"path": wire.word(given, "filePath"), "old": given["oldString"], "new": new}]
    return body


def note(data: dict[str, Any]) -> NewEvent:
    """What is neither said nor done."""
    kind = wire.word(data, "type")
    if kind == "file":
        what = [wire.word(data, "filename"), wire.word(data, "mime")]
        url = wire.word(data, "url")
        facts = {} if url.startswith("data:") else {"url": url}
        return wire.notice_event("attachment", f"[file {' '.join(filter(None, what))}]", **facts)
    if kind == "agent":
        return wire.notice_event("agent", f"@{wire.word(data, 'name')}")
    if kind == "compaction":
        why = "by itself" if data.get("auto") is True else "as the user asked"
        return wire.notice_event("compaction", f"the conversation was compacted {why}")
    if kind == "patch":
        files = data.get("files")
        names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
        return wire.notice_event("patch", "files were changed: " + ", ".join(names[:100]))
    if kind == "retry":
        return wire.error("retry", failure(data.get("error"))[1], attempt=data.get("attempt"))
    return wire.unknown(data)


def failure(error: Any) -> tuple[str, str]:
    """The name and the words of an error that a message holds."""
    if not isinstance(error, dict):
        return "", content.raw_text(error)
    data = error.get("data")
    words = wire.word(data, "message") if isinstance(data, dict) else wire.word(error, "message")
    return wire.word(error, "name"), words or wire.word(error, "name") or content.raw_text(error)


# --- Messages and their parts folded into events and turns; values in, values out.

_SAID = {"text": "assistant", "reasoning": "thinking"}
# With these the model is asked again; all other reasons end a turn.
_GOES_ON = frozenset({"", "tool-calls", "unknown"})


class OpenCodeConversation:
    """One session, message by message."""

    def __init__(self, agent: str, session: OpenCodeSession):
        self.turns = TurnTracker()
        self.unreadable = 0
        self._agent = agent
        self._session = session

    def take(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        """The events of a message and its parts."""
        if message.id and message.id == self._session.reverted:
            yield wire.notice_event("reverted", "the user took back what follows; the next prompt removes it")
        if message.odd is not None:
            yield self._odd(message, message.odd)
        role = wire.word(message.data, "role")
        if role == "user":
            yield from self._user(message, of)
        elif role == "assistant" or message.odd is not None:
            yield from self._assistant(message, of)
        else:
            yield self._event(wire.unknown(message.data), message, f"message:{message.id}")
            yield from self._assistant(message, of)

    def end(self) -> list[NewEvent]:
        """What is still open ends here."""
        return self.turns.close()

    def _user(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        number, prompted = 0, False
        for part in of:
            kind = wire.word(part.data, "type")
            said = wire.word(part.data, "prompt" if kind == "subtask" else "text")
            if part.odd is not None:
                yield self._odd(part, part.odd)
            elif kind == "text" and (mark := _mark(part.data)):
                yield self._event(wire.notice_event(mark, said), part, f"part:{part.id}")
            elif kind in ("text", "subtask"):
                if not said:
                    continue
                if not prompted:
                    yield from self.turns.prompt()
                    prompted = True
                origin = self._origin("message", message.id, part, number)
                number += 1
                yield NewEvent("user", {"text": said}, part.created or message.created, origin=origin)
            elif kind not in QUIET:
                yield self._event(note(part.data), part, f"part:{part.id}")

    def _assistant(self, message: OpenCodeRow, of: Iterable[OpenCodeRow]) -> Iterator[NewEvent]:
        summary = message.data.get("summary") is True
        number, again, before = -1, 0, ""
        for part in of:
            kind = wire.word(part.data, "type")
            if part.odd is not None:
                yield self._odd(part, part.odd)
            elif kind in _SAID:
                text, mark = wire.word(part.data, "text"), _mark(part.data)
                if not text:
                    continue  # of a text that was being said when the agent died, nothing is stored
                if mark:
                    yield self._event(wire.notice_event(mark, text), part, f"part:{part.id}")
                    continue
                if kind == "text":
                    # The live driver joins what is said without a break, and counts it as one.
                    number, again = (number, again + 1) if before == "text" else (number + 1, 0)
                before = kind
                # OpenCode 1.18.33 names a thought by its part, and what it says by the message.
                record = f"message:{message.id}:{number}" if kind == "text" else f"message:{part.id}:0"
                record = f"{record}.{again}" if kind == "text" and again else record
                yield self._said(part, kind, text, summary, record)
            elif kind == "tool":
                before = ""
                yield from self._tool(part)
            elif kind not in QUIET:
                yield self._event(note(part.data), part, f"part:{part.id}")
        if not summary:
            self._settle(message.data)
        if message.data.get("error") is not None:
            yield self._failure(message)

    def _said(self, part: OpenCodeRow, kind: str, text: str, summary: bool, record: str) -> NewEvent:
        origin = wire.origin(self._agent, self._session.id, record)
        at = moment(part.data, "start") or part.created
        if summary and kind == "text":
            return NewEvent("notice", {"text": text, "code": "compaction"}, at, origin=origin)
        if kind == "text":
            self.turns.spoke()
        self.turns.now.did = True
        return NewEvent(_SAID[kind], {"text": text}, at, origin=origin)

    def _tool(self, part: OpenCodeRow) -> Iterator[NewEvent]:
        call = wire.word(part.data, "callID") or part.id
        name = wire.word(part.data, "tool") or "tool"
        state = parts_state(part.data)
        given = state.get("input")
        self.turns.call(call, name, {} if given is None else given)
        body: dict[str, Any] = {"call": call, "name": name, "input": {} if given is None else given}
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
        """What a message says of how its turn stands."""
        turn, time = self.turns.now, data.get("time")
        name, words = failure(data.get("error"))
        if data.get("error") is not None:
            turn.ended, turn.reason = (ABORTED if name == "MessageAbortedError" else FAILED), words
        elif (
            isinstance(time, dict)
            and time.get("completed") is not None
            and wire.word(data, "finish") not in _GOES_ON
        ):
            turn.ended = COMPLETE
        else:
            turn.ended = None

    def _failure(self, message: OpenCodeRow) -> NewEvent:
        name, words = failure(message.data.get("error"))
        if name == "MessageAbortedError":
            event = wire.notice_event("interrupted", words, name=name)
        else:
            event = wire.error("api_error", words, name=name)
        return self._event(event, message, f"error:{message.id}")

    def _odd(self, row: OpenCodeRow, odd: NewEvent) -> NewEvent:
        self.unreadable += 1
        return self._event(odd, row, f"part:{row.id}" if row.id else "")

    def _event(self, event: NewEvent, row: OpenCodeRow, record: str) -> NewEvent:
        origin = wire.origin(self._agent, self._session.id, record) if row.id else None
        return NewEvent(event.kind, event.body, row.created, origin=origin)

    def _origin(self, kind: str, told: str, part: OpenCodeRow, number: int | None = None) -> Any:
        return origin(self._agent, self._session.id, kind, told, part, number)


def _mark(data: dict[str, Any]) -> str:
    """The code of a text that OpenCode itself put in, or that nobody is to see; empty if it was said."""
    if data.get("synthetic") is True:
        return "synthetic"
    return "ignored" if data.get("ignored") is True else ""


parts_state = state
parts_summary = summary
