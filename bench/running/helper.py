"""Processes that do something beside us when a line of JSON says so, and tell what they have spent."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

Deeds = Mapping[str, Callable[..., Awaitable[Any]]]


class Spent(NamedTuple):
    """What a process has used so far."""

    cpu: float  # seconds; also of those that it has waited for
    rss: float  # bytes at the most; its own


class Helper:
    """One such process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    async def do(self, deed: str, **given: Any) -> Any:
        """Have one thing done; its result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([deed, given]).encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the helper ended instead of an answer to {deed}")
        return json.loads(answer)

    async def spent(self) -> Spent:
        """What it and the processes that it has seen end have used."""
        return Spent(*await self.do("spent"))


@asynccontextmanager
async def helper(module: str, *words: str, env: Mapping[str, str]) -> AsyncIterator[Helper]:
    """`python -m bench.running.MODULE WORD …` until it is not needed any more."""
    process = await asyncio.create_subprocess_exec(
        *command(module, *words),
        env={**env, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield Helper(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def command(module: str, *words: str) -> list[str]:
    """The command line of a module beside this one."""
    return [sys.executable, "-m", f"bench.running.{module}", *words]


async def serve(deeds: Deeds) -> None:
    """Be such a process until stdin ends."""
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        deed, given = json.loads(line)
        result = _spent() if deed == "spent" else await deeds[deed](**given)
        os.write(1, json.dumps(result).encode() + b"\n")


def _spent() -> Spent:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # what a child used is told only when it was waited for
            pass
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Spent(sum(u.ru_utime + u.ru_stime for u in used), _peak())


def _peak() -> float:
    """Not `ru_maxrss`: a process that was forked off a larger one has that one's."""
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
