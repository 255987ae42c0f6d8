"""The content of a hapi message: JSON text, or the same compressed with zstd."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

ZSTD = b"\x28\xb5\x2f\xfd"
LARGEST = 256 << 20  # bytes that one message may decompress to

Kind = Literal["prompt", "reply", "error", "event"]

_NAMING = {"thread_id", "threadId", "scope"}  # keys of an event that may name a Codex thread
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class HapiMessage(msgspec.Struct, frozen=True):
    """What the doctor needs of one message."""

    kind: Kind
    text: str = ""
    claude: str | None = None  # the Claude session that it names
    codex: str | None = None  # the Codex thread
    role: str | None = None  # the role of that thread, if it is recorded: `parent`, or a subagent's
    cwd: str | None = None
    own_turn: bool = True  # of the conversation itself, not of a subagent


class UnreadableContent(ValueError):
    """The content is not what hapi stores."""


def decompress(stored: bytes) -> bytes:
    """The JSON of a stored content."""
    if not stored.startswith(ZSTD):
        return stored
    return _zstd()(stored)


def decode_content(stored: bytes) -> dict[str, Any]:
    """A whole stored content; UnreadableContent if it is not what hapi stores."""
    try:
        message = msgspec.json.decode(decompress(stored))
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UnreadableContent(str(problem)) from None
    if not isinstance(message, dict) or message.get("role") not in ("user", "agent"):
        raise UnreadableContent("it has no role")
    return message


def read_content(stored: bytes) -> HapiMessage:
    """What the doctor needs of a stored content; UnreadableContent if it is not what hapi stores."""
    message = decode_content(stored)
    content = message.get("content")
    if message["role"] == "user":
        text = content.get("text") if isinstance(content, dict) else content
        return HapiMessage("prompt", text if isinstance(text, str) else "")
    return _agent(message, content)


def _agent(message: dict[str, Any], content: Any) -> HapiMessage:
    if not isinstance(content, dict):
        return HapiMessage("reply", content if isinstance(content, str) else "")
    data = _object(content.get("data"))
    text = data.get("message")
    text = text if isinstance(text, str) else ""
    kind: Kind = "event" if content.get("type") == "event" else "reply"
    if data.get("type") == "error":
        kind = "error"
    if content.get("type") == "output":
        named = (part.get(key) for part in (message, content, data) for key in ("session_id", "sessionId"))
        return HapiMessage(
            kind,
            text,
            claude=next((session for name in named if (session := _uuid(name))), None),
            cwd=_text(data.get("cwd")),
            own_turn=not data.get("isSidechain") and not data.get("parent_tool_use_id"),
        )
    if not _NAMING & data.keys():
        return HapiMessage(kind, text)
    thread, role = _thread(data)
    return HapiMessage(kind, text, codex=thread, role=role, own_turn=role in (None, "parent"))


def _thread(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """The Codex thread that an event names, and its role; no thread if it names two."""
    scope = _object(data.get("scope"))
    recorded = [data.get("scope_role"), data.get("scopeRole"), scope.get("role")]
    roles = {role for role in recorded if isinstance(role, str)}
    role = "parent" if roles == {"parent"} else None if not roles else "other"
    named = [part.get(key) for part in (data, scope) for key in ("thread_id", "threadId")]
    threads = {_uuid(name) for name in named if name is not None}
    return (threads.pop() if len(threads) == 1 else None), role


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _uuid(value: Any) -> str | None:
    text = value.strip() if isinstance(value, str) else ""
    return text if _UUID.fullmatch(text) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


@lru_cache(maxsize=1)
def _zstd() -> Callable[[bytes], bytes]:
    try:
        module = importlib.import_module("compression.zstd")  # Python 3.14's own
    except ImportError:
        module = importlib.import_module("zstandard")
        unpack = module.ZstdDecompressor().decompress

        def old(data: bytes) -> bytes:
            try:
                if module.frame_content_size(data) > LARGEST:  # a damaged header may ask for all memory
                    raise UnreadableContent("it is larger than any message")
                return bytes(unpack(data, max_output_size=LARGEST))
            except module.ZstdError as problem:
                raise UnreadableContent(str(problem)) from None

        return old

    def new(data: bytes) -> bytes:
        try:
            return bytes(module.ZstdDecompressor().decompress(data, LARGEST))
        except module.ZstdError as problem:
            raise UnreadableContent(str(problem)) from None

    return new
