"""What the two stores of the SDK have in common: an agent, its runs, their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from holdfast.drive import line as lines
from holdfast.history.cursor import moment
from holdfast.history.cursor.graph import Graph
from holdfast.history.cursor.prompts import Blobs
from holdfast.history.cursor.runs import TERMINAL, Message, Run, run_stories
from holdfast.history.reader import Problem
from holdfast.model.event import NewEvent

Item = NewEvent | Problem
_MOST_TURNS = 1 << 53


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's row; never its metadata, which holds a key."""

    id: str
    cwd: str | None = None
    name: str | None = None
    status: str = ""  # in capitals
    active_run: str | None = None
    root: str | None = None  # the blob of its latest checkpoint
    updated: str | None = None
    has_row: bool = True


class Store(Protocol):
    """An open store of the SDK."""

    def agents(self) -> Iterator[Agent]:
        """All agents, also those of which only a run is left."""
        ...

    def runs(self, agent: str) -> list[Run]:
        """Its runs in the order of their turns."""
        ...

    def log(self, run: Run) -> Iterator[Message]:
        """A run's log in the order of its numbers."""
        ...

    def rest(self, agent: str) -> Iterator[Item]:
        """What else there is of an agent: what no run owns, and what is damaged."""
        ...

    def blobs(self, agent: str) -> AbstractContextManager[Blobs]:
        """Its checkpoints."""
        ...


def story(store: Store, agent: Agent) -> Iterator[Item]:
    """The events of all its runs, what is wrong with them, and what no run owns."""
    runs = store.runs(agent.id)
    asked: dict[str, str] | None = None

    def prompt(run: Run) -> str | None:
        nonlocal asked
        if asked is None:
            with store.blobs(agent.id) as blob:
                asked = Graph(agent.id, agent.root, blob).asked() if agent.root else {}
        return asked.get(run.request or "")

    yield from run_stories(agent.id, ((run, store.log(run)) for run in runs), prompt)
    yield from store.rest(agent.id)


def about(store: Store, agent: Agent) -> Iterator[Problem]:
    """What is wrong with the agent's row and its checkpoint."""
    if not agent.has_row:
        yield Problem(
            "bad_header", "the agent's own row is gone; only its runs are left", {"agent": agent.id}
        )
    runs = {run.id: run for run in store.runs(agent.id)}
    if agent.active_run is not None:
        active = runs.get(agent.active_run)
        if active is None or active.status in TERMINAL:
            text = "the agent's row names a run as under way that is not"
            yield Problem("row_stale", text, {"run": agent.active_run})
    if agent.root is not None:
        with store.blobs(agent.id) as blob:
            for item in Graph(agent.id, agent.root, blob).story():
                if isinstance(item, Problem) and item.code in (
                    "missing_blob",
                    "store_damaged",
                    "parent_cycle",
                ):
                    yield item


def run_of(row: dict[str, Any], names: Callable[[str], str], error: str | None = None) -> Run | None:
    """A run from its row; None if it does not even tell its id."""
    found, turn = lines.plain(row.get(names("run_id"))), row.get(names("turn_number"))
    if found is None:
        return None
    ended = ("endedAt", "finished_at", "cancelled_at", "expired_at", "updatedAt", "updated_at")
    times = (moment.of(row.get(name)) for name in ended)
    return Run(
        id=found,
        turn=turn if type(turn) is int and abs(turn) < _MOST_TURNS else 0,
        status=lines.word(row, "status").upper(),
        request=lines.plain(row.get(names("request_id"))),
        error=error,
        at=next((at for at in times if at is not None), None),
    )


def message_of(seq: int, at: Any, payload: dict[str, Any] | NewEvent) -> Message:
    """An event of a log."""
    return Message(seq=seq, at=moment.of(at), payload=payload)
