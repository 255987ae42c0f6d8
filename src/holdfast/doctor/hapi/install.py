"""One hapi install: looked at as a whole, and the plan to mend it."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from holdfast.doctor import holders
from holdfast.doctor.finding import Diagnosis, Progress
from holdfast.doctor.hapi.looking import Looking
from holdfast.doctor.hapi.native import NativeStores
from holdfast.history.hapi import database


class HapiInstall:
    """A hapi home, or only its database."""

    target = "hapi"

    def __init__(self, path: str, env: Mapping[str, str], chosen: Mapping[str, str] | None = None):
        self.path = database.place_of(path)
        self._env = env
        self._chosen = chosen or {}  # session: the token that a person chose

    def running(self) -> list[str]:
        """Who has the database open: that is the hub."""
        return holders.database_open_in(self.path)

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All sessions, from one consistent state; one that cannot be read does not stop the rest."""
        looking = Looking(self.path, NativeStores(self._env), self._chosen, progress)
        try:
            with database.opened(self.path) as db:
                looking.at(db)
        except (apsw.Error, OSError, UnicodeDecodeError) as problem:
            said = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            looking.tell(
                "database_unreadable", f"it cannot be read, or not to its end: {' '.join(said.split())}"
            )
        return looking.diagnosis()
