"""A worker in the background: it goes on when the command that started it is gone."""

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

SEE_S = 2.0  # between looks of a follower whether somebody drives what he follows


def start(home: Home, location: Location, wish: dict[str, Any] | None, by: str) -> dict[str, Any]:
    """Fork a worker into a session of its own; what it says once it has queued the wish."""
    from holdfast.durable_io import make_folder

    make_folder(home.path)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        if os.fork() == 0:  # twice, so that it is nobody's child and never a zombie of ours
            _be_worker(home, location, wish, by, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    if not said:
        raise HoldfastError("the worker ended before it began", hint=f"see {_log(home)}")
    answer: dict[str, Any] = json.loads(said)
    _tell_settled(answer)
    if "error" in answer:
        raise HoldfastError.told(answer["error"], answer["exit_status"])
    return answer


def _tell_settled(answer: dict[str, Any]) -> None:
    """Say which tasks have ended while nobody watched, whatever became of the wish."""
    from holdfast.cli import output

    for one in answer.get("settled", []):
        output.note(output.settled(**one))


def see_to_it(home: Home, location: Location, by: str) -> None:
    """Start a worker if something here runs or waits and nobody drives it."""
    from holdfast import node as nodes
    from holdfast.store import reads
    from holdfast.store.readonly import ask

    node = nodes.read(home, private=location.kind == "sqlite")
    if any(_has_no_driver(turn, node, home) for turn in ask(home, location, reads.turns)):
        start(home, location, None, by)


class Attention:
    """Who follows a task wants it to go on: sees to it now and then."""

    def __init__(self, home: Home, location: Location, by: str):
        self._place = home, location, by
        self._next = time.monotonic() + SEE_S

    def pay(self) -> None:
        """See to it, if that was some time ago."""
        if time.monotonic() >= self._next:
            see_to_it(*self._place)
            self._next = time.monotonic() + SEE_S


def _has_no_driver(turn: dict[str, Any], node: Node, home: Home) -> bool:
    """Whether a task of this node waits or runs and no living process sees to it."""
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


def _be_worker(home: Home, location: Location, wish: dict[str, Any] | None, by: str, writer: int) -> None:
    """Never returns."""
    status = 1
    try:
        _quietly(home)
        _work(home, location, wish, by, writer)
        status = 0
    except HoldfastError as problem:
        _say(f"worker {os.getpid()}: {problem.message}")
    finally:
        if sys.exc_info()[0] is not None:
            import traceback

            _say(traceback.format_exc())
        os._exit(status)


def _quietly(home: Home) -> None:
    """Away from the terminal; what is said goes into the log if that can be written, else nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        log = os.open(_log(home), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:  # there is no home yet, or it cannot be written: the reply tells that
        log = null
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the disk may be full
        os.write(2, text.rstrip().encode(errors="replace") + b"\n")


def _work(home: Home, location: Location, wish: dict[str, Any] | None, by: str, writer: int) -> None:
    import asyncio
    import logging

    import msgspec

    from holdfast.runner.dispatch import PromptRequest, RedispatchRequest
    from holdfast.runner.service import work

    shape = f"%(asctime)s {os.getpid()} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=shape)
    told = False

    def reply(answer: dict[str, Any]) -> None:
        nonlocal told
        if not told:
            told = True
            with contextlib.suppress(BrokenPipeError):  # the command is gone; the task is queued all the same
                os.write(writer, json.dumps(answer).encode())
            os.close(writer)

    wanted = None if wish is None else msgspec.convert(wish, PromptRequest | RedispatchRequest)
    asyncio.run(work(home, location, dict(os.environ), wanted, by, reply))
