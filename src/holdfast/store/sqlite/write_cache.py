"""What the writer remembers between transactions: sessions as it left them, and their origins.

Both are right only while nobody else writes; the file's data version tells.

A unique index on the origins would do the same, but native record ids are random: at 100,000 events
in a session such an index dirties a page for every event and doubles the cost of an append
(measured: 1.7 to 2.1 times; without it 1.0). The writer holds the file's one write lock when it
asks, so what it remembers up to a record, plus what the log has after it, is all there is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import apsw

from holdfast.model.commit import Draft
from holdfast.store.rows import Loaded
from holdfast.store.sqlite.sql import STATEMENTS

SESSIONS = 256
REMEMBERED = 300_000  # origins over all sessions; the session used longest ago is forgotten first


class WriteCache:
    """The sessions that were written to lately."""

    def __init__(self, limit: int = REMEMBERED):
        self.loaded: dict[str, Loaded] = {}
        self.place: int | None = None  # the last one in the log of all sessions
        self._version: int | None = None
        self._limit = limit
        self._size = 0
        self._sessions: OrderedDict[int, tuple[int, set[str]]] = OrderedDict()

    def known(self, db: apsw.Connection, n: int, head: int, asked: set[str]) -> set[str]:
        """Those of `asked` that are among the session's records up to `head`, the last one."""
        through, seen = self._sessions.pop(n, (0, set()))
        self._size -= len(seen)
        if through > head:  # the file under us was replaced or rolled back
            through, seen = 0, set()
        if through < head:
            statement = STATEMENTS["log_origins"]
            values = statement.values({"n": n, "after": through})
            seen.update(origin for (origin,) in db.execute(statement.text, values))
        self._sessions[n] = (head, seen)
        self._size += len(seen)
        while self._size > self._limit and len(self._sessions) > 1:
            _, (_, forgotten) = self._sessions.popitem(last=False)
            self._size -= len(forgotten)
        return asked & seen

    def knows(self, n: int, head: int) -> bool:
        """Whether `known` can answer without asking the file."""
        return n in self._sessions and self._sessions[n][0] == head

    def note(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These were added after record `head`."""
        through, seen = self._sessions.get(n, (-1, set()))
        if through == head:
            before = len(seen)
            seen.update([draft[3] for draft in drafts if draft[3] is not None])
            self._size += len(seen) - before
            self._sessions[n] = (head + len(drafts), seen)

    def begin(self, db: apsw.Connection) -> None:
        """At the start of a transaction: drop what another process may have outdated."""
        if db.data_version() != self._version:
            self.place = None
            self.loaded.clear()
        elif len(self.loaded) > SESSIONS:
            self.loaded.clear()

    def committed(self, db: apsw.Connection) -> None:
        """Our own commit has changed the file; what is remembered already has it."""
        self._version = db.data_version()

    def forget(self) -> None:
        """Clear it; called when a transaction was rolled back."""
        self.loaded.clear()
        self.place = None
        self._sessions.clear()
        self._size = 0
