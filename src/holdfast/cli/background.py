"""A background worker: it continues when the command that started it ends."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.node import Node
    from holdfast.store.location import Location

CHECK_S = 2.0  # how often a follower checks that a worker drives its task


def start(home: Home, location: Location, wish: dict[str, Any] | None, by: str) -> dict[str, Any]:
    """Fork a worker into its own session; its reply once it has queued the request."""
    from holdfast.durable_io import make_folder

    make_folder(home.path)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        if os.fork() == 0:  # twice, so that it is never our zombie
            _run_worker(home, location, wish, by, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        reply = pipe.read()
    if not reply:
        raise HoldfastError("the worker ended before it started the task", hint=f"see {_log(home)}")
    answer: dict[str, Any] = json.loads(reply)
    _print_finished(answer)
    if "error" in answer:
        raise HoldfastError.from_json(answer["error"], answer["exit_status"])
    return answer


def _print_finished(answer: dict[str, Any]) -> None:
    """Print which tasks ended while no worker ran, also if the request failed."""
    from holdfast.cli import output

    for one in answer.get("settled", []):
        output.note(output.finished_line(**one))


def ensure_worker(home: Home, location: Location, by: str) -> None:
    """Start a worker if a task of this node runs or waits and no process drives it."""
    from holdfast import node as nodes
    from holdfast.store import reads
    from holdfast.store.readonly import ask

    node = nodes.read(home, private=location.kind == "sqlite")
    if any(_has_no_driver(turn, node, home) for turn in ask(home, location, reads.turns)):
        start(home, location, None, by)


class WorkerWatchdog:
    """Restarts the worker of a followed task if it died; checks now and then."""

    def __init__(self, home: Home, location: Location, by: str):
        self._arguments = home, location, by
        self._next = time.monotonic() + CHECK_S

    def check(self) -> None:
        """Check, if the last check was some time ago."""
        if time.monotonic() >= self._next:
            ensure_worker(*self._arguments)
            self._next = time.monotonic() + CHECK_S


def _has_no_driver(turn: dict[str, Any], node: Node, home: Home) -> bool:
    """Whether a task of this node waits or runs and no living process drives it."""
    from holdfast.process.identity import is_alive

    pending = turn["status"] in ("queued", "waiting")
    owner = turn["options"].get("worker") if pending else turn["owner"]
    if pending and not node.owns(turn["host"]):
        return False
    if not isinstance(owner, dict):
        return node.owns(turn["host"])
    if owner["host"] in node.copy_of:
        return node.private
    has_spool = os.path.isdir(home.task(turn["task"]))
    if not node.runs_here(owner["host"], has_spool=has_spool):
        return False
    return not is_alive(owner["pid"], owner["started"], owner["boot"])


def _log(home: Home) -> str:
    return os.path.join(home.path, "worker.log")


def _run_worker(home: Home, location: Location, wish: dict[str, Any] | None, by: str, writer: int) -> None:
    """Never returns."""
    status = 1
    try:
        _redirect_output(home)
        _work(home, location, wish, by, writer)
        status = 0
    except HoldfastError as problem:
        _write_log(f"worker {os.getpid()}: {problem.message}")
    finally:
        if sys.exc_info()[0] is not None:
            import traceback

            _write_log(traceback.format_exc())
        os._exit(status)


def _redirect_output(home: Home) -> None:
    """Detach from the terminal; output goes to the log if it is writable, else nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        log = os.open(_log(home), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:  # no home yet, or not writable: the reply reports that
        log = null
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)


def _write_log(text: str) -> None:
    with contextlib.suppress(OSError):  # the disk may be full
        os.write(2, text.rstrip().encode(errors="replace") + b"\n")


def _work(home: Home, location: Location, wish: dict[str, Any] | None, by: str, writer: int) -> None:
    import asyncio
    import logging

    import msgspec

    from holdfast.runner.requests import PromptRequest, RedispatchRequest
    from holdfast.runner.service import work

    shape = f"%(asctime)s {os.getpid()} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=shape)
    replied = False

    def reply(answer: dict[str, Any]) -> None:
        nonlocal replied
        if not replied:
            replied = True
            with contextlib.suppress(BrokenPipeError):  # the command is gone; the task is still queued
                os.write(writer, json.dumps(answer).encode())
            os.close(writer)

    wanted = None if wish is None else msgspec.convert(wish, PromptRequest | RedispatchRequest)
    asyncio.run(work(home, location, dict(os.environ), wanted, by, reply))
