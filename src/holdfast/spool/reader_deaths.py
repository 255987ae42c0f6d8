"""Does a task's output kill the hub that reads it?

Some output may kill every hub that reads it, for example because it takes too much memory. A hub that takes
over a run marks each line before it reads it, and removes the mark when the line is in the log. The next hub
that finds a mark counts one death for that line. Only deaths at one line count, and only until a hub gets
past that line. A hub that is killed from outside, however often, dies somewhere else each time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from holdfast import durable_io

MAX_DEATHS = 3  # hubs that died one after the other at the same line
COMMIT_S = 1.0  # a commit that takes longer waits for the store: whoever is killed then did not die of a line
SIZE = 48  # bytes of the file; always the same, so that a full disk does not stop a write

Decision = Literal["read", "wait", "set_aside"]


class DeathRecord(NamedTuple):
    """Where in the output the last hubs died, and where one reads now."""

    deaths: int = 0
    offset: int = 0  # where the line starts at which they died
    reading: int | None = None  # where the line starts that a hub reads now, or read when it died


def begin_line(record: DeathRecord, offset: int) -> DeathRecord:
    """A hub is about to read the line that starts at `offset`."""
    return record._replace(reading=offset)


def finish_lines(record: DeathRecord, end: int) -> DeathRecord:
    """The log has all lines before `end`. Behind the suspected line nothing is suspected any more."""
    return DeathRecord() if end > record.offset else record._replace(reading=None)


def count_death(record: DeathRecord) -> DeathRecord:
    """A new hub takes the run over: a mark that is still there is that of a dead one."""
    if record.reading is None:
        return record
    again = record.reading == record.offset
    return DeathRecord(record.deaths + 1 if again else 1, record.reading)


def decide(record: DeathRecord) -> Decision:
    """Whether a hub reads the output. The last try first waits: a hub that is soon killed proves nothing."""
    if record.deaths >= MAX_DEATHS:
        return "set_aside"
    return "wait" if record.deaths == MAX_DEATHS - 1 else "read"


class ReaderMarks:
    """The record of one task in a small file of its folder, kept by the hub that took the run over.

    Each write goes over bytes that are there already: a full disk does not stop it. A folder of version 1 has
    no such file. An older version wrote one number, which also counted kills from outside: it counts as none.
    """

    def __init__(self, path: str):
        self._path = path
        self._fd: int | None = None
        self.record = DeathRecord()

    @staticmethod
    def create(path: str) -> None:
        """An empty record for a new folder."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, _encoded(DeathRecord()), 0)
        finally:
            os.close(fd)

    def take_over(self) -> DeathRecord:
        """Count the death of the hub before this one, if it died while it read."""
        with durable_io.reported(self._path):
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return self.record
            self._write(count_death(_decoded(os.pread(self._fd, SIZE, 0))))
        return self.record

    def begin(self, offset: int) -> None:
        """Mark a line before it is read."""
        self._write(begin_line(self.record, offset))

    @contextmanager
    def commit(self, start: int) -> Iterator[None]:
        """Mark the lines from `start` on while they are committed, but not while the store is waited for."""
        self.begin(start)
        timer = asyncio.get_running_loop().call_later(COMMIT_S, self.pause)
        try:
            yield
        finally:
            timer.cancel()

    def finish(self, end: int) -> None:
        """Remove the mark: the log has all lines before `end`."""
        self._write(finish_lines(self.record, end))

    def pause(self) -> None:
        """Remove the mark: nothing is read now."""
        if self.record.reading is not None:
            self._write(self.record._replace(reading=None))

    def close(self) -> None:
        """Remove the mark: this process reads no more, and it did not die."""
        if self._fd is not None:
            self.pause()
            os.close(self._fd)
            self._fd = None

    def _write(self, record: DeathRecord) -> None:
        self.record = record
        if self._fd is not None:
            with durable_io.reported(self._path):
                os.pwrite(self._fd, _encoded(record), 0)


def _encoded(record: DeathRecord) -> bytes:
    reading = "-" if record.reading is None else str(record.reading)
    return f"{record.deaths} {record.offset} {reading}".ljust(SIZE - 1).encode() + b"\n"


def _decoded(data: bytes) -> DeathRecord:
    try:
        deaths, offset, reading = data.split()
        return DeathRecord(int(deaths), int(offset), None if reading == b"-" else int(reading))
    except ValueError:
        return DeathRecord()
