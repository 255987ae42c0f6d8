"""What the SDK's messages hold: content as text, and how a call ended."""

from __future__ import annotations

from typing import Any

from holdfast.drive.acp.content import block_text, mended, raw_text
from holdfast.model.text import encode


def content(message: Any, names: bool = True) -> str:
    """The text of a message's content; what is no text is named, or left out."""
    blocks = message.get("content") if isinstance(message, dict) else None
    if isinstance(blocks, str):
        return blocks
    if not isinstance(blocks, list):
        return ""
    found = [
        block_text(b) for b in blocks if names or (isinstance(b, dict) and isinstance(b.get("text"), str))
    ]
    return mended("".join(found))


def result(told: Any, status: Any) -> dict[str, Any]:
    """Outcome and output of a call that ended.

    The SDK says `completed`, and `success` inside, also of a command that exited with another code than 0.
    """
    inner = told if isinstance(told, dict) else {}
    value = inner.get("value")
    failed = status == "error" or inner.get("status") == "error"
    code = value.get("exitCode") if isinstance(value, dict) else None
    found: dict[str, Any] = {"outcome": "error" if failed or code not in (None, 0) else "ok"}
    found["output"] = output(inner.get("error") if inner.get("status") == "error" else value)
    if "status" not in inner and told is not None:
        found["output"] = output(told)
    if type(code) is int:
        found["exit_code"] = code
    return found


def output(value: Any) -> str:
    """What a result says, as text: a command's two streams, a field that is its text, or all of it."""
    if isinstance(value, dict) and ("stdout" in value or "stderr" in value):
        return streams(value.get("stdout"), value.get("stderr"))
    if isinstance(value, dict):
        for key in ("content", "diffString", "message"):
            if isinstance(text := value.get(key), str) and text:
                return text
        if isinstance(blocks := value.get("content"), list) and (text := "\n".join(_texts(blocks))):
            return text
    if isinstance(value, list):
        return encode(value).decode() if value else ""
    return raw_text(value)


def streams(out: Any, err: Any) -> str:
    """Both streams of a command, each on lines of its own."""
    texts = [text for text in (out, err) if isinstance(text, str) and text]
    if len(texts) == 2 and not texts[0].endswith("\n"):
        texts[0] += "\n"
    return mended("".join(texts))


def _texts(blocks: list[Any]) -> list[str]:
    """Of MCP content: blocks, whose text may be one level further down."""
    found = []
    for block in blocks:
        inner = block.get("text") if isinstance(block, dict) else None
        found.append(block_text(inner) if isinstance(inner, dict) else block_text(block))
    return [text for text in found if text]
