"""The home: the folder with all data of one Holdfast, and the lock of the only hub that runs on it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import errors


def default_path() -> str:
    """$HOLDFAST_HOME, else the user data folder of the platform."""
    chosen = os.environ.get("HOLDFAST_HOME")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/holdfast")
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "holdfast")


class Home:
    """The paths in a home."""

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
        """Whether the folder has data of Holdfast."""
        return os.path.exists(self.database) or os.path.isdir(self.sessions)

    def make(self) -> None:
        """Create the folders, accessible only for us."""
        from holdfast.durable_io import make_folder

        for path in (self.path, self.sessions, self.trash, self.quarantine, self.reports):
            make_folder(path)
        self._restrict_access()

    def _restrict_access(self) -> None:
        """Remove the access of other users to an existing home, and log it."""
        is_open = os.stat(self.path).st_mode & 0o077
        changed = [] if not is_open else [self.path]
        with (
            suppress(PermissionError),
            os.scandir(self.path) as entries,
        ):  # it may be writable, but not readable
            changed += [entry.path for entry in entries if _is_accessible(entry)]
        if not changed:
            return
        import logging

        log = logging.getLogger(__name__)
        failed = []
        for path in changed:
            try:
                os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
            except FileNotFoundError:  # removed by another process
                continue
            except OSError as problem:
                failed.append(f"{path}: {problem.strerror}")
        if is_open and not failed:
            log.warning("other users could look into %s; it is yours alone now (0700)", self.path)
        if failed:
            log.warning(
                "other users may look into the home, and that cannot be changed: %s", "; ".join(failed)
            )

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
        """The tombstone file of a deleted session."""
        return os.path.join(self.trash, session + ".tombstone.json")

    @contextmanager
    def lock(self, what: str) -> Iterator[None]:
        """Lock the home for one process that runs or repairs it. StoreBusy names the holder."""
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


def _is_accessible(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:  # removed by another process
        return False
    return bool(mode & 0o077) and (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def _holder(fd: int) -> str:
    import json

    try:
        note = json.loads(os.pread(fd, 4096, 0))
        return f"`holdfast {note['what']}`, process {note['pid']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
