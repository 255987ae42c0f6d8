"""One message from a row of `state.db` or from a sidecar, in one form."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.peers.hermes import values

STRUCTURED = "\0json:"  # prefix of content that is not plain text (hermes-agent's SessionDB)
SOURCES = ("row", "sidecar", "backup")

# The web UI puts it before a prompt that it sends to the agent; its own copy lacks it.
_WORKSPACE = re.compile(r"\s*\[Workspace(?:::v1)?:\s*(?:\\.|[^\]\\])+\]\s*")
_ATTACHED = re.compile(r"\n\n\[Attached files: [^\]]+\]$")
_ROLES = frozenset({"user", "assistant", "tool", "system"})
_SUMMARIES = ("[context compaction", "context compaction", "[context summary]")


class HermesToolCall(msgspec.Struct, frozen=True):
    """A tool call in a message."""

    id: str
    name: str
    input: Any
    output: str | None = None  # where the message itself has the result (the web UI's tool cards)
    ok: bool = True
    done: bool = False


class HermesMessage(msgspec.Struct, kw_only=True):
    """A message and where it is stored."""

    role: str
    source: str
    record: str  # identifies it within its session, and never changes
    text: str = ""
    thinking: str = ""
    calls: list[HermesToolCall] = []
    result_of: str | None = None  # for a tool result: the call
    tool: str = ""  # for a tool result: the tool's name
    disposition: str = ""
    at: float | None = None
    marker: str = ""  # added by the web UI itself: the type of an error, or `partial`
    stream: str = ""  # the run from whose journal the web UI recovered it
    summary: bool = False  # it is the summary of a compaction
    compacted: bool = False  # a later compaction summarized it
    undone: bool = False  # the user undid it
    id: str = ""  # the web UI's own id, if it has one
    place: str = ""  # its row, or its position in its file
    key: bytes = b""  # equal for two copies of one message
    weak: bytes = b""  # equal for a copy that lost its calls; empty: its text identifies nothing
    raw: dict[str, Any] = {}


def read_message(raw: dict[str, Any], source: str, place: str) -> HermesMessage:
    """Read a raw message; `place` is its row, or its position in its file."""
    role = values.identifier(raw.get("role"))
    calls = _calls(raw.get("tool_calls"))
    text = content_text(raw.get("content"))
    message = HermesMessage(
        role=role,
        source=source,
        record="",
        text=strip_wrappers(text) if role == "user" else text,
        thinking=_thinking(raw),
        calls=calls or _cards(raw.get("_partial_tool_calls"), f"{source}-{place}"),
        result_of=values.identifier(raw.get("tool_call_id")) or None,
        tool=values.identifier(raw.get("tool_name") or raw.get("name")),
        disposition=values.identifier(raw.get("effect_disposition")),
        at=values.seconds(raw.get("timestamp")),
        marker=_marker(raw),
        stream=values.identifier(raw.get("_recovered_stream_id")),
        id=values.identifier(raw.get("id") or raw.get("message_id")) if source != "row" else "",
        place=place,
        raw=raw,
    )
    message.summary = bool(raw.get("_compressed_summary")) or (
        role in ("user", "assistant", "system") and text.lstrip()[:30].lower().startswith(_SUMMARIES)
    )
    message.key = _key(message)
    message.weak = _weak_key(message)
    message.record = f"row:{place}" if source == "row" else _name(message)
    return message


def content_text(content: Any) -> str:
    """Content as text; parts that are not text are named."""
    if isinstance(content, str):
        if content.startswith(STRUCTURED):
            try:
                return content_text(values.parse(content[len(STRUCTURED) :]))
            except ValueError:
                return values.text(content[len(STRUCTURED) :])
        return values.text(content)
    if isinstance(content, dict):
        return _part(content)
    if isinstance(content, list):
        return values.text("\n".join(part for part in map(_part, content) if part))
    return "" if content is None or isinstance(content, bool) else values.text(str(content))


def strip_wrappers(prompt: str) -> str:
    """A prompt without the workspace note that the web UI adds for the agent."""
    return _WORKSPACE.sub("", prompt, count=1) if _WORKSPACE.match(prompt) else prompt


def _part(part: Any) -> str:
    if isinstance(part, str):
        return values.text(part)
    if not isinstance(part, dict):
        return ""
    for name in ("text", "content"):
        if isinstance(part.get(name), str):
            return values.text(part[name])
    return f"[{values.identifier(part.get('type')) or 'part'}]"


def _thinking(raw: dict[str, Any]) -> str:
    """The thoughts that the agent's own ACP adapter shows: the first of these fields that is not empty."""
    for name in ("reasoning_content", "reasoning"):
        if text := content_text(raw.get(name)).strip():
            return text
    return ""


def _calls(raw: Any) -> list[HermesToolCall]:
    calls = []
    for call in raw if isinstance(raw, list) else [raw]:
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        inner = function if isinstance(function, dict) else call
        input = inner.get("arguments", inner.get("input", inner.get("args")))
        name = values.identifier(inner.get("name"))
        call_id = values.identifier(call.get("id")) or values.identifier(call.get("call_id"))
        if name or call_id:
            calls.append(HermesToolCall(call_id, name, arguments(input)))
    return calls


def arguments(parsed: Any) -> Any:
    """A call's input; OpenAI's form is JSON in a string."""
    if isinstance(parsed, str):
        try:
            parsed = values.parse(parsed)
        except ValueError:
            return {"arguments": values.text(parsed)} if parsed else {}
        if not isinstance(parsed, dict):
            return {"arguments": values.text(parsed)}
        parsed = parsed
    return values.storable(parsed) if parsed is not None else {}


def _cards(raw: Any, place: str) -> list[HermesToolCall]:
    """The tool cards of an interrupted message: they have no ids, but results."""
    cards = [card for card in raw if isinstance(card, dict)] if isinstance(raw, list) else []
    return [
        card_call(card, values.identifier(card.get("tid")) or f"{place}-{n}") for n, card in enumerate(cards)
    ]


def card_call(card: dict[str, Any], call_id: str) -> HermesToolCall:
    """A tool card of the web UI as a tool call."""
    output = content_text(card.get("snippet") or card.get("preview"))
    done = bool(card.get("done", "snippet" in card))
    return HermesToolCall(
        call_id,
        values.identifier(card.get("name")),
        arguments(card.get("args")),
        output,
        not card.get("is_error"),
        done,
    )


def _marker(raw: dict[str, Any]) -> str:
    if raw.get("_error"):
        return values.identifier(raw.get("type")) or "error"
    return "partial" if raw.get("_partial") else ""


def _key(message: HermesMessage) -> bytes:
    """What two copies of a message have in common, in any store."""
    ids = [call.id for call in message.calls if call.id]
    parts: list[str]
    if message.role == "tool" and message.result_of:
        parts = ["tool", message.result_of]
    elif ids and message.marker != "partial":
        parts = ["calls", *ids]
    else:
        content = _ATTACHED.sub("", message.text) if message.role == "user" else message.text
        text = " ".join(content.split())
        parts = [message.role, text or message.thinking, message.tool, message.marker and "marker"]
        if message.role not in _ROLES:  # an unknown kind of message: equal only if everything is
            parts.append(repr(message.raw))
    return blake2b(values.replace_lone_surrogates("\0".join(parts)).encode(), digest_size=16).digest()


def _weak_key(message: HermesMessage) -> bytes:
    """What a copy without calls and results has in common with it, as the web UI's own repair makes."""
    text = " ".join(message.text.split())
    if not text or message.marker or message.role not in ("assistant", "tool"):
        return b""
    return blake2b(
        values.replace_lone_surrogates(f"{message.role}\0{text}").encode(), digest_size=16
    ).digest()


def has_ids(message: HermesMessage) -> bool:
    """Whether it makes or answers a call that has an id."""
    return bool(message.result_of) or any(call.id for call in message.calls)


def _name(message: HermesMessage) -> str:
    """A name for a sidecar's message that does not depend on the messages before it."""
    if message.id:
        return f"message:{message.id}"
    when = "" if message.at is None else repr(message.at)
    return f"said:{blake2b(message.key + when.encode(), digest_size=12).hexdigest()}"
