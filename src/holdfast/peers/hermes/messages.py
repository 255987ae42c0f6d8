"""One message, as a row of `state.db` or a sidecar tells it, in one form."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.peers.hermes import values

STRUCTURED = "\0json:"  # before content that is no plain text (hermes-agent's SessionDB)
SOURCES = ("row", "sidecar", "backup")

# The web UI puts it before a prompt that it sends to the agent; its own copy is without it.
_WORKSPACE = re.compile(r"\s*\[Workspace(?:::v1)?:\s*(?:\\.|[^\]\\])+\]\s*")
_ATTACHED = re.compile(r"\n\n\[Attached files: [^\]]+\]$")
_ROLES = frozenset({"user", "assistant", "tool", "system"})
_SUMMARIES = ("[context compaction", "context compaction", "[context summary]")


class HermesToolCall(msgspec.Struct, frozen=True):
    """A tool call that a message makes."""

    id: str
    name: str
    input: Any
    output: str | None = None  # where the message itself says how it ended (the web UI's tool cards)
    ok: bool = True
    done: bool = False


class HermesMessage(msgspec.Struct, kw_only=True):
    """What was said or done, and where that is written."""

    role: str
    source: str
    record: str  # names this record among all of its session, and stays the same
    text: str = ""
    thinking: str = ""
    calls: list[HermesToolCall] = []
    result_of: str | None = None  # of a tool's result: the call
    tool: str = ""  # and its name
    disposition: str = ""
    at: float | None = None
    marker: str = ""  # what the web UI put in itself: the type of an error, or `partial`
    stream: str = ""  # the run from whose journal it was recovered
    summary: bool = False  # of a compaction
    compacted: bool = False  # summed up since; it was said all the same
    undone: bool = False  # the user took it back
    id: str = ""  # the web UI's own, if it has one
    place: str = ""  # its row, or where it is in its file
    key: bytes = b""  # the same for two copies of one message
    weak: bytes = b""  # the same for a copy that lost its calls; empty: it says nothing by itself
    raw: dict[str, Any] = {}


def read_message(told: dict[str, Any], source: str, place: str) -> HermesMessage:
    """A message as it is told; `place` is its row, or where it is in its file."""
    role = values.identifier(told.get("role"))
    calls = _calls(told.get("tool_calls"))
    said = content_text(told.get("content"))
    message = HermesMessage(
        role=role,
        source=source,
        record="",
        text=strip_wrappers(said) if role == "user" else said,
        thinking=_thinking(told),
        calls=calls or _cards(told.get("_partial_tool_calls"), f"{source}-{place}"),
        result_of=values.identifier(told.get("tool_call_id")) or None,
        tool=values.identifier(told.get("tool_name") or told.get("name")),
        disposition=values.identifier(told.get("effect_disposition")),
        at=values.seconds(told.get("timestamp")),
        marker=_marker(told),
        stream=values.identifier(told.get("_recovered_stream_id")),
        id=values.identifier(told.get("id") or told.get("message_id")) if source != "row" else "",
        place=place,
        raw=told,
    )
    message.summary = bool(told.get("_compressed_summary")) or (
        role in ("user", "assistant", "system") and said.lstrip()[:30].lower().startswith(_SUMMARIES)
    )
    message.key = _key(message)
    message.weak = _weak_key(message)
    message.record = f"row:{place}" if source == "row" else _name(message)
    return message


def content_text(content: Any) -> str:
    """Content as text; parts that are none are named."""
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
    """A prompt without the workspace that the web UI tells the agent before it."""
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


def _thinking(told: dict[str, Any]) -> str:
    """What the agent's own ACP adapter shows as its thoughts: the first of these that says something."""
    for name in ("reasoning_content", "reasoning"):
        if said := content_text(told.get(name)).strip():
            return said
    return ""


def _calls(told: Any) -> list[HermesToolCall]:
    found = []
    for call in told if isinstance(told, list) else [told]:
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        inner = function if isinstance(function, dict) else call
        given = inner.get("arguments", inner.get("input", inner.get("args")))
        name = values.identifier(inner.get("name"))
        own = values.identifier(call.get("id")) or values.identifier(call.get("call_id"))
        if name or own:
            found.append(HermesToolCall(own, name, arguments(given)))
    return found


def arguments(given: Any) -> Any:
    """A call's input; OpenAI's form is JSON in a text."""
    if isinstance(given, str):
        try:
            value = values.parse(given)
        except ValueError:
            return {"arguments": values.text(given)} if given else {}
        if not isinstance(value, dict):
            return {"arguments": values.text(given)}
        given = value
    return values.storable(given) if given is not None else {}


def _cards(told: Any, place: str) -> list[HermesToolCall]:
    """The tool cards of a message that was cut off: no ids, but what came of each."""
    cards = [card for card in told if isinstance(card, dict)] if isinstance(told, list) else []
    return [
        card_call(card, values.identifier(card.get("tid")) or f"{place}-{n}") for n, card in enumerate(cards)
    ]


def card_call(card: dict[str, Any], own: str) -> HermesToolCall:
    """A tool card of the web UI as a call."""
    output = content_text(card.get("snippet") or card.get("preview"))
    done = bool(card.get("done", "snippet" in card))
    return HermesToolCall(
        own,
        values.identifier(card.get("name")),
        arguments(card.get("args")),
        output,
        not card.get("is_error"),
        done,
    )


def _marker(told: dict[str, Any]) -> str:
    if told.get("_error"):
        return values.identifier(told.get("type")) or "error"
    return "partial" if told.get("_partial") else ""


def _key(message: HermesMessage) -> bytes:
    """What two copies of a message have in common, in whichever store they are."""
    ids = [call.id for call in message.calls if call.id]
    said: list[str]
    if message.role == "tool" and message.result_of:
        said = ["tool", message.result_of]
    elif ids and message.marker != "partial":
        said = ["calls", *ids]
    else:
        words = _ATTACHED.sub("", message.text) if message.role == "user" else message.text
        told = " ".join(words.split())
        said = [message.role, told or message.thinking, message.tool, message.marker and "marker"]
        if message.role not in _ROLES:  # no message as we know them: the same only if all of it is
            said.append(repr(message.raw))
    return blake2b(values.replace_lone_surrogates("\0".join(said)).encode(), digest_size=16).digest()


def _weak_key(message: HermesMessage) -> bytes:
    """What is left of it in a copy without calls and results, such as the web UI's own repair makes."""
    told = " ".join(message.text.split())
    if not told or message.marker or message.role not in ("assistant", "tool"):
        return b""
    return blake2b(
        values.replace_lone_surrogates(f"{message.role}\0{told}").encode(), digest_size=16
    ).digest()


def has_ids(message: HermesMessage) -> bool:
    """Whether it makes calls, or answers one, that have ids."""
    return bool(message.result_of) or any(call.id for call in message.calls)


def _name(message: HermesMessage) -> str:
    """A name for a message of a sidecar, whatever comes to stand before it."""
    if message.id:
        return f"message:{message.id}"
    when = "" if message.at is None else repr(message.at)
    return f"said:{blake2b(message.key + when.encode(), digest_size=12).hexdigest()}"
