"""A hapi session's messages as our events: what was asked, said, called and told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast import clock
from holdfast.history.hapi import content
from holdfast.history.hapi.database import Message
from holdfast.model.event import NewEvent, Origin

AGENT = "hapi"

Told = tuple[str, dict[str, Any]]  # kind and body


class Telling:
    """The events of one session, in its order."""

    def __init__(self, session: str):
        self._session = session
        self._open: dict[str, str] = {}  # calls without a result: their names

    def events(self, messages: Iterable[Message]) -> Iterator[NewEvent]:
        """All of them; a call that never ended ends as interrupted."""
        for message in messages:
            at = clock.stamp((message.invoked_at or message.created_at) / 1000)
            for number, (kind, body) in enumerate(self._message(message)):
                record = message.id if number == 0 else f"{message.id}#{number}"
                yield NewEvent(kind, body, at=at, origin=Origin(AGENT, self._session, record))
        for call, name in self._open.items():
            body = {"call": call, "name": name, "outcome": "interrupted", "output": ""}
            yield NewEvent("tool_summary", body, origin=Origin(AGENT, self._session, f"end of {call}"))

    def _message(self, message: Message) -> Iterator[Told]:
        try:
            said = content.decoded(message.content)
        except content.Unreadable as problem:
            yield _notice("message_unreadable", f"a message could not be read: {problem}")
            return
        inner = said.get("content")
        if said["role"] == "user":
            text = _text(inner.get("text")) if isinstance(inner, dict) else _text(inner)
            waits = message.local_id is not None and message.invoked_at is None
            yield _notice("prompt_queued", text) if waits else ("user", {"text": text})
            return
        data = inner.get("data") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(data, dict):
            yield _notice("message", _text(inner))
        elif inner.get("type") == "output":
            yield from self._claude(data)
        elif inner.get("type") == "event":
            yield _notice(str(data.get("type")), _text(data.get("message")) or str(data.get("type")))
        else:
            yield self._generic(data)

    def _generic(self, data: dict[str, Any]) -> Told:
        """What hapi stores for every agent but Claude."""
        kind = data.get("type")
        text = _text(data.get("message"))
        if kind == "message":
            return "assistant", {"text": text}
        if kind in ("reasoning", "thinking"):
            return "thinking", {"text": text or _text(data.get("text"))}
        if kind == "error":
            return "error", {"text": text, "code": "agent_error"}
        if kind == "tool-call":
            return self._begins(data.get("callId"), data.get("name"), data.get("input"))
        if kind == "tool-call-result":
            return self._ends(data.get("callId"), data.get("output"), bool(data.get("isError")))
        return _notice(str(kind), text or str(kind))

    def _claude(self, data: dict[str, Any]) -> Iterator[Told]:
        """A line of Claude's own transcript."""
        message = data.get("message")
        blocks = message.get("content") if isinstance(message, dict) else None
        speaker = "user" if data.get("type") == "user" else "assistant"
        if data.get("type") not in ("user", "assistant") or blocks is None:
            kind = str(data.get("type"))
            yield _notice(kind, _text(data.get("summary")) or _text(data.get("content")) or kind)
            return
        for block in blocks if isinstance(blocks, list) else [{"type": "text", "text": blocks}]:
            if not isinstance(block, dict):
                yield _notice("block", _text(block))
            elif block.get("type") == "text":
                yield speaker, {"text": _text(block.get("text"))}
            elif block.get("type") == "thinking":
                yield "thinking", {"text": _text(block.get("thinking"))}
            elif block.get("type") == "tool_use":
                yield self._begins(block.get("id"), block.get("name"), block.get("input"))
            elif block.get("type") == "tool_result":
                failed = bool(block.get("is_error"))
                yield self._ends(block.get("tool_use_id"), block.get("content"), failed)
            else:
                yield _notice(str(block.get("type")), str(block.get("type")))

    def _begins(self, call: Any, name: Any, given: Any) -> Told:
        self._open[str(call)] = str(name)
        return "tool_progress", {"call": str(call), "name": str(name), "input": given}

    def _ends(self, call: Any, output: Any, failed: bool) -> Told:
        name = self._open.pop(str(call), "")
        outcome = "error" if failed else "ok"
        return "tool_summary", {"call": str(call), "name": name, "outcome": outcome, "output": output}


def _notice(code: str, text: str) -> Told:
    return "notice", {"text": text, "code": code}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
