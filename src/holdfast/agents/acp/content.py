"""Content blocks of ACP as text and diffs."""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.event import Origin
from holdfast.model.json_codec import encode

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


# --- Names for what ACP leaves without one: a tool's name, a call's id, the origin of an event.

_WORD = re.compile(r"[A-Za-z][\w.:/-]{0,99}")
_TURN = re.compile(r"\d+:(?=.)")
# Gemini's ids: run_shell_command__run_shell_command_1794781413244_0
_TOLD_BY_ID = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)__(?P=name)_\d+_\d+")
_LONG = re.compile(r"(?=[A-Za-z]*\d)[0-9A-Za-z]{8,}")
_PLAIN = re.compile(r"[!-~]{1,500}")


def tool_name(update: dict[str, Any], first: bool) -> str | None:
    """The tool's name as an update tells it; None if it does not.

    In this order: a `name` of its own; `toolName` in `_meta` (the Claude adapters); the name in the id
    (Gemini); the title of a call that is announced before its input is known, if it is one word
    (OpenCode and Kimi: later titles tell of the command).
    """
    if isinstance(name := update.get("name"), str) and name:
        return name
    if isinstance(meta := update.get("_meta"), dict):
        for inner in (meta, *meta.values()):
            if isinstance(inner, dict) and isinstance(name := inner.get("toolName"), str) and name:
                return name
    if isinstance(call := update.get("toolCallId"), str) and (told := _TOLD_BY_ID.fullmatch(call)):
        return told["name"]
    title = update.get("title")
    if first and update.get("status") == "pending" and isinstance(title, str) and _WORD.fullmatch(title):
        return title
    return None


def call_id(told: str) -> str:
    """A call's id without the number of its turn: Kimi says `0:call_x` live and `1:call_x` in a replay."""
    return _TURN.sub("", told, count=1)


class AcpOrigins:
    """Origins for one task's events."""

    def __init__(self, agent: str, task: str):
        self._agent = agent
        self._task = task
        self.native_id: str | None = None

    def of(self, kind: str, told: str, part: int | None = None) -> Origin | None:
        """The origin of what the agent called `told`.

        An origin is stored once in a session, so an id that may be a counter (`call_1`, which begins
        anew in every process) counts for this task only.
        """
        if self.native_id is None or not _PLAIN.fullmatch(told):
            return None
        record = f"{kind}:{told}" if part is None else f"{kind}:{told}:{part}"
        return Origin(self._agent, self.native_id, record if _LONG.search(told) else f"{self._task}:{record}")

    def here(self, kind: str, told: str) -> Origin | None:
        """The origin of what has its number in this process only."""
        if self.native_id is None or not _PLAIN.fullmatch(told):
            return None
        return Origin(self._agent, self.native_id, f"{self._task}:{kind}:{told}")
