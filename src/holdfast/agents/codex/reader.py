"""How are Codex's threads found, read and inspected?"""

from __future__ import annotations

import errno
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.agents.codex import inspect, sessions
from holdfast.agents.codex.events import CodexRollout
from holdfast.agents.codex.records import STARTS
from holdfast.model.event import Event, NewEvent, Origin
from holdfast.process import open_files, table
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
    is_same_folder,
)

FOLDER = "thread-writer-locks"


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that hold the thread's lock; the lock file is never created."""
    path = os.path.join(root, FOLDER, f"{native_id}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []  # a clean exit removes it
    try:
        stat = os.fstat(descriptor)
        holders = _lock_holders(stat.st_dev, stat.st_ino)
        if holders is None:
            return open_files.holders(path) if _is_held(descriptor) else []
    finally:
        os.close(descriptor)
    # The lock list names the process that took the lock, not the one that holds it now.
    alive = [pid for pid in holders if os.path.exists(f"/proc/{pid}")]
    return alive or (open_files.holders(path) if holders else [])


def _lock_holders(device: int, inode: int) -> list[int] | None:
    """The holders in the kernel's lock list; None if it lists no lock at all."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    pids = set()
    for line in lines:
        words = line.split()  # "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF"
        if len(words) < 6 or "->" in words or words[1] != "FLOCK" or not words[4].isdecimal():
            continue
        major, _, rest = words[5].partition(":")
        minor, _, number = rest.partition(":")
        here = f"{os.major(device):02x}", f"{os.minor(device):02x}"
        # An overlay file system reports another device here; then the inode must be enough.
        if number == str(inode) and ((major, minor) == here or major == "00"):
            pids.add(int(words[4]))
    return sorted(pids) if lines else None


def _is_held(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


# --- Equal content in Codex's stream and in its rollout, which share no ids

Wording = tuple[str, ...]
Key = tuple[int, Wording, int]  # turn, wording, and how often it occurred before in that turn

_SHELL_FLAGS = ("-lc", "-c")
_EDITS = frozenset({"apply_patch", "file_change"})


def wording(kind: str, body: dict[str, Any]) -> Wording | None:
    """A key that is equal for an event of the stream and of the rollout; None if there is none.

    The result of a call is not compared: its `tool_summary` is matched by the call that it ends.
    """
    if kind in ("user", "assistant", "thinking"):
        return (kind, str(body.get("text", "")).strip())
    if kind != "tool_progress":
        return None
    name, input = str(body.get("name", "")), body.get("input")
    command = _command(input)
    if command is not None:
        return (kind, "command", command)
    if name in _EDITS:
        return (kind, "edit")
    if name == "web_search" and isinstance(input, dict):
        return (kind, name, str(input.get("query")))
    return (kind, name.removeprefix("mcp__").replace("__", "."))


def keys(events: Iterable[NewEvent | Event], turn: int = 0) -> Iterator[Key | None]:
    """The matching key of each event; `turn` is the number of turns before the first event."""
    counts: Counter[Wording] = Counter()
    for event in events:
        key = wording(event.kind, event.body)
        if event.kind == "user":
            turn += 1
            counts.clear()
        if key is None:
            yield None
        else:
            yield (turn, key, counts[key])
            counts[key] += 1


def _command(input: Any) -> str | None:
    command = input
    for name in ("cmd", "command"):
        if isinstance(input, dict) and input.get(name):
            command = input[name]
            break
    else:
        return None
    if isinstance(command, list):
        return _inner([str(part) for part in command])
    if not isinstance(command, str):
        return None
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote: no program joined this line
        return command
    return _inner(words) if _is_shell(words) else command


def _inner(words: list[str]) -> str:
    return words[2] if _is_shell(words) else shlex.join(words)


def _is_shell(words: list[str]) -> bool:
    return len(words) == 3 and words[1] in _SHELL_FLAGS and words[0].rsplit("/", 1)[-1].endswith("sh")


# --- The reader


class CodexReader(TranscriptReader):
    """The rollouts of Codex."""

    agent = "codex"
    root_variable = "CODEX_HOME"
    root_folder = ".codex"

    def wording(self, kind: str, body: dict[str, Any]) -> tuple[str, ...] | None:
        """The same key for an event of the stream and its counterpart in a rollout."""
        return wording(kind, body)

    def at_file(self, path: str) -> list[SessionRef]:
        """Any file counts as a rollout; `inspect` says what is wrong with it."""
        return [sessions.session_ref(path)]

    def with_id(self, root: str, native_id: str) -> list[SessionRef]:
        """The threads with this UUID."""
        return [sessions.session_ref(path) for path in sessions.by_id(root, native_id)]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All threads, or those whose last turn was in this folder."""
        for path in sessions.rollouts(root):
            ref = sessions.session_ref(path)
            if cwd is None or is_same_folder(ref.cwd, cwd):
                yield ref

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """The events of the thread's rollout, in order."""
        rollout = CodexRollout(self.agent, ref.native_id)
        try:
            with sessions.open_rollout(ref.path) as file:
                for line in jsonl.read(file, STARTS):
                    yield from rollout.on_line(line)
        except (OSError, sessions.CompressedRollout) as problem:
            yield self._unreadable(ref, problem)
        yield from rollout.end()

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether Codex can resume it as it is."""
        rollout = CodexRollout(self.agent, ref.native_id)
        problems: list[TranscriptProblem] = []
        readable = True
        try:
            with sessions.open_rollout(ref.path) as file:
                for line in jsonl.read(file, STARTS):
                    rollout.on_line(line)
        except FileNotFoundError:
            readable = False
            problems.append(TranscriptProblem("no_transcript", "it has no rollout", {"path": ref.path}))
        except OSError as problem:
            readable = False
            problems.append(TranscriptProblem("store_damaged", str(problem), {"path": ref.path}))
        except sessions.CompressedRollout as problem:
            readable = False
            problems.append(TranscriptProblem("compressed", str(problem), {"path": ref.path}))
        rollout.end()
        facts = rollout.facts
        if readable:
            problems += inspect.find_problems(facts, ref.native_id)
        if twins := [path for path in self._twins(ref) if path != ref.path]:
            problems.append(
                TranscriptProblem("multiple_files", "more than one rollout has its id", {"others": twins})
            )
        return self.inspection(
            ref,
            problems,
            dangling=[call for _, call in facts.dangling],
            turns=facts.turns,
            last_complete=facts.last_complete,
            title=facts.title,
            cwd=facts.cwd,
        )

    def is_sound(self, problems: Sequence[TranscriptProblem]) -> bool:
        """Whether a resume loses nothing and repeats nothing in spite of these problems."""
        return inspect.is_sound(problems)

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """The processes that hold the thread's lock."""
        return owners(root, ref.native_id)

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        """The processes started for the thread: Codex 0.166 gives each of its commands the thread's id."""
        return table.marks_marked("CODEX_THREAD_ID", ref.native_id)

    def _twins(self, ref: SessionRef) -> list[str]:
        """All files with its id in their name, in the same sessions folder."""
        if sessions.thread_in_name(ref.path) is None:
            return []
        above = ref.path
        while above != os.path.dirname(above):
            above = os.path.dirname(above)
            if os.path.basename(above) in sessions.FOLDERS:
                paths = sessions.rollouts(os.path.dirname(above))
                return [path for path in paths if sessions.thread_in_name(path) == ref.native_id]
        return []

    def _unreadable(self, ref: SessionRef, problem: Exception) -> NewEvent:
        body = {"text": str(problem), "code": "store_damaged", "path": ref.path}
        return NewEvent("notice", body, origin=Origin(self.agent, ref.native_id, "unreadable"))
