"""What text and which diffs do ACP content blocks hold?"""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.event import Origin
from holdfast.model.json_codec import encode

# Where agents keep the text of a result object; the first non-empty one is used.
_TEXT_KEYS = ("output", "formatted_output", "aggregated_output", "stdout", "message", "error", "text")
_HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair


def block_text(block: Any) -> str:
    """One content block as text; anything else is named by its type."""
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


def shown_text(content: Any) -> str:
    """The text blocks of a tool call's content."""
    parts = [block_text(item.get("content")) for item in _items(content) if item.get("type") == "content"]
    return "\n".join(part for part in parts if part)


def terminal_output(update: dict[str, Any]) -> str:
    """What the agent's own terminal printed; codex-acp reports it beside the content."""
    meta = update.get("_meta")
    fields = meta if isinstance(meta, dict) else {}
    for piece in (fields.get("terminal_output_delta"), fields.get("terminal_output")):
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


def join_surrogates(text: str) -> str:
    """Join the surrogate pairs that were split between two chunks.

    A stream may split inside an emoji. Each half is a lone surrogate, and the store refuses two halves in a
    row.
    """
    if text.isascii() or _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _items(content: Any) -> list[dict[str, Any]]:
    return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []


# --- Names that ACP leaves out: a tool's name, a call's id, an event's origin

_WORD = re.compile(r"[A-Za-z][\w.:/-]{0,99}")
_TURN = re.compile(r"\d+:(?=.)")
# Gemini's ids: run_shell_command__run_shell_command_1794781413244_0
_TOLD_BY_ID = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)__(?P=name)_\d+_\d+")
_LONG = re.compile(r"(?=[A-Za-z]*\d)[0-9A-Za-z]{8,}")
_PLAIN = re.compile(r"[!-~]{1,500}")


def tool_name(update: dict[str, Any], first: bool) -> str | None:
    """The tool's name in an update; None if it has none.

    In this order: its own `name`; `toolName` in `_meta` (the Claude adapters); the name in the id (Gemini);
    the title of a call that is announced before its input is known, if it is one word (OpenCode and Kimi:
    later titles describe the command).
    """
    if isinstance(name := update.get("name"), str) and name:
        return name
    if isinstance(meta := update.get("_meta"), dict):
        for inner in (meta, *meta.values()):
            if isinstance(inner, dict) and isinstance(name := inner.get("toolName"), str) and name:
                return name
    if isinstance(call := update.get("toolCallId"), str) and (match := _TOLD_BY_ID.fullmatch(call)):
        return match["name"]
    title = update.get("title")
    if first and update.get("status") == "pending" and isinstance(title, str) and _WORD.fullmatch(title):
        return title
    return None


def call_id(agent_id: str) -> str:
    """A call's id without its turn number: Kimi sends `0:call_x` live and `1:call_x` in a replay."""
    return _TURN.sub("", agent_id, count=1)


class AcpOrigins:
    """Builds origins for one task's events."""

    def __init__(self, agent: str, task: str):
        self._agent = agent
        self._task = task
        self.native_id: str | None = None

    def of(self, kind: str, agent_id: str, part: int | None = None) -> Origin | None:
        """The origin of something with an id of the agent.

        An origin is stored once per session, so an id that may be a counter (`call_1`, which restarts in
        every process) is valid for this task only.
        """
        if self.native_id is None or not _PLAIN.fullmatch(agent_id):
            return None
        record = f"{kind}:{agent_id}" if part is None else f"{kind}:{agent_id}:{part}"
        return Origin(
            self._agent, self.native_id, record if _LONG.search(agent_id) else f"{self._task}:{record}"
        )

    def here(self, kind: str, number: str) -> Origin | None:
        """The origin of something that is numbered in this process only."""
        if self.native_id is None or not _PLAIN.fullmatch(number):
            return None
        return Origin(self._agent, self.native_id, f"{self._task}:{kind}:{number}")
