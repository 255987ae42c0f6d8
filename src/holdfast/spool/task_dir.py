"""The folder of one task: its agent's stdio on disk, and who ran it and how it ended.

An agent's output is on disk before we read it, and it is started by a shim that needs nothing of us: so
killing us neither stops the agent nor loses a byte.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from holdfast import durable_io, errors
from holdfast.process import identity
from holdfast.process.identity import Ident
from holdfast.spool.reader_deaths import ReaderMarks

SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim.sh")
SHELL = "/bin/sh"
RELAY_KEEPER = os.path.join(os.path.dirname(SHIM), "relay_keeper.sh")
RELAY_PROGRAM = os.path.join(os.path.dirname(SHIM), "relay.py")
# How the command lines of relays and their keepers end; the second is that of version 1, a `tail`.
RELAY = (os.path.join("spool", "relay.py"), " -f sent")

_PREVENTED = b"prevented\n"
_EXIT_ROOM = b" " * 15 + b"\n"  # the shim writes over this, so it needs no new block of a full disk
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class Spool:
    """One task's folder; its files are named here and nowhere else."""

    def __init__(self, path: str):
        self.path = os.path.abspath(path)
        self.stdin = os.path.join(self.path, "stdin")
        self.sent = os.path.join(self.path, "sent")
        self.stdout = os.path.join(self.path, "stdout")
        self.stderr = os.path.join(self.path, "stderr")
        self.note = os.path.join(self.path, "launch.json")
        self.shim_file = os.path.join(self.path, "shim")
        self.agent_file = os.path.join(self.path, "agent")
        self.relay_file = os.path.join(self.path, "relay")  # the keeper, or in version 1 the relay itself
        self.relays_file = os.path.join(self.path, "relays")  # each relay that was started, and how it ended
        self.exit_part = os.path.join(self.path, "exit.part")
        self.exit = os.path.join(self.path, "exit")
        self.deaths_file = os.path.join(self.path, "taken")  # where hubs died that read the output
        self.shrunk_file = os.path.join(self.path, "shrunk")  # how much of stdout was lost, and when
        self.keep = os.path.join(self.path, "keep")  # whoever makes this file wants the folder kept
        self._boot = ""  # as the note said when it was last read

    def make(self, note: Mapping[str, Any], stdin: bytes = b"") -> None:
        """The folder and its empty files, and the launch note, durably; FileExistsError if it has one.

        `stdin` is the whole standard input of an agent that does not listen.

        The note comes last, so a folder with a note is whole; what was cut short before is simply made again.
        The boot is added to the note: a pid means nothing in another one.
        """
        durable_io.make_folder(self.path)
        with durable_io.reported(self.path):
            with suppress(FileExistsError):
                os.mkfifo(self.stdin, 0o600)
            for path in (self.sent, self.stdout, self.stderr, self.relays_file):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            _write_room(self.exit_part, _EXIT_ROOM)
            ReaderMarks.create(self.deaths_file)
            if stdin:
                with open(self.sent, "wb") as file:
                    file.write(stdin)
        text = json.dumps({**note, "boot": identity.boot_id()}).encode()  # all escaped: also lone surrogates
        durable_io.create(self.note, [text + b"\n"])

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, listens: bool
    ) -> subprocess.Popen[bytes]:
        """Start the shim, which starts the agent with exactly that environment and outlives us.

        A command or cwd that is not there shows as exit status 127 and a line in stderr.
        """
        if not argv:
            raise ValueError("a command line has at least a program")
        relay = (RELAY_KEEPER, _python(), RELAY_PROGRAM) if listens else ("", "", "")
        command = [SHELL, SHIM, os.path.abspath(cwd), _program("mv"), *relay, *argv]
        append = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        out = os.open(self.stdout, append)
        try:
            err = os.open(self.stderr, append)
            try:
                return subprocess.Popen(
                    command,
                    env=dict(env),
                    cwd=self.path,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    close_fds=True,
                    start_new_session=True,
                    preexec_fn=_heed_signals if _signals_unheeded() else None,
                )
            finally:
                os.close(err)
        finally:
            os.close(out)

    def prevent(self) -> bool:
        """Take the shim's place, so that none ever runs here; False if one had been there."""
        return _take(self.shim_file)

    def prevent_agent(self) -> bool:
        """The same one step later, for a shim that is gone: its agent never ran and never will.

        False if the agent had been recorded. Without this, a shim killed right after it forked could still
        bring forth an agent that nobody expects.
        """
        return _take(self.agent_file)

    def is_agent_recorded(self) -> bool:
        """Whether an agent ran here; also one whose record cannot be read any more."""
        try:
            with open(self.agent_file, "rb") as file:
                return file.read(len(_PREVENTED)) != _PREVENTED
        except FileNotFoundError:
            return False

    def prevent_relay(self) -> bool:
        """Prevent the relay's keeper: the agent's stdin ends at once; False if one has started."""
        return _take(self.relay_file)

    def end_relays(self) -> None:
        """Let no relay start any more: each looks for the fifo's name after it has recorded itself."""
        with suppress(FileNotFoundError):
            os.unlink(self.stdin)

    def input_is_open(self) -> bool:
        """Whether nobody has ended the agent's input yet."""
        return os.path.exists(self.stdin)

    def shim(self) -> Ident | None:
        """Who runs or ran the agent; None while nobody did, or where the shim was prevented."""
        return self._recorded(self.shim_file)

    def agent(self) -> Ident | None:
        """The agent's process; None before it was started."""
        return self._recorded(self.agent_file)

    def relay_keeper(self) -> Ident | None:
        """The process that starts a relay again when it dies."""
        return self._recorded(self.relay_file)

    def relay(self) -> Ident | None:
        """The process that passes `sent` on to the agent's stdin: the last one that was started."""
        if not os.path.exists(self.relays_file):
            return self._recorded(self.relay_file)  # version 1: it had no keeper
        started = [line for line in self._relay_lines() if not line.startswith(b"ended ")]
        return self._ident(started[-1], self.relays_file) if started else None

    def relay_is_gone(self) -> bool:
        """Whether the relay was killed and its keeper cannot start another."""
        keeper, lines = self.relay_keeper(), self._relay_lines()
        if keeper is None or identity.is_alive(*keeper) or not lines or lines[-1].startswith(b"ended "):
            return False
        relay = self._ident(lines[-1], self.relays_file)
        return relay is not None and not identity.is_alive(*relay)

    def relay_deaths(self) -> list[int]:
        """How each relay that died had ended, as a shell tells it (128 + n for signal n)."""
        ended = [line.split() for line in self._relay_lines() if line.startswith(b"ended ")]
        return [int(words[1]) for words in ended if len(words) == 2 and words[1].isdigit()]

    def exit_status(self) -> int | None:
        """The agent's exit status as a shell tells it (128 + n for signal n); None before that."""
        recorded = self._exit_words()
        return int(recorded[0]) if recorded else None

    def keeper_was_killed(self) -> bool:
        """Whether the relay's keeper was killed before the agent ended.

        SIGUSR1 is how the shim ends it; that kills a keeper that has not got as far as its trap.
        """
        recorded = self._exit_words()
        return len(recorded) > 1 and int(recorded[1]) > 128 and int(recorded[1]) != 128 + signal.SIGUSR1

    def _exit_words(self) -> list[bytes]:
        try:
            with open(self.exit, "rb") as file:
                words = file.read(32).split()
        except FileNotFoundError:
            return []
        return words if all(word.isdigit() for word in words) else []

    def lost(self) -> int:
        """How many bytes of the agent's output came before the first one that stdout has now."""
        try:
            with open(self.shrunk_file, "rb") as file:
                return max([int(line) for line in file.read().split(b"\n")[:-1]], default=0)
        except FileNotFoundError:
            return 0

    def record_lost(self, lost: int) -> None:
        """Remember, durably, that stdout was cut and now begins with that byte of the output."""
        with durable_io.reported(self.shrunk_file):
            fd = os.open(self.shrunk_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, b"%d\n" % lost)
                os.fsync(fd)
            finally:
                os.close(fd)

    def launch(self) -> dict[str, Any]:
        """The launch note; empty if there is none that can be read."""
        try:
            with open(self.note, "rb") as file:
                note = json.load(file)
                return note if isinstance(note, dict) else {}
        except (FileNotFoundError, ValueError):
            return {}

    def stderr_tail(self, limit: int) -> str:
        """The end of the agent's stderr, from the beginning of a line, in at most `limit` bytes."""
        try:
            with open(self.stderr, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - limit - 1))
                data = file.read(limit + 1)
        except FileNotFoundError:
            data = _gzip_end(self.stderr + ".gz", limit + 1)
        if len(data) > limit:
            cut = data.find(b"\n", 0, -1) + 1
            data = data[cut:] if cut else data[1:]
        return data.lstrip(b"\0").decode(errors="replace")

    def _relay_lines(self) -> list[bytes]:
        try:
            with open(self.relays_file, "rb") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def _recorded(self, path: str) -> Ident | None:
        try:
            with open(path, "rb") as file:
                return self._ident(file.read(4096), path)
        except FileNotFoundError:
            return None

    def _ident(self, line: bytes, path: str) -> Ident | None:
        """The process that a line of the file at `path` names."""
        self._boot = boot = str(self.launch().get("boot", self._boot))
        if (stat := identity.read_stat(line)) is not None:
            return Ident(stat.pid, stat.started, boot)
        if not line.strip().isdigit():
            return None
        # Without /proc only the pid is recorded: what has it now is meant if it is older than the record.
        pid = int(line)
        now = identity.started(pid)
        return Ident(pid, now if now is not None and now <= os.stat(path).st_mtime + 1 else -1.0, boot)


def _write_room(path: str, content: bytes) -> None:
    """A small file whose bytes are written over later, without a need for more disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, content, 0)
    finally:
        os.close(fd)


def _take(path: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.write(fd, _PREVENTED)
    os.close(fd)
    return True


def _gzip_end(path: str, limit: int) -> bytes:
    end = b""
    try:
        with gzip.open(path, "rb") as file:
            while piece := file.read(1 << 16):
                end = (end + piece)[-limit:]
    except FileNotFoundError:
        pass
    return end


@lru_cache
def _program(name: str) -> str:
    """Where a system program is; the agent's own PATH may not lead to it."""
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise errors.HoldfastError(
            f"there is no `{name}` on this machine", hint="it is part of every POSIX system"
        )
    return os.path.abspath(found)


@lru_cache
def _python() -> str:
    """The interpreter that runs the relay: ours, which is there as long as we are."""
    return sys.executable or _program("python3")


_HEEDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def _signals_unheeded() -> bool:
    """Whether a child of ours would ignore or block what it must hear.

    So it is when we run in the background of a script; a shell cannot undo it.
    """
    if signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        return True
    return any(signal.getsignal(number) == signal.SIG_IGN for number in _HEEDED)


def _heed_signals() -> None:
    for number in _HEEDED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# --- Putting a task's folder out of the way of its next launch.


def retired(spool: Spool) -> int:
    """How many launches of the task came to nothing before."""
    return next(n for n in itertools.count() if not os.path.exists(_name(spool, n + 1)))


def retire(spool: Spool) -> None:
    """Keep the folder of an agent that never took its prompt under another name."""
    os.rename(spool.path, _name(spool, retired(spool) + 1))


def discard(spool: Spool) -> None:
    """Remove a folder whose launch was prevented: nothing ever ran in it."""
    shutil.rmtree(spool.path)


def task_of(folder: str) -> str:
    """The task that a folder of this name is or was of."""
    return folder.partition("~")[0]


def _name(spool: Spool, number: int) -> str:
    return f"{spool.path}~{number}"
