"""Temporary files that a crash left: which of them hold nothing that is not elsewhere."""

from __future__ import annotations

import os
import re
import time

from holdfast.doctor.hermes import merging
from holdfast.doctor.hermes.chart import Chart
from holdfast.history.hermes import merge, sidecar
from holdfast.history.hermes.story import items_of
from holdfast.process import identity

_OWNER = re.compile(r"\.tmp(?:\.recovery)?\.(\d{1,9})\.\d+$")
_SESSION = re.compile(r"([0-9A-Za-z_-]{1,200})(?:\.json(?:\.bak|\.reconcile|\.recover)?)?\.tmp(?:\..*)?")
YOUNG_S = 3600.0  # after so long the web UI itself sweeps them


def session_of(name: str) -> str | None:
    """The session that such a file was for."""
    found = _SESSION.fullmatch(name)
    return found[1] if found and not name.startswith("_") else None


def is_spare(path: str, chart: Chart | None) -> bool:
    """Whether nobody writes it any more, and every message in it is in another copy too."""
    return not _is_written(path) and _says_nothing_new(path, chart)


def _is_written(path: str) -> bool:
    owner = _OWNER.search(path)
    try:
        age = time.time() - os.stat(path).st_mtime
    except OSError:
        return True
    return owner is not None and age < YOUNG_S and identity.started(int(owner[1])) is not None


def _says_nothing_new(path: str, chart: Chart | None) -> bool:
    side = sidecar.load(path)
    if side.state == "unreadable":
        return False
    if not side.messages:
        return True
    if chart is None:
        return False
    copies = [
        merging.listed(chart.facts.live.messages),
        merging.listed(chart.facts.backup.messages),
        items_of(chart.rows),
    ]
    mine = merging.listed(side.messages)
    return any(not merge.plan(copy, mine).after for copy in copies)
