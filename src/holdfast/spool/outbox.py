"""What is sent to an agent: lines appended to `sent`, each exactly once across our crashes.

A relay passes the file on to the agent's stdin. It is not synced: the relay reads it through the same
kernel, and what a power cut takes from it, it takes from the agent too.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from hashlib import blake2b

from holdfast import durable_io
from holdfast.process import identity
from holdfast.process.identity import Ident
from holdfast.process.kill import ask
from holdfast.spool.task_dir import Spool

_RECORDING_S = 1.0  # more than a shell needs from making a file to writing its line


class Outbox:
    """The lines for one agent; a driver that starts over may send all of its lines again."""

    def __init__(self, path: str):
        self._path = path
        self._held: Counter[bytes] = Counter()  # by digest: how often each line is in the file
        self._asked: Counter[bytes] = Counter()  # and how often it was to be sent in this life
        self._torn = b""
        with open(path, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    self._held[_digest(line)] += 1
                else:
                    self._torn = line

    def send(self, line: bytes) -> bool:
        """Append a line unless this is a repeat of one that is there; whether it was written.

        The k-th time that the same bytes are sent is a repeat if the file held k of them.
        """
        if not line.endswith(b"\n") or line.count(b"\n") != 1:
            raise ValueError("one whole line is sent at a time")
        name = _digest(line)
        if self._asked[name] < self._held[name]:
            self._asked[name] += 1
            return False
        if self._torn and not line.startswith(self._torn):
            self._write(b"\n")
            self._torn = b""
        self._write(line[len(self._torn) :])
        self._torn = b""
        self._held[name] += 1
        self._asked[name] += 1
        return True

    def _write(self, data: bytes) -> None:
        """All of it, in one call as a rule; what an error cuts off is remembered as torn."""
        with durable_io.reported(self._path):
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                view = memoryview(data)
                while view:
                    count = os.write(fd, view)
                    self._torn += bytes(view[:count])
                    view = view[count:]
            finally:
                os.close(fd)


def close_input(spool: Spool) -> Ident | None:
    """End the relay for good, so that the agent's stdin ends; safe to repeat. Gives the relay that was ended.

    A keeper that has not yet recorded itself is kept from starting. A relay that has not yet recorded itself
    ends on its own: it looks for the fifo's name after that.
    """
    if spool.prevent_relay():
        return None
    deadline = time.monotonic() + _RECORDING_S
    keeper = spool.relay_keeper()
    while keeper is None and os.path.getsize(spool.relay_file) == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
        keeper = spool.relay_keeper()
    if spool.relay_is_gone():
        return None  # the fifo keeps its name: the input was not closed, it was lost
    spool.end_relays()
    if keeper is not None and identity.is_alive(*keeper):
        ask(keeper, signal.SIGKILL)  # before the relay, or it would start another
    relay = spool.relay()
    if relay == keeper:  # version 1: the relay had no keeper
        return relay
    if relay is not None and identity.is_alive(*relay) and ask(relay, signal.SIGKILL):
        return relay
    return None


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=16).digest()
