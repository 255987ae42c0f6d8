"""The home: where everything of one Holdfast lies, and the lock of the one hub that runs on it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import errors


def default_path() -> str:
    """$HOLDFAST_HOME, else the platform's folder for user data."""
    given = os.environ.get("HOLDFAST_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/holdfast")
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "holdfast")


class Home:
    """The places in a home."""

    def __init__(self, path: str):
        self.path = path
        self.database = os.path.join(path, "state.db")
        self.sessions = os.path.join(path, "sessions")
        self.trash = os.path.join(path, "trash")
        self.quarantine = os.path.join(path, "quarantine")
        self.backups = os.path.join(path, "backups")
        self.reports = os.path.join(path, "reports")
        self.tasks = os.path.join(path, "tasks")
        self.worktrees = os.path.join(path, "worktrees")
        self.config = os.path.join(path, "config.toml")
        self.lock_file = os.path.join(path, "lock")

    def exists(self) -> bool:
        """Whether there is anything of Holdfast's here."""
        return os.path.exists(self.database) or os.path.isdir(self.sessions)

    def make(self) -> None:
        """The folders, for us alone."""
        from holdfast.durable_io import make_folder

        for path in (self.path, self.sessions, self.trash, self.quarantine, self.reports):
            make_folder(path)
        self._tighten()

    def _tighten(self) -> None:
        """Take from others what they may do with an existing home, and say so."""
        wide = os.stat(self.path).st_mode & 0o077
        changed = [] if not wide else [self.path]
        with suppress(PermissionError), os.scandir(self.path) as entries:  # it may be written, but not read
            changed += [entry.path for entry in entries if _is_wide(entry)]
        if not changed:
            return
        import logging

        log = logging.getLogger(__name__)
        kept = []
        for path in changed:
            try:
                os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
            except FileNotFoundError:  # gone meanwhile
                continue
            except OSError as problem:
                kept.append(f"{path}: {problem.strerror}")
        if wide and not kept:
            log.warning("other users could look into %s; it is yours alone now (0700)", self.path)
        if kept:
            log.warning("other users may look into the home, and that cannot be changed: %s", "; ".join(kept))

    def mirror(self, session: str) -> str:
        """The mirror file of a session."""
        return os.path.join(self.sessions, session + ".jsonl")

    def native(self, agent: str, native_id: str) -> str:
        """The folder of our copies of an agent's own session."""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in native_id)[:120]
        return os.path.join(self.path, "native", agent, safe if safe.strip(".") else "_")

    def task(self, task: str) -> str:
        """The folder of a task's stdio."""
        return os.path.join(self.tasks, task)

    def trashed(self, session: str) -> str:
        """The mirror file of a deleted session."""
        return os.path.join(self.trash, session + ".jsonl")

    def tombstone(self, session: str) -> str:
        """The file that says a session was deleted."""
        return os.path.join(self.trash, session + ".tombstone.json")

    @contextmanager
    def lock(self, what: str) -> Iterator[None]:
        """Be the one that runs or repairs this home; StoreBusy names the one that does."""
        import fcntl
        import json

        fd = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.StoreBusy(
                    f"{self.path} is held by {_holder(fd)}", hint="end it, or let it do the work"
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "what": what}).encode(), 0)
            yield
        finally:
            os.close(fd)


def _is_wide(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:  # gone meanwhile
        return False
    return bool(mode & 0o077) and (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def _holder(fd: int) -> str:
    import json

    try:
        note = json.loads(os.pread(fd, 4096, 0))
        return f"`holdfast {note['what']}`, process {note['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
