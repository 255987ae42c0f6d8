"""The processes of one task: its agent, what that started, and what of it still runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast import durable_io
from holdfast.errors import IllegalChange
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.process import identity, kill, table
from holdfast.process.identity import Ident
from holdfast.process.table import Process
from holdfast.resume import environment
from holdfast.spool.task_dir import RELAY, Spool
from holdfast.store.store import Store


class ProcessTable(NamedTuple):
    """The processes of this machine at one moment, and the task that each marked one belongs to."""

    table: dict[int, Process]
    marks: dict[int, str]


class ProcessTableCache:
    """One look at a time."""

    def __init__(self) -> None:
        self._sight = ProcessTable({}, {})
        self._begun = -1e9
        self._lock = asyncio.Lock()

    async def look(self, since: float | None = None) -> ProcessTable:
        """What was seen at `since` (monotonic) or later; by default from now on."""
        wanted = time.monotonic() if since is None else since
        async with self._lock:
            if self._begun < wanted:  # nobody has looked while we waited
                begun = time.monotonic()
                self._sight = await asyncio.to_thread(_read_table)
                self._begun = begun
        return self._sight


def _read_table() -> ProcessTable:
    processes = table.table()
    return ProcessTable(processes, table.marks(processes))


# --- The processes of one task: its agent, what that started, and what of it still runs.

TERM_S = 2.0  # from SIGTERM to SIGKILL
FRESH_S = 1.0  # how old a look may be that only remembers what was started


class TaskProcesses:
    """All that one agent is and has started."""

    def __init__(
        self, spool: Spool, watchman: ProcessTableCache, task: str, child: subprocess.Popen[bytes] | None
    ):
        self._spool = spool
        self._watchman = watchman
        self._task = task
        self._child = child  # the shim, where this process started it
        self._path = os.path.join(spool.path, "offspring")
        self._known: set[Process] = self._remembered()
        self._agent: Ident | None = None  # as it was last seen alive

    def agent(self) -> Ident | None:
        """The agent's process, if it lives."""
        found = _living(self._spool.agent())
        self._agent = found or self._agent
        return found

    async def is_gone(self) -> bool:
        """Whether the agent has ended, or is truly not there any more."""
        if self._child is not None:
            self._child.poll()  # or it would stay a zombie
        if self._spool.exit_status() is not None:
            return True
        if self._child is not None and self._child.returncode is None:
            return False
        if _living(self._spool.shim()) is not None or self.agent() is not None:
            return False
        if self._spool.exit_status() is not None:  # written between the two looks
            return True
        if not self._spool.launch():  # without its boot a pid tells nothing
            return not await self.survivors()
        if self._spool.prevent_agent() or self._spool.agent() is not None:
            return self.agent() is None
        return not await self.survivors()  # it was killed while it wrote down who it is

    async def lives(self) -> bool:
        """Whether the agent runs, told without its folder: by who it was, or by the mark that it carries."""
        if self._agent is not None:
            return _living(self._agent) is not None
        return bool(await self.survivors())

    async def note(self) -> None:
        """Remember what the agent has started, while it can still be seen whose it is."""
        agent = self.agent()
        if agent is not None:
            sight = await self._watchman.look(time.monotonic() - FRESH_S)
            self._remember(table.descendants(sight.table, agent.pid))

    async def end_input(self) -> None:
        """End the agent's stdin without its folder: relay and keeper carry the mark too."""
        sight = await self._watchman.look()
        ours = [sight.table[pid] for pid, mark in sight.marks.items() if mark == self._task]
        relays = [process for process in ours if process.command.endswith(RELAY)]
        pids = {process.pid for process in relays}
        for process in sorted(relays, key=lambda one: one.ppid in pids):  # the keeper before its relay
            kill.ask(process, signal.SIGKILL)

    async def survivors(self) -> list[Process]:
        """What runs now of the task, besides the shim and the relay."""
        return self._belonging(await self._watchman.look())

    async def end(self) -> list[Process]:
        """End all of it, the agent and what it started; those that could not be ended."""
        await self.note()  # before it scatters
        sight = await self._watchman.look()
        return await kill.end(self._belonging(sight), TERM_S, look=self._look)

    async def end_agent(self) -> None:
        """End the agent alone; what it left running on purpose goes on."""
        agent = self.agent()
        sight = await self._watchman.look()
        if agent is not None and agent.pid in sight.table:
            await kill.end([sight.table[agent.pid]], TERM_S, look=list)

    def interrupt(self) -> bool:
        """Ask the agent to stop as a terminal does; False if it is not there, or not yet."""
        agent = self.agent()
        return agent is not None and kill.ask(agent, signal.SIGINT)

    def _look(self) -> list[Process]:
        processes = table.table()
        return self._belonging(ProcessTable(processes, table.marks(processes)))

    def _belonging(self, sight: ProcessTable) -> list[Process]:
        shim, agent = self._spool.shim(), self._spool.agent()
        relays = (self._spool.relay_keeper(), self._spool.relay())
        ours = {ident.pid for ident in (shim, *relays) if ident is not None}
        ours |= {p.pid for p in sight.table.values() if p.ppid in ours and p.command.endswith(RELAY)}
        if shim is not None:  # its helpers, such as the `mv` that tells of the end
            alone = None if agent is None else agent.pid
            ours |= {p.pid for p in sight.table.values() if p.ppid == shim.pid and p.pid != alone}
        return table.belonging(sight.table, sight.marks, self._task, self._known, {*ours, os.getpid()})

    def _remembered(self) -> set[Process]:
        if self._spool.launch().get("boot") != identity.boot_id():
            return set()  # whatever has their pids now is something else
        try:
            with open(self._path, encoding="utf-8") as file:
                return {Process(*row) for row in json.load(file)}
        except (FileNotFoundError, ValueError, TypeError):
            return set()  # none seen yet, or torn by a crash: their marks are still there

    def _remember(self, seen: Iterable[Process]) -> None:
        new = set(seen) - self._known
        if new:
            self._known |= new
            temporary = durable_io.temp_name(self._path)
            with suppress(OSError):  # a full disk, a folder that is gone: their marks are still there
                with open(temporary, "w", encoding="utf-8") as file:
                    json.dump(sorted(self._known), file)
                os.replace(temporary, self._path)


def shown(processes: Iterable[Process]) -> list[dict[str, Any]]:
    """Processes as an outcome names them."""
    return [{"pid": p.pid, "command": p.command} for p in sorted(processes)]


def _living(found: Ident | None) -> Ident | None:
    return found if found is not None and identity.is_alive(*found) else None


# --- Ending what a dead run has left running, for somebody who cancels a task that has ended already.

CODE = "leftovers_ended"


async def end_leftovers(store: Store, task: Task, by: str) -> list[Process]:
    """End the processes that carry a dead task's mark, and note who asked; those that were ended.

    IllegalChange if nothing of it runs here. What a task that succeeded has left running is meant to run.
    """
    found = await asyncio.to_thread(_look, task.id) if task.status in environment.DEAD else []
    if not found:
        raise IllegalChange(f"task {task.id} is {task.status} already")
    stayed = await kill.end(found, TERM_S, look=lambda: _look(task.id))
    ended = [process for process in found if process not in stayed]
    named = ", ".join(environment.LiveProcess(process.pid, process.command).shown() for process in ended[:5])
    text = f"{by} ended the leftover processes of the task: {named}" + (" …" if len(ended) > 5 else "")
    body = {"text": text, "code": CODE, "by": by, "ended": shown(ended), "stayed": shown(stayed)}
    await store.commit(Commit(task.session, [NewEvent("notice", body)], task=task.id))
    return ended


def _look(task: str) -> list[Process]:
    return table.survivors(task, ())
