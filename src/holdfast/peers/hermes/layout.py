"""Where Hermes stores what: a home with its databases, and the web UI's folder of sessions."""

from __future__ import annotations

import os
import re

DATABASE = "state.db"
INDEX = "_index.json"
DELETED = "_deleted_webui_sessions.json"
TURNS, RUNS = "_turn_journal", "_run_journal"

_ID = re.compile(r"[0-9A-Za-z_-]{1,200}")
_JOURNALED = re.compile(r"[0-9A-Za-z_.-]{1,200}")
_LITTER = re.compile(r".*\.tmp(\.[0-9A-Za-z_.]+)?")


class HermesLayout:
    """The files below one root: a home, the web UI's state folder, its sessions folder, or a database."""

    def __init__(self, root: str):
        """`root` may be any of these; a path that it does not imply is None."""
        root = os.path.abspath(root)
        self.home: str | None = None
        self.folder: str | None = None
        self._database: str | None = None
        if os.path.isfile(root):
            self._database = root
            if os.path.basename(root) == DATABASE:
                self.home = _home_of(root)
        elif _is_home(root):
            self.home = root
        elif os.path.isdir(os.path.join(root, "sessions")):
            self.folder, self.home = os.path.join(root, "sessions"), _above(root, "webui")
        else:
            self.folder = root
            self.home = (
                _above(os.path.dirname(root), "webui") if os.path.basename(root) == "sessions" else None
            )
        if self.home is not None and self.folder is None:
            self.folder = os.path.join(self.home, "webui", "sessions")

    @classmethod
    def around(cls, path: str) -> HermesLayout:
        """The layout that contains a session's file or database."""
        name = os.path.basename(path)
        return cls(os.path.dirname(path) if session_id(name) is not None else path)

    def databases(self) -> list[str]:
        """The databases that may have a session: the home's own, then those of its profiles."""
        if self._database is not None and self.home is None:
            return [self._database]
        if self.home is None:
            return []
        paths = [os.path.join(self.home, DATABASE)]
        profiles = os.path.join(self.home, "profiles")
        paths += [os.path.join(profiles, name, DATABASE) for name in _names(profiles)]
        return [path for path in paths if os.path.isfile(path)]

    def sidecar(self, native_id: str) -> str | None:
        """The path of a session's sidecar, whether or not it exists; None if the id cannot be a file name."""
        if self.folder is None or not _ID.fullmatch(native_id):
            return None
        return os.path.join(self.folder, f"{native_id}.json")

    def names(self) -> list[str]:
        """The file names in the folder of sessions."""
        return _names(self.folder) if self.folder is not None else []

    def turn_journals(self, native_id: str) -> list[str]:
        """The shards of its turn journal, one for each process that wrote it."""
        if self.folder is None or not _JOURNALED.fullmatch(native_id):
            return []
        folder = os.path.join(self.folder, TURNS)
        names = [
            name
            for name in _names(folder)
            if name == f"{native_id}.jsonl" or (name.startswith(f"{native_id}~") and name.endswith(".jsonl"))
        ]
        return [os.path.join(folder, name) for name in names]

    def run_journals(self, native_id: str) -> list[str]:
        """Its run journals, one for each stream."""
        if self.folder is None or not _JOURNALED.fullmatch(native_id) or native_id in (".", ".."):
            return []
        folder = os.path.join(self.folder, RUNS, native_id)
        return [os.path.join(folder, name) for name in _names(folder) if name.endswith(".jsonl")]

    def transcripts(self, native_id: str) -> list[str]:
        """The agent's own transcripts of a session, beside the databases; they exist only if configured."""
        if self.home is None or not _ID.fullmatch(native_id):
            return []
        profiles = os.path.join(self.home, "profiles")
        homes = [self.home, *(os.path.join(profiles, name) for name in _names(profiles))]
        paths = [os.path.join(home, "sessions", f"session_{native_id}.json") for home in homes]
        return [path for path in paths if os.path.isfile(path)]


def session_id(name: str) -> str | None:
    """The session whose sidecar or backup has that file name."""
    for ending in (".json.bak", ".json"):
        if name.endswith(ending) and not name.startswith("_"):
            stem = name[: -len(ending)]
            return stem if _ID.fullmatch(stem) else None
    return None


def is_temp_file(name: str) -> bool:
    """Whether the name is that of a temporary file of the web UI."""
    return _LITTER.fullmatch(name) is not None


def _is_home(root: str) -> bool:
    return (
        os.path.isfile(os.path.join(root, DATABASE))
        or os.path.isdir(os.path.join(root, "webui"))
        or os.path.isdir(os.path.join(root, "profiles"))
    )


def _home_of(database: str) -> str:
    """The home of a database: its folder, or two levels up for a profile."""
    folder = os.path.dirname(database)
    above = os.path.dirname(folder)
    return os.path.dirname(above) if os.path.basename(above) == "profiles" else folder


def _above(folder: str, name: str) -> str | None:
    return os.path.dirname(folder) if os.path.basename(folder) == name else None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # it does not exist, or we may not read it
        return []
