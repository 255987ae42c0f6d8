"""A worker that dies at the n-th step of its work, before or after what it does to store, spool or agent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from holdfast import durable_io
from holdfast.home import Home
from holdfast.process import kill as ending
from holdfast.runner import processes, service, task_run, worker
from holdfast.spool import archive, task_dir
from holdfast.spool.outbox import Outbox
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store
from tests.crash import children, run_support

ASYNC: list[tuple[Any, str]] = [(Store, "commit"), (Store, "claim"), (Store, "set_status")]
PLAIN: list[tuple[Any, str]] = [
    (Spool, "make"),
    (Spool, "start"),
    (Spool, "prevent"),
    (Spool, "prevent_agent"),
    (Spool, "prevent_relay"),
    (Outbox, "send"),
    (task_run, "close_input"),
    (task_dir, "retire"),
    (task_dir, "discard"),
    (archive, "compress"),
    (ending, "ask"),
    (processes.TaskProcesses, "interrupt"),
    (durable_io, "create"),
]


def dying(home: Home, step: int) -> children.Child:
    """A worker that kills itself at that step; it says `done` if it came to its end before."""

    def work(say: Callable[[str], None]) -> None:
        quick()
        count = 0

        def tick() -> None:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

        for owner, name in ASYNC:
            setattr(owner, name, _stepping(getattr(owner, name), tick))
        for owner, name in PLAIN:
            setattr(owner, name, _stepped(getattr(owner, name), tick))
        env = run_support.environment(home)
        location = run_support.location(home)
        asyncio.run(service.work(home, location, env, None, "test", lambda _: None))
        say("done")

    return children.start(work)


def quick() -> None:
    """Nothing is waited for longer than a test can."""
    vars(worker).update(LEFT_S=-1.0, REST_S=0.1)
    vars(task_run).update(LOOK_S=0.05)


def _stepped(call: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*given: Any, **named: Any) -> Any:
        tick()
        answer = call(*given, **named)
        tick()
        return answer

    return stepped


def _stepping(call: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    async def stepping(*given: Any, **named: Any) -> Any:
        tick()
        answer = await call(*given, **named)
        tick()
        return answer

    return stepping
