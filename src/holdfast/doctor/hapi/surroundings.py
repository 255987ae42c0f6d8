"""What the rest of an install says about one session: who has which token, and on which host all ran."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from holdfast.doctor.hapi.candidate import CHOICE, Candidate
from holdfast.history.hapi.database import Database
from holdfast.history.hapi.flavor import TOKENS
from holdfast.history.hapi.metadata import Metadata


class Surroundings:
    """One pass over the metadata of all sessions and machines."""

    def __init__(self, db: Database):
        self._holders: dict[tuple[str, str], list[str]] = defaultdict(list)
        hosts = set()
        for row in db.sessions():
            metadata = Metadata(row.metadata)
            hosts.add(metadata.string("host"))
            for key in TOKENS:
                if token := metadata.string(key):
                    self._holders[(key, token)].append(row.id)
        hosts |= {Metadata(text).string("host") for text in db.machines()}
        hosts.discard(None)
        self.host = hosts.pop() if len(hosts) == 1 else None  # where all of them ran, if it is one place

    def told(self, candidate: Candidate, session: str) -> Candidate:
        """The candidate, with the other session that has its token, if there is one.

        hapi makes one row of two with the same token and deletes the other: that is a person's to say.
        """
        if candidate.source == CHOICE:
            return candidate
        for key, value in candidate.keys.items():
            others = [name for name in self._holders.get((key, value), []) if name != session]
            if key in TOKENS and others:
                return replace(candidate, held_by=others[0])
        return candidate
