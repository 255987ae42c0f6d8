"""When a hub was up on this home: each adds its begin and end to a file, and touches it meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from litestar import get
from litestar.params import QueryParameter

from holdfast import timestamps
from holdfast.errors import BadInput
from holdfast.home import Home
from holdfast.hub.api.responses import TheHub, fails

TOUCH_S = 1.0  # a killed hub is shown as down from up to so long before its death
KEPT = 1000  # lives that are told

End = Literal["stopped", "killed", "running"]


class UptimeSpan(msgspec.Struct, frozen=True, rename={"begin": "from"}):
    """One hub: from when to when, and how it ended; a killed one's end is its last sign of life."""

    begin: str
    to: str | None
    end: End


class UptimeSpans(msgspec.Struct, frozen=True):
    """All of them, the oldest first."""

    lives: list[UptimeSpan]


class UptimeLog:
    """The file, as the hub that runs keeps it."""

    def __init__(self, home: Home):
        self._path = os.path.join(home.path, "hub.lives")

    def begin(self, at: str) -> None:
        """We are up; one before us that did not say that it ended was killed after its last touch."""
        known = self.read()
        lines = [json.dumps({"up": at})]
        if known and known[-1].end == "running":
            lines.insert(0, json.dumps({"killed": timestamps.stamp(os.stat(self._path).st_mtime)}))
        self._add(lines)

    def touch(self) -> None:
        """We are still up."""
        with suppress(FileNotFoundError):
            os.utime(self._path)

    def end(self, at: str) -> None:
        """We end."""
        self._add([json.dumps({"down": at})])

    def read(self) -> list[UptimeSpan]:
        """What it tells; a line that cannot be read is passed over."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                return told(file)
        except FileNotFoundError:
            return []

    def _add(self, lines: list[str]) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, "".join(f"{line}\n" for line in lines).encode())
        finally:
            os.close(fd)


def told(lines: Iterable[str]) -> list[UptimeSpan]:
    """The lives that the lines of a diary tell."""
    lives: list[UptimeSpan] = []
    ends: dict[str, End] = {"down": "stopped", "killed": "killed"}
    for line in lines:
        try:
            said: Any = json.loads(line)
        except ValueError:
            continue
        if not isinstance(said, dict) or len(said) != 1:
            continue
        ((what, at),) = said.items()
        if what == "up" and timestamps.is_stamp(at):
            lives.append(UptimeSpan(at, None, "running"))
        elif what in ends and lives and timestamps.is_stamp(at):
            lives[-1] = UptimeSpan(lives[-1].begin, at, ends[what])
    return lives


@get("/api/lives", operation_id="listLives", summary="When a hub was up on this home", responses=fails())
async def list_lives(
    hub: TheHub,
    since: Annotated[str | None, QueryParameter(description="As 2026-01-31T12:00:00.000000Z.")] = None,
) -> UptimeSpans:
    """Those that were up then or later, at most the last thousand."""
    if since is not None and not timestamps.is_stamp(since):
        raise BadInput(f"{since!r} is not a time like 2026-01-31T12:00:00.000000Z")
    found = [
        life for life in UptimeLog(hub.home).read() if since is None or life.to is None or life.to >= since
    ]
    return UptimeSpans(found[-KEPT:])


ROUTES = [list_lives]
