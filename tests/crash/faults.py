"""The faults of the fault campaign: each strikes a home in use, and is over when it returns."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.home import Home
from tests.crash import children, run_support

DISK = "24m"
FILLER = "filler"
ROLES = {
    "agent": "agent",
    "shim": "shim",
    "keeper": "relay",
    "relay": "relays",
}  # role -> file in the task's folder
DEADLINE_S = 120.0


class Place:
    """A folder with a home on a small disk; effects, agent store and backup are beside it."""

    def __init__(self, folder: str):
        self.folder = folder
        self.disk = os.path.join(folder, "disk")
        self.effects = os.path.join(folder, "effects")
        self.agent_store = os.path.join(folder, "agent-store")
        self.backup = os.path.join(folder, "backup")
        self.no_processes = os.path.join(folder, "no-processes")  # exists while no process can be started
        self.mounted = False
        os.makedirs(self.disk)

    def mount(self) -> None:
        """A file system of its own, where that is allowed; else ENOSPC is a limit on the size of files."""
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755", "holdfast-test", self.disk]
        with contextlib.suppress(OSError):
            self.mounted = subprocess.run(words, check=False, capture_output=True).returncode == 0

    def unmount(self) -> None:
        """Take the small disk away."""
        if self.mounted:
            subprocess.run(["umount", "-l", self.disk], check=True, capture_output=True)


class Attack:
    """Strikes one home; the worker that is struck may change."""

    def __init__(self, place: Place, home: Home, rng: random.Random, worker: Callable[[], children.Child]):
        self._place = place
        self._home = home
        self._rng = rng
        self._start_worker = worker
        self.worker = worker()
        self.faults: list[str] = []
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "SIGKILL worker": (6, self._kill_worker),
            "SIGKILL agent": (3, lambda: self._kill("agent")),
            "SIGKILL relay": (3, lambda: self._kill("relay")),
            "SIGKILL relay keeper": (2, lambda: self._kill("keeper")),
            "SIGKILL shim": (2, lambda: self._kill("shim")),
            "SIGSTOP worker": (3, self._stop_worker),
            "SIGSTOP agent": (3, lambda: self._stop("agent")),
            "SIGSTOP relay": (2, lambda: self._stop("relay")),
            "EAGAIN": (2, self._no_processes),
            "EMFILE": (2, self._no_files),
            "ENOSPC": (2, self._full_disk),
            "old backup restored": (1, self._restore),
        }

    def strike(self) -> None:
        """One fault of any kind; some kinds bring a second one with them."""
        names = list(self._kinds)
        weights = [weight for weight, _ in self._kinds.values()]
        if not os.path.exists(self._place.backup):
            names, weights = names[:-1], weights[:-1]
        (name,) = self._rng.choices(names, weights)
        self._kinds[name][1]()

    def ensure_worker(self) -> None:
        """Start another worker if this one has done all there was; fail if it failed."""
        done = os.waitid(os.P_PID, self.worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if done is not None:
            self.worker.rest()
            self.worker = self._start_worker()

    def back_up(self) -> None:
        """As docs/operations.md says, with the worker running; replaces the last backup."""
        shutil.rmtree(self._place.backup, ignore_errors=True)
        os.makedirs(self._place.backup)
        with (
            contextlib.closing(sqlite3.connect(self._home.database)) as live,
            contextlib.closing(sqlite3.connect(os.path.join(self._place.backup, "state.db"))) as copy,
        ):
            live.backup(copy)
        _copy(
            self._home.path,
            os.path.join(self._place.backup, "home"),
            lambda path: not path.startswith("state.db"),
        )

    # --- the faults

    def _count(self, name: str) -> None:
        self.faults.append(name)

    def _kill_worker(self) -> None:
        self.worker.kill()
        self._count("SIGKILL worker")
        children.pause(self._rng.choice([0.0, self._rng.uniform(0.0, 0.2)]))
        self.worker = self._start_worker()
        if self._rng.random() < 0.8:
            self.worker.wait_for_word()

    def _kill(self, role: str) -> None:
        pid = self._any(role)
        if pid is not None:
            run_support.kill(pid)
            self._count(f"SIGKILL {role}")

    def _stop(self, role: str) -> None:
        pid = self._any(role)
        if pid is not None:
            with self._stopped(pid):
                self._count(f"SIGSTOP {role}")
                self._meanwhile()

    def _stop_worker(self) -> None:
        with self._stopped(self.worker.pid):
            self._count("SIGSTOP worker")
            self._meanwhile()

    @contextlib.contextmanager
    def _stopped(self, pid: int) -> Iterator[None]:
        run_support.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            run_support.kill(pid, signal.SIGCONT)

    def _no_processes(self) -> None:
        with open(self._place.no_processes, "w"):
            pass
        try:
            self._count("EAGAIN")
            self._meanwhile()
        finally:
            os.unlink(self._place.no_processes)

    def _no_files(self) -> None:
        self.worker.wait_for_word()  # a worker may refuse to start in a shortage; it may not fail later
        pid = self.worker.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        scarce = len(os.listdir(f"/proc/{pid}/fd")) + self._rng.randint(0, 4)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (scarce, before[1]))
        try:
            self._count("EMFILE")
            self._meanwhile()
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    def _full_disk(self) -> None:
        self.worker.wait_for_word()
        if not self._place.mounted:
            return self._small_files()
        path = os.path.join(self._place.disk, FILLER)
        with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        try:
            self._count("ENOSPC")
            self._meanwhile()
        finally:
            os.unlink(path)
        return None

    def _small_files(self) -> None:
        pid = self.worker.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096 * self._rng.randint(1, 40), before[1]))
        try:
            self._count("ENOSPC")
            self._meanwhile()
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    def _restore(self) -> None:
        """As docs/operations.md says, with neither hub nor agents running."""
        self.worker.kill()
        if self._rng.random() < 0.5:  # as when the machine failed; else they end by themselves
            self._end_processes()
        deadline = time.monotonic() + DEADLINE_S
        while self._all(*ROLES):
            if time.monotonic() > deadline - DEADLINE_S + 5.0:  # some wait for a person
                self._end_processes()
            assert time.monotonic() < deadline, "agents go on for ever"
            time.sleep(0.02)
        for path in glob.glob(self._home.database + "*"):
            os.unlink(path)
        backup = os.path.join(self._place.backup, "home")
        _copy(backup, self._home.path, lambda path: not path.startswith("tasks" + os.sep))
        for folder in glob.glob(os.path.join(backup, "tasks", "*")):
            here = os.path.join(self._home.tasks, os.path.basename(folder))
            if not os.path.exists(here):  # files of two launches must not mix
                _copy(folder, here, lambda _: True)
        shutil.copy2(os.path.join(self._place.backup, "state.db"), self._home.database)
        self._count("old backup restored")
        self.worker = self._start_worker()
        self.worker.wait_for_word()

    def _end_processes(self) -> None:
        run_support.end_all(self._home)

    def _meanwhile(self) -> None:
        """Let some time pass, perhaps with another fault in it."""
        children.pause(self._rng.uniform(0.0, 0.25))
        if self._rng.random() < 0.6:
            self._kill(self._rng.choice(list(ROLES)))
            children.pause(self._rng.uniform(0.0, 0.25))

    # --- whom they strike

    def _any(self, role: str) -> int | None:
        found = self._all(role)
        return self._rng.choice(found) if found else None

    def _all(self, *roles: str) -> list[int]:
        """The living processes of a role, from what they wrote into their folders."""
        found = []
        for role in roles:
            for path in sorted(glob.glob(os.path.join(self._home.tasks, "*", ROLES[role]))):
                with contextlib.suppress(OSError), open(path) as file:
                    lines = [line for line in file.read().splitlines() if line[:1].isdecimal()]
                    if lines and _lives(lines[-1]):
                        found.append(int(lines[-1].split()[0]))
        return found


def _lives(stat: str) -> bool:
    """Whether the process of this line of /proc is the one that has the pid now."""
    try:
        with open(f"/proc/{int(stat.split()[0])}/stat") as file:
            now = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return now[19] == stat.rpartition(")")[2].split()[19] and now[0] not in "ZX"


def _copy(source: str, target: str, wanted: Callable[[str], bool]) -> None:
    """What `rsync -a` does: replace files by a rename, make fifos, skip what vanishes meanwhile."""
    for parent, _, names in os.walk(source):
        where = os.path.normpath(os.path.join(target, os.path.relpath(parent, source)))
        os.makedirs(where, mode=0o700, exist_ok=True)
        for name in names:
            path, new = os.path.join(parent, name), os.path.join(where, name)
            if not wanted(os.path.relpath(path, source)):
                continue
            with contextlib.suppress(FileNotFoundError):
                if name == "stdin":
                    if not os.path.lexists(new):
                        os.mkfifo(new, 0o600)
                    continue
                shutil.copy2(path, new + ".copy~")
                os.replace(new + ".copy~", new)


def starve(path: str) -> None:
    """Let this process start no other while a file exists; the kernel enforces no such limit on root."""
    fork_exec = vars(subprocess)["_fork_exec"]

    def fail(*given: Any) -> Any:
        if os.path.exists(path):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork_exec(*given)

    vars(subprocess)["_fork_exec"] = fail
