"""A process pool: forked workers share a list of jobs, and each takes the next job when it finishes one."""

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

OnResult = Callable[[int, Any], None]  # the number of a job, and its result
Work = Callable[[Iterable[int], OnResult], None]


class _JsonSocket:
    """One end of a connection that carries one JSON value per line."""

    def __init__(self, end: socket.socket):
        self._end = end
        self._input = end.makefile("rb")

    def fileno(self) -> int:
        """For a selector."""
        return self._end.fileno()

    def send(self, value: Any) -> None:
        """ConnectionError if the other side is gone."""
        self._end.sendall(json.dumps(value).encode() + b"\n")

    def receive(self) -> Any:
        """The next value from the other side; None when it is gone."""
        try:
            line = self._input.readline()
        except ConnectionError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """Close the connection."""
        self._input.close()
        self._end.close()


class _PoolWorker(NamedTuple):
    """One process of the pool, and the connection to it."""

    pid: int
    connection: _JsonSocket


def run_jobs(workers: int, jobs: int, work: Work, on_result: OnResult) -> None:
    """Run the jobs in that many processes; `on_result` runs in this process for each result.

    Call it only where no thread runs and no open resource breaks when two processes use it. When this
    process dies, each worker finishes its current job and exits.
    """
    if workers < 2:
        work(range(jobs), on_result)
        return
    pool: list[_PoolWorker] = []
    try:
        for _ in range(workers):
            pool.append(_start_worker(work, pool))
        _distribute(pool, iter(range(jobs)), on_result)
    finally:
        for worker in pool:
            worker.connection.close()
        exit_codes = [os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1]) for worker in pool]
    if any(exit_codes):
        raise errors.HoldfastError(
            f"{sum(map(bool, exit_codes))} of {workers} processes ended before they were done",
            hint="run the same command again to do the rest",
        )


def _distribute(pool: list[_PoolWorker], numbers: Iterator[int], on_result: OnResult) -> None:
    with selectors.DefaultSelector() as selector:
        for worker in pool:
            selector.register(worker.connection.fileno(), selectors.EVENT_READ, worker.connection)
        while selector.get_map():
            for key, _ in selector.select():
                connection: _JsonSocket = key.data
                message = connection.receive()
                if message is None:
                    selector.unregister(key.fd)
                    continue
                if "error" in message:
                    raise errors.HoldfastError.from_json(message["error"], message["exit_status"])
                if "job" in message:
                    on_result(message["job"], message["result"])
                with suppress(ConnectionError):  # the worker died; waitpid reports how
                    connection.send(next(numbers, None))


def _start_worker(work: Work, others: list[_PoolWorker]) -> _PoolWorker:
    parent_end, worker_end = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        parent_end.close()
        for other in others:  # if this copy stays open, the others do not notice that the parent died
            other.connection.close()
        _run_worker(work, _JsonSocket(worker_end))
    worker_end.close()
    return _PoolWorker(pid, _JsonSocket(parent_end))


def _run_worker(work: Work, connection: _JsonSocket) -> None:
    """Never returns."""
    status = 1
    try:
        work(_receive_jobs(connection), lambda job, result: connection.send({"job": job, "result": result}))
        status = 0
    except errors.HoldfastError as problem:
        with suppress(ConnectionError):
            connection.send({"error": problem.as_json(), "exit_status": problem.exit_status})
    except (KeyboardInterrupt, ConnectionError):
        pass  # the parent was interrupted as well, or is gone
    finally:
        if sys.exc_info()[0] is not None:
            os.write(2, traceback.format_exc().encode(errors="replace"))
        os._exit(status)


def _receive_jobs(connection: _JsonSocket) -> Iterator[int]:
    """The jobs of one worker: it requests the first one, and each result brings the next one."""
    connection.send({})
    while (number := connection.receive()) is not None:
        yield number
