"""What the writer caches between transactions: sessions and the origins of their records.

Both are valid only while nobody else writes; the data version of the file shows that.

A unique index on the origins would do the same, but native record ids are random: at 100,000 events
in a session such an index dirties a page for every event and doubles the cost of an append
(measured: 1.7 to 2.1 times; without it 1.0). The writer holds the only write lock of the file when it
asks, so the cached origins up to a record and the later ones in the log are complete.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import apsw

from holdfast.model.commit import Draft
from holdfast.store.rows import Loaded
from holdfast.store.sqlite.sql import STATEMENTS

SESSIONS = 256
CACHED_ORIGINS = 300_000  # over all sessions; the least recently used session is dropped first


class WriteCache:
    """The sessions with recent writes."""

    def __init__(self, limit: int = CACHED_ORIGINS):
        self.loaded: dict[str, Loaded] = {}
        self.last_id: int | None = None  # in the log of all sessions
        self._version: int | None = None
        self._limit = limit
        self._size = 0
        self._sessions: OrderedDict[int, tuple[int, set[str]]] = OrderedDict()

    def known(self, db: apsw.Connection, n: int, head: int, asked: set[str]) -> set[str]:
        """Those of `asked` that the records of the session up to `head`, the last one, have."""
        through, origins = self._sessions.pop(n, (0, set()))
        self._size -= len(origins)
        if through > head:  # the file was replaced or rolled back
            through, origins = 0, set()
        if through < head:
            statement = STATEMENTS["log_origins"]
            values = statement.values({"n": n, "after": through})
            origins.update(origin for (origin,) in db.execute(statement.text, values))
        self._sessions[n] = (head, origins)
        self._size += len(origins)
        while self._size > self._limit and len(self._sessions) > 1:
            _, (_, dropped) = self._sessions.popitem(last=False)
            self._size -= len(dropped)
        return asked & origins

    def knows(self, n: int, head: int) -> bool:
        """Whether `known` can answer without reading the file."""
        return n in self._sessions and self._sessions[n][0] == head

    def note(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These drafts were added after record `head`."""
        through, origins = self._sessions.get(n, (-1, set()))
        if through == head:
            before = len(origins)
            origins.update([draft[3] for draft in drafts if draft[3] is not None])
            self._size += len(origins) - before
            self._sessions[n] = (head + len(drafts), origins)

    def begin(self, db: apsw.Connection) -> None:
        """At the start of a transaction, drop what another process may have changed."""
        if db.data_version() != self._version:
            self.last_id = None
            self.loaded.clear()
        elif len(self.loaded) > SESSIONS:
            self.loaded.clear()

    def committed(self, db: apsw.Connection) -> None:
        """Our own commit has changed the file; the cache already has it."""
        self._version = db.data_version()

    def forget(self) -> None:
        """Clear the cache after a rollback."""
        self.loaded.clear()
        self.last_id = None
        self._sessions.clear()
        self._size = 0
