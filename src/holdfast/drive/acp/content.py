"""Content blocks of ACP as text and diffs."""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.text import encode

# Where agents keep the text of a result that is an object; the first that holds some is taken.
_TEXT_KEYS = ("output", "formatted_output", "aggregated_output", "stdout", "message", "error", "text")
_HALF = re.compile("[\ud800-\udfff]")  # of a character


def block_text(block: Any) -> str:
    """One content block as text; what is not text is named."""
    if not isinstance(block, dict):
        return block if isinstance(block, str) else ""
    if isinstance(text := block.get("text"), str):
        return text
    if isinstance(resource := block.get("resource"), dict):
        return block_text({**resource, "type": "resource_link"})
    kind = block.get("type")
    what = block.get("uri") or block.get("mimeType")
    if not isinstance(kind, str):
        return ""
    return f"[{kind} {what}]" if isinstance(what, str) else f"[{kind}]"


def shown(content: Any) -> str:
    """The text blocks of a tool call's content."""
    parts = [block_text(item.get("content")) for item in _items(content) if item.get("type") == "content"]
    return "\n".join(part for part in parts if part)


def printed(update: dict[str, Any]) -> str:
    """What a terminal of the agent's own printed, as codex-acp tells it beside its content."""
    meta = update.get("_meta")
    told = meta if isinstance(meta, dict) else {}
    for piece in (told.get("terminal_output_delta"), told.get("terminal_output")):
        if isinstance(piece, dict) and isinstance(data := piece.get("data"), str):
            return data
    return ""


def diffs(content: Any) -> list[dict[str, Any]]:
    """The file changes in a tool call's content."""
    return [
        {"path": item.get("path"), "old": item.get("oldText"), "new": item.get("newText")}
        for item in _items(content)
        if item.get("type") == "diff"
    ]


def raw_text(output: Any) -> str:
    """A tool's raw output as text."""
    if output is None:
        return ""
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        for key in _TEXT_KEYS:
            if isinstance(text := output.get(key), str) and text:
                return text
    if not output:
        return ""
    return encode(output).decode()


def mended(text: str) -> str:
    """Joined pieces with the halves of characters that were cut between them put together.

    A stream may cut inside an emoji; each half is a lone surrogate, and two halves in a row are refused
    by the store.
    """
    if text.isascii() or _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _items(content: Any) -> list[dict[str, Any]]:
    return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
