"""The web UI's folder, listed once: with ten thousand sessions nobody lists it for each of them."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property

from holdfast.history.hermes import sidecar
from holdfast.history.hermes.layout import DELETED, INDEX, RUNS, TURNS, Layout, session_id


class Census(Layout):
    """A layout whose names were read at one moment."""

    @cached_property
    def listed(self) -> list[str]:
        """The names in the folder of sessions."""
        return super().names()

    def names(self) -> list[str]:
        """The same."""
        return self.listed

    @cached_property
    def shards(self) -> dict[str, list[str]]:
        """The turn journals of each session."""
        found: dict[str, list[str]] = defaultdict(list)
        if self.folder is not None:
            folder = os.path.join(self.folder, TURNS)
            for name in _names(folder):
                if name.endswith(".jsonl"):
                    own = name[: -len(".jsonl")].rpartition("~")[0] or name[: -len(".jsonl")]
                    found[own].append(os.path.join(folder, name))
        return dict(found)

    @cached_property
    def with_runs(self) -> frozenset[str]:
        """The sessions that have run journals."""
        return frozenset(_names(os.path.join(self.folder, RUNS)) if self.folder is not None else ())

    def turn_journals(self, native_id: str) -> list[str]:
        """The shards of its turn journal."""
        return self.shards.get(native_id, [])

    def run_journals(self, native_id: str) -> list[str]:
        """Its run journals."""
        return super().run_journals(native_id) if native_id in self.with_runs else []

    @cached_property
    def sidecars(self) -> list[str]:
        """The sessions that have a sidecar, in order."""
        named = (session_id(name) for name in self.listed if name.endswith(".json"))
        return sorted(own for own in named if own is not None)

    @cached_property
    def backups(self) -> frozenset[str]:
        """The sessions that have a backup."""
        named = (session_id(name) for name in self.listed if name.endswith(".bak"))
        return frozenset(own for own in named if own is not None)

    def has_sessions(self) -> bool:
        """Whether there is a folder of sessions, and not just any folder."""
        if self.folder is None or not os.path.isdir(self.folder):
            return False
        own = {INDEX, DELETED, TURNS, RUNS}
        if self.home is not None or os.path.basename(self.folder) == "sessions" or own & {*self.listed}:
            return True
        paths = (self.sidecar(own) for own in (*self.sidecars, *self.backups))
        sides = (sidecar.load(file) for path in paths if path for file in (path, f"{path}.bak"))
        return any(side.usable and isinstance(side.head.get("session_id"), str) for side in sides)

    def has_sidecar(self, native_id: str) -> bool:
        """Whether a session has one."""
        place = bisect_left(self.sidecars, native_id)
        return place < len(self.sidecars) and self.sidecars[place] == native_id

    def others(self) -> set[str]:
        """The sessions that have no sidecar, but a backup or a journal."""
        found = self.backups | {own for own in self.shards if self.sidecar(own) is not None}
        return {own for own in found if not self.has_sidecar(own)}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # none, or not for us
        return []
