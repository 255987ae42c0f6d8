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

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class Said(msgspec.Struct, frozen=True):
    """One message, as far as the doctor needs it."""

    kind: Kind
    text: str = ""
    claude: str | None = None  # the Claude session that it names
    codex: str | None = None  # the Codex thread
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
    return _agent(content)


def _agent(content: Any) -> Said:
    if not isinstance(content, dict):
        return Said("reply", content if isinstance(content, str) else "")
    data = content.get("data")
    data = data if isinstance(data, dict) else {}
    text = data.get("message")
    text = text if isinstance(text, str) else ""
    kind: Kind = "event" if content.get("type") == "event" else "reply"
    if data.get("type") == "error":
        kind = "error"
    if content.get("type") == "output":
        return Said(
            kind,
            text,
            claude=_uuid(data.get("sessionId")) or _uuid(data.get("session_id")),
            cwd=_text(data.get("cwd")),
            own_turn=not data.get("isSidechain") and not data.get("parent_tool_use_id"),
        )
    own = data.get("scope_role") in (None, "parent")
    return Said(kind, text, codex=_uuid(data.get("thread_id")) if own else None, own_turn=own)


def _uuid(value: Any) -> str | None:
    return value if isinstance(value, str) and _UUID.fullmatch(value) else None


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
