"""The processes that hold a session: Claude Code's registry of itself, and the tools that it started."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.history.claude.record import inside
from holdfast.process import identity, tree

MARK = "CLAUDE_CODE_SESSION_ID"  # in the environment of its tools

_LIMIT = 1 << 20
_NEAR_S = 60.0


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that the registry names for a session."""
    folder = os.path.join(root, "sessions")
    if not os.path.isdir(folder) and os.path.basename(root) == "projects":
        folder = os.path.join(os.path.dirname(root), "sessions")
    found = []
    for entry in _entries(folder):
        if entry.get("sessionId") == native_id and _is_here(entry.get("pidDomain")) and _lives(entry):
            found.append(entry["pid"])
    return sorted(found)


def tools(native_id: str) -> list[int]:
    """The living processes that a session's agent started; not this one, nor what started it."""
    table = tree.table()
    ours = {os.getpid()}
    pid = os.getpid()
    while pid in table and table[pid].ppid not in ours:
        pid = table[pid].ppid
        ours.add(pid)
    return sorted(
        pid for pid, told in tree.marks(table, MARK).items() if told == native_id and pid not in ours
    )


def _entries(folder: str) -> list[dict[str, Any]]:
    """What the registry's files say; what else lies there holds secrets, and is not opened."""
    found = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        if not name.endswith(".json") or not name[: -len(".json")].isdecimal():
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                entry = inside(msgspec.Raw(file.read(_LIMIT)))
        except OSError:
            continue
        if type(entry.get("pid")) is int and 0 < entry["pid"] < 1 << 31:
            found.append(entry)
    return found


def _lives(entry: dict[str, Any]) -> bool:
    started = identity.started(entry["pid"])
    if started is None:
        return False
    told = entry.get("procStart")
    if identity.HAS_PROC and isinstance(told, (str, int, float)):
        return _number(told) == started
    at = entry.get("startedAt")
    # Without /proc a process's start is a time of day; the CLI notes its own a little later.
    return isinstance(at, (int, float)) and 0 <= at / 1000 - started < _NEAR_S


def _number(told: str | int | float) -> float | None:
    try:
        return float(told)
    except (ValueError, OverflowError):
        return None


def _is_here(domain: Any) -> bool:
    """Whether a pid of that domain means a process of ours; older versions do not tell."""
    if not isinstance(domain, str) or not identity.HAS_PROC:
        return True
    machine, space = _domain()
    parts = domain.split(":", 2)  # linux:<machine id>:pid:[4026531836]
    if len(parts) != 3:
        return True
    return parts[1] in ("", machine) and parts[2] in ("", space) if machine else parts[2] in ("", space)


@lru_cache(maxsize=1)
def _domain() -> tuple[str, str]:
    machine = ""
    try:
        with open("/etc/machine-id") as file:
            machine = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        pass
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return machine, space
