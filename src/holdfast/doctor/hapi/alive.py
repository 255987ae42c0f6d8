"""Whether the wrapper of a session still runs, as far as can be told from here."""

from __future__ import annotations

import os
import socket
import time

from holdfast.history.hapi.database import Row
from holdfast.history.hapi.metadata import Metadata
from holdfast.process import identity

FRESH_S = 60.0  # a wrapper elsewhere says every two seconds that it lives; hapi gives it thirty
SLACK_S = 5.0


def is_alive(metadata: Metadata, row: Row) -> bool:
    """On this host: whether its process is there. Elsewhere only its last sign of life can tell."""
    if metadata.fields.get("host") != socket.gethostname():
        return abs(time.time() - row.active_at / 1000) < FRESH_S
    pid = metadata.fields.get("hostPid")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
        return False
    started = identity.started(pid)
    if started is None:
        return False
    moment = _moment(started)
    # A process that began after the session's last sign of life has only its number.
    return moment is None or moment <= max(row.active_at, row.updated_at) / 1000 + SLACK_S


def _moment(started: float) -> float | None:
    """When a process was started, in seconds since 1970."""
    if not identity.HAS_PROC:
        return started
    with open("/proc/stat") as file:
        for line in file:
            if line.startswith("btime "):
                return int(line.split()[1]) + started / os.sysconf("SC_CLK_TCK")
    return None
