"""What a message's content says: JSON text, or the same compressed with zstd."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

ZSTD = b"\x28\xb5\x2f\xfd"
LARGEST = 256 << 20  # bytes that one message may unpack to

Kind = Literal["prompt", "reply", "error", "event"]

_NAMING = {"thread_id", "threadId", "scope"}  # keys of an event that may name a Codex thread
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Said(msgspec.Struct, frozen=True):
    """One message, as far as the doctor needs it."""

    kind: Kind
    text: str = ""
    claude: str | None = None  # the Claude session that it names
    codex: str | None = None  # the Codex thread
    role: str | None = None  # of that thread, where it is told: `parent`, or it is a subagent's
    cwd: str | None = None
    own_turn: bool = True  # of the conversation itself, not of a subagent


class Unreadable(ValueError):
    """That content is not what hapi stores."""


def unpacked(stored: bytes) -> bytes:
    """The JSON of a stored content."""
    if not stored.startswith(ZSTD):
        return stored
    return _zstd()(stored)


def decoded(stored: bytes) -> dict[str, Any]:
    """The whole of a stored content; Unreadable if it is not what hapi stores."""
    try:
        message = msgspec.json.decode(unpacked(stored))
    except (msgspec.DecodeError, RecursionError) as problem:
        raise Unreadable(str(problem)) from None
    if not isinstance(message, dict) or message.get("role") not in ("user", "agent"):
        raise Unreadable("it has no role")
    return message


def read(stored: bytes) -> Said:
    """What the doctor needs of a stored content; Unreadable if it is not what hapi stores."""
    message = decoded(stored)
    content = message.get("content")
    if message["role"] == "user":
        text = content.get("text") if isinstance(content, dict) else content
        return Said("prompt", text if isinstance(text, str) else "")
    return _agent(message, content)


def _agent(message: dict[str, Any], content: Any) -> Said:
    if not isinstance(content, dict):
        return Said("reply", content if isinstance(content, str) else "")
    data = _object(content.get("data"))
    text = data.get("message")
    text = text if isinstance(text, str) else ""
    kind: Kind = "event" if content.get("type") == "event" else "reply"
    if data.get("type") == "error":
        kind = "error"
    if content.get("type") == "output":
        named = (part.get(key) for part in (message, content, data) for key in ("session_id", "sessionId"))
        return Said(
            kind,
            text,
            claude=next((found for name in named if (found := _uuid(name))), None),
            cwd=_text(data.get("cwd")),
            own_turn=not data.get("isSidechain") and not data.get("parent_tool_use_id"),
        )
    if not _NAMING & data.keys():
        return Said(kind, text)
    thread, role = _thread(data)
    return Said(kind, text, codex=thread, role=role, own_turn=role in (None, "parent"))


def _thread(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """The Codex thread that an event names, and its role; no thread where it names two."""
    scope = _object(data.get("scope"))
    told = [data.get("scope_role"), data.get("scopeRole"), scope.get("role")]
    roles = {role for role in told if isinstance(role, str)}
    role = "parent" if roles == {"parent"} else None if not roles else "other"
    named = [where.get(key) for where in (data, scope) for key in ("thread_id", "threadId")]
    threads = {_uuid(name) for name in named if name is not None}
    return (threads.pop() if len(threads) == 1 else None), role


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _uuid(value: Any) -> str | None:
    found = value.strip() if isinstance(value, str) else ""
    return found if _UUID.fullmatch(found) else None


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
                if module.frame_content_size(data) > LARGEST:  # a torn header may ask for all memory there is
                    raise Unreadable("it would be larger than any message")
                return bytes(unpack(data, max_output_size=LARGEST))
            except module.ZstdError as problem:
                raise Unreadable(str(problem)) from None

        return old

    def new(data: bytes) -> bytes:
        try:
            return bytes(module.ZstdDecompressor().decompress(data, LARGEST))
        except module.ZstdError as problem:
            raise Unreadable(str(problem)) from None

    return new
