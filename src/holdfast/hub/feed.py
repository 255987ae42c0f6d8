"""The one reader of the change feed, from which all streams are fed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from holdfast.hub.frame import Frame
from holdfast.hub.speech import Speech
from holdfast.hub.subscriber import STUCK_S, Subscriber
from holdfast.model.event import Event
from holdfast.store.contract import Changes, Store
from holdfast.work.journal import PASSING

BEAT_S = 15.0
AGAIN_S = 1.0  # before a store that did not answer is asked again

log = logging.getLogger(__name__)


class Feed:
    """Passes on what is committed, by whatever process, to everybody who reads it."""

    def __init__(self, stuck_s: float = STUCK_S) -> None:
        """`stuck_s`: for how long a reader that is too slow may leave untaken why it is closed."""
        self._stuck_s = stuck_s
        self.events = 0  # passed on since the start
        self._of_all: set[Subscriber] = set()
        self._of_session: dict[str, set[Subscriber]] = {}
        self.speech = Speech(self._readers)
        self._ears: list[Callable[[str, Event], None]] = []

    @property
    def subscribers(self) -> int:
        """How many read."""
        return len(self._of_all) + sum(map(len, self._of_session.values()))

    def hear(self, ear: Callable[[str, Event], None]) -> None:
        """Call `ear` with the session and the event of every change."""
        self._ears.append(ear)

    def join(self, session: str | None) -> Subscriber:
        """A new reader of one session or of all; it must `leave`."""
        made = Subscriber(session, self._stuck_s)
        made.listen()
        if session is None:
            self._of_all.add(made)
        else:
            self._of_session.setdefault(session, set()).add(made)
        return made

    def leave(self, subscriber: Subscriber) -> None:
        """The reader is gone."""
        subscriber.leave()
        if subscriber.session is None:
            self._of_all.discard(subscriber)
            return
        others = self._of_session.get(subscriber.session, set())
        others.discard(subscriber)
        if not others:
            self._of_session.pop(subscriber.session, None)

    async def run(self, store: Store, cursor: str) -> None:
        """Follow a store from that cursor on, without end."""
        while True:
            try:
                async for changes in store.follow(cursor):
                    if changes.gap:
                        self.begin_anew("the database is another one")
                    else:
                        self._pass_on(changes)
                    cursor = changes.cursor
            except PASSING as problem:
                log.warning("%s; the streams go on when it is back", problem.message)
                await asyncio.sleep(AGAIN_S)

    async def beat(self) -> None:
        """Signs of life, without end."""
        while True:
            await asyncio.sleep(BEAT_S)
            for subscriber in self._everybody():
                subscriber.put_beat()

    def begin_anew(self, why: str) -> None:
        """The log is another one: everybody reads again from the start, and is told so."""
        for subscriber in self._everybody():
            subscriber.begin_anew(why)

    def close(self, why: str) -> None:
        """End all streams."""
        for subscriber in self._everybody():
            subscriber.close(why)

    def _readers(self, session: str) -> Sequence[Subscriber]:
        return [*self._of_session.get(session, ()), *self._of_all]

    def _pass_on(self, changes: Changes) -> None:
        for change in changes.changes:
            self.events += 1
            for ear in self._ears:
                ear(change.session, change.event)
            of_session = self._of_session.get(change.session)
            if not of_session and not self._of_all:
                continue
            made = Frame(change.session, change.event, change.cursor)
            for subscriber in of_session or ():
                subscriber.put(made)
            for subscriber in self._of_all:
                subscriber.put(made)
            if change.event.task is not None:
                self.speech.tell(change.event.task)  # an event ends what was told before it

    def _everybody(self) -> Iterable[Subscriber]:
        return [*self._of_all, *(one for some in self._of_session.values() for one in some)]
