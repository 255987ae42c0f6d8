"""Errands: work on the mirror files that a caller waits for and a store's mirror thread does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.store.mirror.files import MirrorFiles

log = logging.getLogger(__name__)


class Errand(NamedTuple):
    """Work on the files, and who waits for it."""

    work: Callable[[MirrorFiles], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    @classmethod
    def of_caller(cls, work: Callable[[MirrorFiles], Any]) -> Errand:
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
