"""The keeper follows the log and brings every record into its session's mirror, soon after its commit.

It is not needed for durability (the database is canonical, and a start levels the two), so it stays
off the writer's path: it reads what was committed, gathers several commits into one write, and
tries again later when the disk is full.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from holdfast import errors
from holdfast.durable_io import reported
from holdfast.store.backend import OperationResult
from holdfast.store.mirror import format
from holdfast.store.mirror.compare import START, MirrorPosition, compare, pages
from holdfast.store.mirror.files import MirrorFiles, seal
from holdfast.store.sql import Sql

LAG_S = 0.1  # commits are gathered this long before they are mirrored
QUIET_S = 1.0  # a mirror that has been quiet this long is brought to disk and sealed

log = logging.getLogger(__name__)


class MirrorSeal(NamedTuple):
    """A mirror that is on disk, level up to a record."""

    session: str
    seal: str


class SessionBacklog:
    """Sessions in the order they came, each once; filled by one thread, emptied by another."""

    def __init__(self) -> None:
        self._sessions: dict[str, None] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, sessions: Iterable[str]) -> None:
        """Put them at the end, those that are not there yet."""
        with self._lock:
            for session in sessions:
                self._sessions[session] = None

    def take(self) -> str | None:
        """The first one, which waits no longer; None if nobody waits."""
        with self._lock:
            session = next(iter(self._sessions), None)
            if session is not None:
                del self._sessions[session]
            return session


class MirrorWriter:
    """Sessions whose mirrors are behind, and mirrors that are not sealed yet."""

    def __init__(self, files: MirrorFiles, mine: Callable[[str | None], bool]):
        self.files = files
        self.problem: str | None = None  # why mirrors lag, as long as they do
        self._mine = mine
        self._astray: dict[str, str] = {}  # mirrors that only a heal can level, and why
        self._behind = SessionBacklog()
        self._level: dict[str, MirrorPosition] = {}
        self._unsealed: dict[str, float] = {}
        self._seal_at = 0.0

    def touch(self, sessions: Iterable[str]) -> None:
        """These sessions have new records; may be called from any thread."""
        self._behind.add(sessions)

    def idle(self) -> bool:
        """Whether nothing waits for the keeper."""
        return not self._behind and not self._unsealed

    async def follow(self, sql: Sql) -> None:
        """Bring level what is behind; on a full disk, what is left stays behind."""
        while (session := self._behind.take()) is not None:
            try:
                with reported(self.files.home.mirror(session)):
                    if not await self._bring_level(sql, session):
                        self._behind.add([session])  # another process is at it; look again
            except errors.StoreUnreadable as problem:
                self._go_astray(session, str(problem))  # heal names it; the others go on
            except (errors.HoldfastError, OSError) as problem:
                self._behind.add([session])
                self._level.pop(session, None)
                self._stuck(str(problem))
                return
            except BaseException:
                self._behind.add([session])  # not done, whatever came between
                raise
        self.problem = next(iter(self._astray.values()), None)

    def quiet(self, all_of_them: bool = False) -> list[MirrorSeal]:
        """Bring to disk the mirrors that have been quiet; what to record of each."""
        now = time.monotonic()
        if now < self._seal_at and not all_of_them:
            return []  # where sessions fall quiet one after the other, each seal is of many
        sealed = []
        for session, since in list(self._unsealed.items()):
            if all_of_them or now - since > QUIET_S:
                del self._unsealed[session]
                level = self._level.pop(session, None)
                if level is not None and self.files.size(session) == level.offset:
                    sealed.append(MirrorSeal(session, seal(level.seq, self.files.sync(session))))
        if sealed:
            self.files.sync_names()
            self._seal_at = now + QUIET_S
        return sealed

    def forget(self, session: str) -> None:
        """Its mirror is about to be moved or recreated."""
        self._level.pop(session, None)
        self._unsealed.pop(session, None)

    async def _bring_level(self, sql: Sql, session: str) -> bool:
        """Add what a mirror lacks; False if another process changed it meanwhile.

        The lock is held for each append only: a waiter must not wait for the database.
        """
        rows = await sql.dicts("session", id=session)
        if not rows or not self._mine(rows[0]["host"]):
            return True
        n, head, size = rows[0]["n"], rows[0]["seq"], self.files.size(session)
        if size is None and rows[0]["state"] == "deleted":
            self._astray.pop(session, None)
            return True
        level = await self._where(sql, n, session, size)
        if level is None:
            if self.files.size(session) != size:
                return False
            # Neither ours to overwrite nor to guess at: the next start, or the doctor, compares.
            self._go_astray(session, f"the mirror of {session} is not what was written to it")
            return True
        self._astray.pop(session, None)
        while level.seq < head:
            data, seq = await _whole_commits(sql, n, session, level.seq)
            if not data:
                raise errors.StoreUnreadable(f"the log of {session} ends at {level.seq}, not at {head}")
            if not self._append(session, level.offset, data):
                return False
            level = self._level[session] = MirrorPosition(seq, level.offset + len(data))
        self._level[session] = level
        self._unsealed[session] = time.monotonic()
        return True

    def _append(self, session: str, offset: int, data: bytes) -> bool:
        with self.files.lock():
            size = self.files.size(session)
            if size != offset and not (size is None and offset == 0):
                return False
            self.files.append(session, offset, data)
        return True

    async def _where(self, sql: Sql, n: int, session: str, size: int | None) -> MirrorPosition | None:
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
        return found.matched if found.result in ("equal", "short") else None

    def _go_astray(self, session: str, why: str) -> None:
        self._astray[session] = why
        self._stuck(why)

    def _stuck(self, why: str) -> None:
        if self.problem != why:
            log.warning("a mirror lags behind the database: %s", why)
        self.problem = why


async def _whole_commits(sql: Sql, n: int, session: str, after: int) -> tuple[bytes, int]:
    """The lines of the next commits, a page of them or one that is longer, and their last seq."""
    parts: list[bytes] = []
    crc, seq = 0, after
    async for page in pages(sql, n, after):
        for record in page:
            data, crc = format.write(session, record, crc)
            parts.append(data)
            seq = record.seq
        if page[-1].last:
            break
    return b"".join(parts), seq


async def put_seals(sql: Sql, seals: Iterable[MirrorSeal]) -> OperationResult:
    """Record that these mirrors are level and on disk."""
    for session, sealed in seals:
        await sql.run("put_seal", id=session, seal=sealed)
    return OperationResult(None)


# --- Errands: work on the mirror files that a caller waits for and a store's mirror thread does.


class MirrorJob(NamedTuple):
    """Work on the files, and who waits for it."""

    work: Callable[[MirrorFiles], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    @classmethod
    def of_caller(cls, work: Callable[[MirrorFiles], Any]) -> MirrorJob:
        """An errand whose caller waits in the running event loop."""
        loop = asyncio.get_running_loop()
        return cls(work, loop, loop.create_future())

    def do(self, files: MirrorFiles) -> None:
        """Do it with the files locked, and tell the caller; called in the mirror thread."""
        value: Any = None
        failure: Exception | None = None
        try:
            with files.lock():
                value = self.work(files)
        except Exception as problem:  # noqa: BLE001 - the caller gets it
            failure = problem

        def tell() -> None:
            if self.future.done():  # its caller was cancelled
                return
            if failure is None:
                self.future.set_result(value)
            else:
                self.future.set_exception(failure)

        try:
            self.loop.call_soon_threadsafe(tell)
        except RuntimeError:
            log.debug("a caller's event loop ended before its answer")
