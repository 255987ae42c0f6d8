"""Names for what ACP leaves without one: a tool's name, a call's id, the origin of an event."""

from __future__ import annotations

import re
from typing import Any

from holdfast.model.event import Origin

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


class Origins:
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
