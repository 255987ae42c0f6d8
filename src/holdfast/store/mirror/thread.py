"""The thread that writes the mirrors of a store, and runs the work of callers on the mirror files.

A thread, because the lock of the mirror files may block while the event loop has to serve.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdfast import errors
from holdfast.store.mirror import writer
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.mirror.writer import MirrorJob, MirrorSeal, MirrorWriter

LAG_S = 0.1  # how long to gather commits before they are mirrored
RETRY_S = 1.0  # how long to wait after mirrors could not be written

log = logging.getLogger(__name__)


class MirrorSource(Protocol):
    """The store that a mirror thread reads. All its methods run in the mirror thread."""

    poll_s: float | None  # how often to look for commits of other processes; None: never

    def catch_up(self, mirrors: MirrorWriter) -> None:
        """Let `mirrors` read the log and append what is missing."""
        ...

    def save_seals(self, seals: Sequence[MirrorSeal]) -> None:
        """Record the seals in the database."""
        ...

    def is_gone(self) -> bool:
        """Whether the store cannot answer any more, though nobody closed it."""
        ...

    def close(self) -> None:
        """Close what the source has opened."""
        ...


class MirrorThread:
    """Appends committed records to the mirrors, soon after each commit."""

    def __init__(self, mirrors: MirrorWriter, source: MirrorSource):
        self._mirrors = mirrors
        self._source = source
        self._news = threading.Event()
        self._urgent = threading.Event()  # a caller waits
        self._jobs: queue.SimpleQueue[MirrorJob] = queue.SimpleQueue()
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="holdfast-mirror", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why the mirrors are behind the database, while they are."""
        return self._mirrors.problem

    def touch(self, sessions: list[str]) -> None:
        """These sessions have new records, or their mirrors need a check."""
        self._mirrors.touch(sessions)
        self.wake()

    def wake(self) -> None:
        """Another process may have committed."""
        if not self._news.is_set():
            self._news.set()

    async def run(self, work: Callable[[MirrorFiles], Any]) -> Any:
        """Run work on the files, after everything that is committed now is in them. Returns its result."""
        if self._stop:
            raise errors.StoreClosed()
        job = MirrorJob.of_caller(work)
        self._jobs.put(job)
        self._hurry()
        return await job.future

    async def close(self) -> None:
        """Write and seal all mirrors, then end the thread."""
        self._stop = True
        self._hurry()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _hurry(self) -> None:
        self._urgent.set()
        self._news.set()

    # --- in the thread

    def _run(self) -> None:
        stop = False
        while not stop and not self._source.is_gone():
            self._news.wait(self._source.poll_s if self._mirrors.idle() else writer.IDLE_S / 2)
            if self._mirrors.problem is not None:
                self._urgent.wait(RETRY_S)
            elif self._news.is_set():
                self._urgent.wait(LAG_S)
            self._urgent.clear()
            self._news.clear()
            stop = self._stop
            waiting = self._jobs.qsize()  # later jobs need later commits in the mirrors, too
            caught_up = self._catch_up()
            for _ in range(waiting):
                self._jobs.get().do(self._mirrors.files)
            if caught_up:
                self._seal(everything=stop)
        self._source.close()

    def _catch_up(self) -> bool:
        """Append what is missing. False if the database or the disk failed."""
        try:
            self._source.catch_up(self._mirrors)
        except (errors.HoldfastError, OSError) as problem:
            if self._mirrors.problem != str(problem):
                log.warning("mirrors cannot follow: %s", problem)
            self._mirrors.problem = str(problem)
            return False
        except Exception as problem:
            # Logged and tried again: if the thread ended here, the mirrors would stay behind.
            log.exception("the mirror thread failed")
            self._mirrors.problem = f"{type(problem).__name__}: {problem}"
            return False
        return True

    def _seal(self, everything: bool) -> None:
        try:
            seals = self._mirrors.seal_idle(everything)
            if seals:
                self._source.save_seals(seals)
        except (errors.HoldfastError, OSError) as problem:
            # Without a seal the next start reads the mirror instead of only its size and time.
            log.warning("mirrors could not be sealed: %s", problem)
