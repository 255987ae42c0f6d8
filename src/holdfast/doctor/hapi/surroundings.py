"""What the rest of an install says about one session: who has which token, and on which host all ran."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

import apsw
from msgspec.structs import replace

from holdfast.doctor.hapi.candidate import CHOICE, Candidate
from holdfast.history.hapi.database import Database
from holdfast.history.hapi.flavor import TOKENS
from holdfast.history.hapi.metadata import Metadata


class Surroundings:
    """One pass over the metadata of all sessions and machines."""

    def __init__(self, db: Database):
        self._holders: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._hosts: set[str] = set()
        with suppress(apsw.Error):  # of a damaged file what can be read; whoever reads on tells of it
            for row in db.sessions():
                self._take(row.id, Metadata(row.metadata))
            for text in db.machines():
                self._take_host(Metadata(text))

    @property
    def host(self) -> str | None:
        """Where all of the install ran, if that is one place."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else None

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

    def _take(self, session: str, metadata: Metadata) -> None:
        self._take_host(metadata)
        for key in TOKENS:
            if token := metadata.string(key):
                self._holders[(key, token)].append(session)

    def _take_host(self, metadata: Metadata) -> None:
        if host := metadata.string("host"):
            self._hosts.add(host)
