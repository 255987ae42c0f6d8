"""What says the same in Codex's stream and in its rollout, which have no id in common.

The stream names a command as it was run (`command_execution`, `/bin/bash -lc 'echo hi'`) and gives what it
printed; the rollout names the tool as the model called it (`exec_command`, `{"cmd": "echo hi"}`) and gives
what the model was told. The stream's item numbers begin anew in every process.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.model.event import Event, NewEvent

Said = tuple[str, ...]
Key = tuple[int, Said, int]  # the turn, what is said, how often it was said before in that turn

_SHELL_FLAGS = ("-lc", "-c")
_EDITS = frozenset({"apply_patch", "file_change"})


def said(kind: str, body: dict[str, Any]) -> Said | None:
    """What an event of either source says, such that both say it alike; None if that cannot be told.

    How a call ended is not compared: its `tool_summary` is met by the call that it ends.
    """
    if kind in ("user", "assistant", "thinking"):
        return (kind, str(body.get("text", "")).strip())
    if kind != "tool_progress":
        return None
    name, input = str(body.get("name", "")), body.get("input")
    command = _command(input)
    if command is not None:
        return (kind, "command", command)
    if name in _EDITS:
        return (kind, "edit")
    if name == "web_search" and isinstance(input, dict):
        return (kind, name, str(input.get("query")))
    return (kind, name.removeprefix("mcp__").replace("__", "."))


def keys(events: Iterable[NewEvent | Event], turn: int = 0) -> Iterator[Key | None]:
    """For each event what it is met by; `turn` is how many turns came before the first of them."""
    seen: Counter[Said] = Counter()
    for event in events:
        found = said(event.kind, event.body)
        if event.kind == "user":
            turn += 1
            seen.clear()
        if found is None:
            yield None
        else:
            yield (turn, found, seen[found])
            seen[found] += 1


def _command(input: Any) -> str | None:
    told = input
    for name in ("cmd", "command"):
        if isinstance(input, dict) and input.get(name):
            told = input[name]
            break
    else:
        return None
    if isinstance(told, list):
        return _inner([str(part) for part in told])
    if not isinstance(told, str):
        return None
    try:
        words = shlex.split(told)
    except ValueError:  # a quote that is not closed: then it is no line that a program joined
        return told
    return _inner(words) if _is_shell(words) else told


def _inner(words: list[str]) -> str:
    return words[2] if _is_shell(words) else shlex.join(words)


def _is_shell(words: list[str]) -> bool:
    return len(words) == 3 and words[1] in _SHELL_FLAGS and words[0].rsplit("/", 1)[-1].endswith("sh")
