"""Ending processes: asked first, then killed, and never one that has only inherited a pid."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable

from holdfast.process import identity
from holdfast.process import table as tree
from holdfast.process.identity import Ident
from holdfast.process.table import Process

KILL_WAIT_S = 2.0  # what SIGKILL does not end by then waits for a disk or is not ours
LOOK_S = 0.25  # between looks at the whole table
STEP_S = 0.01

Look = Callable[[], Iterable[Process]]


async def end(processes: Iterable[Process], grace_s: float, look: Look | None = None) -> list[Process]:
    """SIGTERM, up to `grace_s` to go, then SIGKILL, for all of them and what they start meanwhile.

    `look` finds what belongs to them now (`survivors` of their task); without it, their descendants. Gives
    those that could not be ended.
    """
    hunt = _Hunt(processes, look)
    await hunt.again()  # before the first signal: a child whose parent has gone is hard to find
    hunt.tell(signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    next_look = time.monotonic()
    while hunt.living() and time.monotonic() < deadline:
        if time.monotonic() >= next_look:
            await hunt.again()
            hunt.tell(signal.SIGTERM)
            next_look = time.monotonic() + LOOK_S
        await asyncio.sleep(min(STEP_S, grace_s))
    deadline = time.monotonic() + KILL_WAIT_S
    while True:
        await hunt.again()
        if not hunt.living() or time.monotonic() >= deadline:
            return hunt.living()
        hunt.tell(signal.SIGKILL)
        for _ in range(5):
            if not hunt.living():
                break
            await asyncio.sleep(STEP_S)


def ask(process: Process | Ident, signal_number: int) -> bool:
    """Send that very process a signal; False if it is gone, or not ours to signal."""
    try:
        if not hasattr(os, "pidfd_open"):
            return _ask_by_pid(process, signal_number)
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        except OSError:  # an old kernel, or a sandbox that knows no pidfd
            return _ask_by_pid(process, signal_number)
        try:
            # Asked after the descriptor was opened: if it has the pid now, it had it then.
            if identity.started(process.pid) != process.started:
                return False
            signal.pidfd_send_signal(fd, signal_number)
        finally:
            os.close(fd)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _Hunt:
    """The processes that are to end, as far as they are known."""

    def __init__(self, processes: Iterable[Process], look: Look | None):
        self._known = {(p.pid, p.started): p for p in processes}
        self._told: set[tuple[int, float, int]] = set()
        self._look = look

    async def again(self) -> None:
        """Take in what has been started since."""
        for process in await asyncio.to_thread(self._found):
            if process.pid != os.getpid():
                self._known.setdefault((process.pid, process.started), process)

    def _found(self) -> list[Process]:
        if self._look is not None:
            return list(self._look())
        return tree.below(tree.table(), self._known.values())

    def tell(self, signal_number: int) -> None:
        """Send each that lives the signal, once."""
        for key, process in self._known.items():
            if (*key, signal_number) not in self._told:
                ask(process, signal_number)
                self._told.add((*key, signal_number))

    def living(self) -> list[Process]:
        return [p for p in self._known.values() if identity.started(p.pid) == p.started]


def _ask_by_pid(process: Process | Ident, signal_number: int) -> bool:
    if identity.started(process.pid) != process.started:
        return False
    os.kill(process.pid, signal_number)
    return True
