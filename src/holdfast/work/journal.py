"""From a task's stdout to the log, each line once: events and offset in one commit, then what is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain, repeat

import msgspec

from holdfast import clock, errors
from holdfast.drive.driver import Driver, Out
from holdfast.model.change import Change, Deliver
from holdfast.model.commit import Commit, Entry, prepare
from holdfast.model.event import Event, NewEvent
from holdfast.model.task import ACTIVE, ENDED, Task
from holdfast.spool.outbox import Outbox
from holdfast.spool.tail import Line
from holdfast.store.contract import Store
from holdfast.work import links

log = logging.getLogger(__name__)

RETRY_S = (0.1, 0.5, 2.0)  # between tries of a store that does not take a commit just now
MANY = 1000  # entries of one commit; an agent may print a million lines that are not JSON

# The store will take it later; until then the spool keeps everything.
PASSING = (errors.DiskFull, errors.StoreBusy, errors.StoreUnreachable, errors.StoreReadOnly)


class Journal:
    """One task's way into the log."""

    def __init__(
        self, store: Store, task: Task, driver: Driver, outbox: Outbox | None, past: Sequence[Event]
    ):
        """`past`: the tool_progress records of this task that are in the log."""
        self.task = task
        self.driver = driver
        self.links: list[str] = []
        self.listens = outbox is not None  # whether the agent can be told anything
        self.kept = False  # whether a line was too long for the log and must be kept in the spool
        self._store = store
        self._outbox = outbox
        self._known = task.spool  # entries of lines up to here are in the log
        self._offset = self._committed = task.spool
        self._accepted = task.delivery == "accepted"
        self._started = {str(event.body["call"]): event.at for event in past}

    def open(self) -> None:
        """Send what comes before anything is heard; after a restart, what of it was not sent yet."""
        self._send(self.driver.open().sends)

    async def hear(self, lines: Sequence[Line], at: str) -> None:
        """Take lines, commit what they bring with the new offset, then send what follows from them."""
        entries: list[Entry] = []
        sends: list[bytes] = []
        for line in lines:
            out = self._heard(line)
            sends += out.sends
            known = line.end <= self._known
            for entry in out.entries:
                dressed = self._dressed(entry, at, known)
                if not known:
                    entries += dressed
            self._offset = max(self._offset, line.end)
            if self.driver.accepted and not self._accepted:
                entries.append(Deliver(delivery="accepted"))
                self._accepted = True
            if len(entries) >= MANY:
                await self._put(entries, sends)
                entries, sends = [], []
        await self._put(entries, sends)

    async def put(self, out: Out) -> None:
        """Commit and send what follows from something other than a line."""
        entries = [dressed for entry in out.entries for dressed in self._dressed(entry, clock.now(), False)]
        await self._put(entries, out.sends)

    async def fence(self) -> None:
        """Asked before the agent is touched without a commit: StaleGeneration if it is another's by now."""
        stored = await self._store.task(self.task.id)
        if stored.generation != self.task.generation or stored.status not in ACTIVE:
            raise errors.StaleGeneration(f"task {stored.id} is {stored.status} in {stored.generation}")

    def rest(self) -> list[Entry]:
        """What follows from the end of stdout."""
        out = self.driver.close()
        return [dressed for entry in out.entries for dressed in self._dressed(entry, clock.now(), False)]

    async def commit(self, entries: Sequence[Entry], *, last: bool = False) -> None:
        """Commit with the offset; waits while the store cannot take it, since the spool holds it all.

        `last`: without the offset, since the task goes on with another spool or none.
        """
        task, offset = self.task, None if last else self._offset
        commit = Commit(task.session, entries, task=task.id, generation=task.generation, spool=offset)
        for pause in chain(RETRY_S, repeat(RETRY_S[-1])):
            try:
                await self._store.commit(commit)
                break
            except errors.BadInput as problem:
                storable = [_storable(entry, task.session) for entry in commit.entries]
                if storable == list(commit.entries):
                    raise
                log.warning("task %s: %s", task.id, problem.message)
                commit = msgspec.structs.replace(commit, entries=storable)
            except PASSING as problem:
                log.warning("task %s: %s; its spool keeps what follows", task.id, problem.message)
                if isinstance(problem, errors.CommitUnknown) and await self._is_in(last):
                    break
                await asyncio.sleep(pause)
        self._committed = self._offset

    async def _is_in(self, last: bool) -> bool:
        """Whether a commit of unknown fate happened: nearly all of ours move the offset or end the task."""
        stored = await self._store.task(self.task.id)
        return stored.status in ENDED or (not last and stored.spool >= self._offset > self._committed)

    def _heard(self, line: Line) -> Out:
        if line.data is not None:
            return self.driver.hear(line.data)
        self.kept = True
        body = {
            "text": line.head.decode("utf-8", "replace"),
            "code": line.problem,
            "bytes": line.end - line.start,
            "offset": line.start,  # where it is in the spool, which is kept for it
        }
        return Out(entries=[NewEvent("notice", body)])

    def _dressed(self, entry: NewEvent | Change, at: str, known: bool) -> list[Entry]:
        """An entry with its time, a tool's duration, and a note of each pull request it shows."""
        if not isinstance(entry, NewEvent):
            return [entry]
        event = entry if entry.at is not None else msgspec.structs.replace(entry, at=at)
        assert event.at is not None
        if event.kind == "tool_progress" and not known:
            self._started[str(event.body["call"])] = event.at
        if event.kind == "tool_summary" and "duration_ms" not in event.body:
            begun = self._started.get(str(event.body["call"]))
            if begun is not None:
                took = max(0, round((clock.parse(event.at) - clock.parse(begun)) * 1000))
                event = msgspec.structs.replace(event, body={**event.body, "duration_ms": took})
        new = [link for link in links.found(event) if link.url not in self.links]
        self.links += [link.url for link in new]
        return [
            event,
            *[
                NewEvent(
                    "notice", {"text": link.url, "code": "pull_request", **msgspec.to_builtins(link)}, at
                )
                for link in new
            ],
        ]

    async def _put(self, entries: list[Entry], sends: list[bytes]) -> None:
        if entries:
            await self.commit(entries)
        elif sends:
            await self.fence()
        self._send(sends)

    def _send(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if self._outbox is not None:
                self._outbox.send(line)


def _storable(entry: Entry, session: str) -> Entry:
    """The entry, or where the log cannot take it a notice of what it was."""
    try:
        prepare(Commit(session, [entry]), clock.now())
    except errors.BadInput as problem:
        if not isinstance(entry, NewEvent):
            raise
        text = f"a {entry.kind} event that the log cannot take: {problem.message}"
        return NewEvent("notice", {"text": text, "code": "unstorable"}, entry.at)
    return entry
