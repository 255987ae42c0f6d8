"""Which mirrors lack records, and what is appended to them?

Mirrors are not needed for durability: the database is canonical, and every start compares the two. So
they are written after the commit: several commits in one write, and again later if the disk is full.
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

IDLE_S = 1.0  # a mirror without new records for this long is synced to disk and sealed

log = logging.getLogger(__name__)


class MirrorSeal(NamedTuple):
    """A mirror that is on disk and equals its log up to a record."""

    session: str
    seal: str


class SessionBacklog:
    """Sessions in order of arrival, each once. One thread adds, another takes."""

    def __init__(self) -> None:
        self._sessions: dict[str, None] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def add(self, sessions: Iterable[str]) -> None:
        """Add those at the end that are not in the backlog."""
        with self._lock:
            for session in sessions:
                self._sessions[session] = None

    def take(self) -> str | None:
        """Remove and return the first one. None if the backlog is empty."""
        with self._lock:
            session = next(iter(self._sessions), None)
            if session is not None:
                del self._sessions[session]
            return session


class MirrorWriter:
    """Knows which mirrors lack records, and which are not sealed yet."""

    def __init__(self, files: MirrorFiles, owns: Callable[[str | None], bool]):
        self.files = files
        self.problem: str | None = None  # why mirrors are behind, while they are
        self._owns = owns  # whether this node mirrors the sessions of a host
        self._diverged: dict[str, str] = {}  # mirrors that only a heal can repair, and why
        self._behind = SessionBacklog()
        self._matched: dict[str, MirrorPosition] = {}
        self._unsealed: dict[str, float] = {}  # since when without new records
        self._next_seal_at = 0.0

    def touch(self, sessions: Iterable[str]) -> None:
        """These sessions have new records. Any thread may call this."""
        self._behind.add(sessions)

    def idle(self) -> bool:
        """Whether there is nothing to append and nothing to seal."""
        return not self._behind and not self._unsealed

    async def catch_up(self, sql: Sql) -> None:
        """Append what the mirrors lack. On a full disk the rest waits for the next call."""
        while (session := self._behind.take()) is not None:
            try:
                with reported(self.files.home.mirror(session)):
                    if not await self._append_missing(sql, session):
                        self._behind.add([session])  # another process changed it; look again
            except errors.StoreUnreadable as problem:
                self._mark_diverged(session, str(problem))  # heal reports it; the others continue
            except (errors.HoldfastError, OSError) as problem:
                self._behind.add([session])
                self._matched.pop(session, None)
                self._report(str(problem))
                return
            except BaseException:
                self._behind.add([session])  # not done
                raise
        self.problem = next(iter(self._diverged.values()), None)

    def seal_idle(self, everything: bool = False) -> list[MirrorSeal]:
        """Sync the mirrors without recent records, or all, to disk. Returns their seals."""
        now = time.monotonic()
        if now < self._next_seal_at and not everything:
            return []  # seals of several sessions share a transaction
        sealed = []
        for session, since in list(self._unsealed.items()):
            if everything or now - since > IDLE_S:
                del self._unsealed[session]
                matched = self._matched.pop(session, None)
                if matched is not None and self.files.size(session) == matched.offset:
                    sealed.append(MirrorSeal(session, seal(matched.seq, self.files.sync(session))))
        if sealed:
            self.files.sync_names()
            self._next_seal_at = now + IDLE_S
        return sealed

    async def _append_missing(self, sql: Sql, session: str) -> bool:
        """Append what a mirror lacks. False if another process changed it at the same time.

        Only each append holds the lock: other processes must not wait for the database.
        """
        rows = await sql.dicts("session", id=session)
        if not rows or not self._owns(rows[0]["host"]):
            return True
        n, head, size = rows[0]["n"], rows[0]["seq"], self.files.size(session)
        if size is None and rows[0]["state"] == "deleted":
            self._diverged.pop(session, None)
            return True
        matched = await self._position(sql, n, session, size)
        if matched is None:
            if self.files.size(session) != size:
                return False
            # Not overwritten here: the next start, or the doctor, compares and repairs it.
            self._mark_diverged(session, f"the mirror of {session} differs from the database")
            return True
        self._diverged.pop(session, None)
        while matched.seq < head:
            data, seq = await _whole_commits(sql, n, session, matched.seq)
            if not data:
                raise errors.StoreUnreadable(f"the log of {session} ends at {matched.seq}, not at {head}")
            if not self._append(session, matched.offset, data):
                return False
            matched = self._matched[session] = MirrorPosition(seq, matched.offset + len(data))
        self._matched[session] = matched
        self._unsealed[session] = time.monotonic()
        return True

    def _append(self, session: str, offset: int, data: bytes) -> bool:
        with self.files.lock():
            size = self.files.size(session)
            if size != offset and not (size is None and offset == 0):
                return False
            self.files.append(session, offset, data)
        return True

    async def _position(self, sql: Sql, n: int, session: str, size: int | None) -> MirrorPosition | None:
        """Where the mirror ends, if all of it equals the log; else None."""
        if size is None:
            return START
        known = self._matched.get(session)
        if known is not None and known.offset == size:
            return known
        if known is None and size == 0:
            return None
        path = self.files.home.mirror(session)
        comparison = await compare(sql, n, session, path, known or START)
        return comparison.matched if comparison.result in ("equal", "short") else None

    def _mark_diverged(self, session: str, why: str) -> None:
        self._diverged[session] = why
        self._report(why)

    def _report(self, why: str) -> None:
        if self.problem != why:
            log.warning("a mirror is behind the database: %s", why)
        self.problem = why


async def _whole_commits(sql: Sql, n: int, session: str, after: int) -> tuple[bytes, int]:
    """The lines of the next whole commits, about a page of them, and their last seq."""
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
    """Record that these mirrors are on disk and equal their logs."""
    for session, sealed in seals:
        await sql.run("put_seal", id=session, seal=sealed)
    return OperationResult(None)


# --- work on the mirror files that a caller waits for


class MirrorJob(NamedTuple):
    """Work on the files, and the future of its caller."""

    work: Callable[[MirrorFiles], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    @classmethod
    def of_caller(cls, work: Callable[[MirrorFiles], Any]) -> MirrorJob:
        """A job whose caller waits in the running event loop."""
        loop = asyncio.get_running_loop()
        return cls(work, loop, loop.create_future())

    def do(self, files: MirrorFiles) -> None:
        """Run the work with the files locked and answer the caller. Runs in the mirror thread."""
        value: Any = None
        failure: Exception | None = None
        try:
            with files.lock():
                value = self.work(files)
        except Exception as problem:  # noqa: BLE001 - the caller gets it
            failure = problem

        def answer() -> None:
            if self.future.done():  # its caller was cancelled
                return
            if failure is None:
                self.future.set_result(value)
            else:
                self.future.set_exception(failure)

        try:
            self.loop.call_soon_threadsafe(answer)
        except RuntimeError:
            log.debug("a caller's event loop ended before its answer")
