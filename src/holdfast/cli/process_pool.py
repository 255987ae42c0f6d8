"""A crew: forked processes that share a list of jobs, each given the next one when it has done its last."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast import errors

Tell = Callable[[int, Any], None]  # the number of a job, and what came of it
Work = Callable[[Iterable[int], Tell], None]


class _Line:
    """One end of a connection on which JSON is said, a line each."""

    def __init__(self, end: socket.socket):
        self._end = end
        self._said = end.makefile("rb")

    def fileno(self) -> int:
        """For a selector."""
        return self._end.fileno()

    def say(self, what: Any) -> None:
        """ConnectionError if the other side is gone."""
        self._end.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> Any:
        """What the other side says next; None when it is gone."""
        try:
            said = self._said.readline()
        except ConnectionError:
            return None
        return json.loads(said) if said.endswith(b"\n") else None

    def close(self) -> None:
        """Let go of it."""
        self._said.close()
        self._end.close()


class _Hand(NamedTuple):
    """One process of a crew, and the line to it."""

    pid: int
    line: _Line


def share(hands: int, jobs: int, work: Work, tell: Tell) -> None:
    """Have that many processes do the jobs; `tell` hears in this one what came of each.

    To be called where no thread runs and nothing is open that must not be used twice. When this process
    dies, the others finish what they are at and end.
    """
    if hands < 2:
        work(range(jobs), tell)
        return
    crew: list[_Hand] = []
    try:
        for _ in range(hands):
            crew.append(_hire(work, crew))
        _hand_out(crew, iter(range(jobs)), tell)
    finally:
        for hand in crew:
            hand.line.close()
        ends = [os.waitstatus_to_exitcode(os.waitpid(hand.pid, 0)[1]) for hand in crew]
    if any(ends):
        raise errors.HoldfastError(
            f"{sum(map(bool, ends))} of {hands} processes ended before they were done",
            hint="the same command again does the rest",
        )


def _hand_out(crew: list[_Hand], numbers: Iterator[int], tell: Tell) -> None:
    with selectors.DefaultSelector() as selector:
        for hand in crew:
            selector.register(hand.line.fileno(), selectors.EVENT_READ, hand.line)
        while selector.get_map():
            for key, _ in selector.select():
                line: _Line = key.data
                said = line.hear()
                if said is None:
                    selector.unregister(key.fd)
                    continue
                if "error" in said:
                    raise errors.HoldfastError.from_json(said["error"], said["exit_status"])
                if "job" in said:
                    tell(said["job"], said["came"])
                with suppress(ConnectionError):  # it died; how is seen when it is waited for
                    line.say(next(numbers, None))


def _hire(work: Work, others: list[_Hand]) -> _Hand:
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        for hand in others:  # held here, too, they would not end with the parent
            hand.line.close()
        _be_hand(work, _Line(theirs))
    theirs.close()
    return _Hand(pid, _Line(ours))


def _be_hand(work: Work, line: _Line) -> None:
    """Never returns."""
    status = 1
    try:
        work(_given(line), lambda job, came: line.say({"job": job, "came": came}))
        status = 0
    except errors.HoldfastError as problem:
        with suppress(ConnectionError):
            line.say({"error": problem.as_json(), "exit_status": problem.exit_status})
    except (KeyboardInterrupt, ConnectionError):
        pass  # the parent was interrupted as well, or is gone
    finally:
        if sys.exc_info()[0] is not None:
            os.write(2, traceback.format_exc().encode(errors="replace"))
        os._exit(status)


def _given(line: _Line) -> Iterator[int]:
    """The jobs of one hand: asks for the first, and is given the next with each answer."""
    line.say({})
    while (number := line.hear()) is not None:
        yield number
