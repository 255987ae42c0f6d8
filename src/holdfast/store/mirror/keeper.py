"""The keeper follows the log and brings every record into its session's mirror, soon after its commit.

It is not needed for durability (the database is canonical, and a start levels the two), so it stays
off the writer's path: it reads what was committed, gathers several commits into one write, and
tries again later when the disk is full.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from holdfast import errors
from holdfast.fsio import reported
from holdfast.store.mirror import line
from holdfast.store.mirror.compare import START, Position, compare, pages
from holdfast.store.mirror.files import MirrorFiles, seal
from holdfast.store.sql import Sql

LAG_S = 0.1  # commits are gathered this long before they are mirrored
QUIET_S = 1.0  # a mirror that has been quiet this long is brought to disk and sealed

log = logging.getLogger(__name__)


class Seal(NamedTuple):
    """A mirror that is on disk, level up to a record."""

    session: str
    seal: str


class Keeper:
    """Sessions whose mirrors are behind, and mirrors that are not sealed yet."""

    def __init__(self, files: MirrorFiles, mine: Callable[[str | None], bool]):
        self.files = files
        self.problem: str | None = None  # why mirrors lag, as long as they do
        self._mine = mine
        self._astray: dict[str, str] = {}  # mirrors that only a heal can level, and why
        self._behind: dict[str, None] = {}
        self._level: dict[str, Position] = {}
        self._unsealed: dict[str, float] = {}

    def touch(self, sessions: Iterable[str]) -> None:
        """These sessions have new records; may be called from any thread."""
        for session in sessions:
            self._behind[session] = None

    def idle(self) -> bool:
        """Whether nothing waits for the keeper."""
        return not self._behind and not self._unsealed

    async def follow(self, sql: Sql) -> None:
        """Bring level what is behind; on a full disk, what is left stays behind."""
        with self.files.lock():
            while self._behind:
                session = next(iter(self._behind))
                del self._behind[session]
                try:
                    with reported(self.files.home.mirror(session)):
                        await self._bring_level(sql, session)
                except errors.StoreUnreadable as problem:
                    self._go_astray(session, str(problem))  # heal names it; the others go on
                except (errors.HoldfastError, OSError) as problem:
                    self._behind[session] = None
                    self._level.pop(session, None)
                    self._stuck(str(problem))
                    return
        self.problem = next(iter(self._astray.values()), None)

    def quiet(self, all_of_them: bool = False) -> list[Seal]:
        """Bring to disk the mirrors that have been quiet; what to record of each."""
        now = time.monotonic()
        sealed = []
        for session, since in list(self._unsealed.items()):
            if all_of_them or now - since > QUIET_S:
                del self._unsealed[session]
                level = self._level.pop(session, None)
                if level is not None and self.files.size(session) == level.offset:
                    sealed.append(Seal(session, seal(level.seq, self.files.sync(session))))
        if sealed:
            self.files.sync_names()
        return sealed

    def forget(self, session: str) -> None:
        """Its mirror is going to be moved or made anew."""
        self._level.pop(session, None)
        self._unsealed.pop(session, None)

    async def _bring_level(self, sql: Sql, session: str) -> None:
        rows = await sql.dicts("session", id=session)
        if not rows or not self._mine(rows[0]["host"]):
            return
        n, head, size = rows[0]["n"], rows[0]["seq"], self.files.size(session)
        if size is None and rows[0]["state"] == "deleted":
            self._astray.pop(session, None)
            return
        level = await self._where(sql, n, session, size)
        if level is None:
            # Neither ours to overwrite nor to guess at: the next start, or the doctor, compares.
            self._go_astray(session, f"the mirror of {session} is not what was written to it")
            return
        self._astray.pop(session, None)
        async for page in pages(sql, n, level.seq):
            parts, crc = [], 0
            for record in page:
                data, crc = line.write(session, record, crc)
                parts.append(data)
            if not page[-1].last:  # a page may end inside a commit; the file never does
                rest = [r async for p in pages(sql, n, page[-1].seq) for r in p]
                for record in rest:
                    data, crc = line.write(session, record, crc)
                    parts.append(data)
                page = rest
            data = b"".join(parts)
            self.files.append(session, level.offset, data)
            level = Position(page[-1].seq, level.offset + len(data))
            if level.seq >= head:
                break
        self._level[session] = level
        self._unsealed[session] = time.monotonic()

    async def _where(self, sql: Sql, n: int, session: str, size: int | None) -> Position | None:
        """Up to where the mirror is level, if all of it is."""
        if size is None:
            return START
        known = self._level.get(session)
        if known is not None and known.offset == size:
            return known
        if known is None and size == 0:
            return None
        path = self.files.home.mirror(session)
        found = await compare(sql, n, session, path, known or START)
        return found.level if found.result in ("level", "short") else None

    def _go_astray(self, session: str, why: str) -> None:
        self._astray[session] = why
        self._stuck(why)

    def _stuck(self, why: str) -> None:
        if self.problem != why:
            log.warning("a mirror lags behind the database: %s", why)
        self.problem = why
