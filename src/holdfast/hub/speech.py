"""What agents are saying just now: blocks that are not whole, told to whoever reads, not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.hub import frame as frames
from holdfast.hub.subscriber import Subscriber
from holdfast.work.context import Unfinished

LONGEST = 64 * 1024  # letters of a block that are told: its last ones
REST_S = 0.1  # between two tellings of it

Readers = Callable[[str], Sequence[Subscriber]]  # who reads a session


class Speech:
    """Asks the drivers of this hub's tasks; nothing is kept here but whom to ask."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._asked: dict[str, tuple[str, Unfinished]] = {}  # by task: its session, and what it is saying
        self._told: dict[str, bool] = {}  # tasks told of a moment ago: whether more was said since

    def overhear(self, session: str, task: str, unfinished: Unfinished | None) -> None:
        """An agent has said something; None: nobody here listens to it any more."""
        if unfinished is None:
            self._asked.pop(task, None)
            return
        self._asked[task] = (session, unfinished)
        self.tell(task)

    def tell(self, task: str) -> None:
        """Tell all readers of a task what is being said in it."""
        if task in self._told:
            self._told[task] = True
            return
        if task not in self._asked:
            return
        session, unfinished = self._asked[task]
        readers = self._readers(session)
        if not readers or (data := _said(session, task, unfinished)) is None:
            return
        for reader in readers:
            reader.put_partial(task, data)
        self._told[task] = False
        asyncio.get_running_loop().call_later(REST_S, self._rested, task)

    def catch_up(self, reader: Subscriber) -> None:
        """Tell one who came in the middle of it."""
        for task, (session, unfinished) in self._asked.items():
            if reader.session in (None, session) and (data := _said(session, task, unfinished)) is not None:
                reader.put_partial(task, data)

    def _rested(self, task: str) -> None:
        if self._told.pop(task):
            self.tell(task)


def _said(session: str, task: str, unfinished: Unfinished) -> bytes | None:
    told = unfinished()
    return None if told is None else frames.partial(session, task, told[0], told[1][-LONGEST:])
