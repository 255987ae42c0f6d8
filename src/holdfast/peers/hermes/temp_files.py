"""Temporary files that a crash of the web UI left behind, and which of them are safe to remove."""

from __future__ import annotations

import os
import re
import time

from holdfast.peers.hermes import merge, repair, sidecar
from holdfast.peers.hermes.conversation import comparable_all
from holdfast.peers.hermes.session_state import SessionState
from holdfast.process import identity

YOUNG_S = 3600.0  # the web UI itself removes older ones

_OWNER = re.compile(r"\.tmp(?:\.recovery)?\.(\d{1,9})\.\d+$")
_SESSION = re.compile(r"([0-9A-Za-z_-]{1,200})(?:\.json(?:\.bak|\.reconcile|\.recover)?)?\.tmp(?:\..*)?")


def session_of_temp_file(name: str) -> str | None:
    """The session that a temporary file belongs to."""
    match = _SESSION.fullmatch(name)
    return match[1] if match and not name.startswith("_") else None


def is_redundant(path: str, state: SessionState | None) -> bool:
    """Whether no process writes the file and another copy has every message in it."""
    return not _is_being_written(path) and _has_nothing_new(path, state)


def _is_being_written(path: str) -> bool:
    owner = _OWNER.search(path)
    try:
        age = time.time() - os.stat(path).st_mtime
    except OSError:
        return True
    return owner is not None and age < YOUNG_S and identity.started(int(owner[1])) is not None


def _has_nothing_new(path: str, state: SessionState | None) -> bool:
    side = sidecar.load(path)
    if side.state == "unreadable":
        return False
    if not side.messages:
        return True
    if state is None:
        return False
    copies = [
        repair.comparable_raw(state.facts.live.messages),
        repair.comparable_raw(state.facts.backup.messages),
        comparable_all(state.rows),
    ]
    mine = repair.comparable_raw(side.messages)
    return any(not merge.plan_merge(copy, mine).after for copy in copies)
