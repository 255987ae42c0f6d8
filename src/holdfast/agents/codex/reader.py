"""Codex's threads: found, read and judged."""

from __future__ import annotations

import errno
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.agents.codex import inspect as judge
from holdfast.agents.codex import sessions as opening
from holdfast.agents.codex import sessions as places
from holdfast.agents.codex.events import CodexRollout
from holdfast.agents.codex.records import STARTS
from holdfast.model.event import Event, NewEvent, Origin
from holdfast.process import open_files, table
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem

FOLDER = "thread-writer-locks"


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that hold the thread's lock; the file is never made."""
    path = os.path.join(root, FOLDER, f"{native_id}.lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []  # a clean exit removes it
    try:
        stat = os.fstat(descriptor)
        told = _told(stat.st_dev, stat.st_ino)
        if told is None:
            return open_files.holders(path) if _is_held(descriptor) else []
    finally:
        os.close(descriptor)
    # Which process took it is told, not who has it now.
    alive = [pid for pid in told if os.path.exists(f"/proc/{pid}")]
    return alive or (open_files.holders(path) if told else [])


def _told(device: int, inode: int) -> list[int] | None:
    """The holders as Linux lists them; None if it lists no lock at all."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    found = set()
    for line in lines:
        words = line.split()  # "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF"
        if len(words) < 6 or "->" in words or words[1] != "FLOCK" or not words[4].isdecimal():
            continue
        major, _, rest = words[5].partition(":")
        minor, _, number = rest.partition(":")
        here = f"{os.major(device):02x}", f"{os.minor(device):02x}"
        # A filesystem of layers tells another device here: then the inode must be enough.
        if number == str(inode) and ((major, minor) == here or major == "00"):
            found.add(int(words[4]))
    return sorted(found) if lines else None


def _is_held(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


# --- What says the same in Codex's stream and in its rollout, which have no id in common.

Said = tuple[str, ...]
Key = tuple[int, Said, int]  # the turn, what is said, how often it was said before in that turn

_SHELL_FLAGS = ("-lc", "-c")
_EDITS = frozenset({"apply_patch", "file_change"})


def said(kind: str, body: dict[str, Any]) -> Said | None:
    """What an event of either source says, such that both say it alike; None if that cannot be told.

    How a call ended is not compared: its `tool_summary` is met by the call that it ends.
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
    """For each event what it is met by; `turn` is how many turns came before the first of them."""
    seen: Counter[Said] = Counter()
    for event in events:
        found = said(event.kind, event.body)
        if event.kind == "user":
            turn += 1
            seen.clear()
        if found is None:
            yield None
        else:
            yield (turn, found, seen[found])
            seen[found] += 1


def _command(input: Any) -> str | None:
    told = input
    for name in ("cmd", "command"):
        if isinstance(input, dict) and input.get(name):
            told = input[name]
            break
    else:
        return None
    if isinstance(told, list):
        return _inner([str(part) for part in told])
    if not isinstance(told, str):
        return None
    try:
        words = shlex.split(told)
    except ValueError:  # a quote that is not closed: then it is no line that a program joined
        return told
    return _inner(words) if _is_shell(words) else told


def _inner(words: list[str]) -> str:
    return words[2] if _is_shell(words) else shlex.join(words)


def _is_shell(words: list[str]) -> bool:
    return len(words) == 3 and words[1] in _SHELL_FLAGS and words[0].rsplit("/", 1)[-1].endswith("sh")


# --- Codex's threads: found, read and judged.


class CodexReader:
    """The rollouts of Codex."""

    agent = "codex"
    missing = "no_transcript"

    def said(self, kind: str, body: dict[str, Any]) -> tuple[str, ...] | None:
        """What an event says in the stream and in a rollout alike."""
        return said(kind, body)

    def root(self, env: Mapping[str, str]) -> str:
        """`$CODEX_HOME`."""
        return places.root(dict(env))

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The thread with that UUID, or the rollout at that path, or all in that folder."""
        if os.path.isfile(name):
            return [places.place(name)]
        if os.path.isdir(name):
            return [places.place(path) for path in places.rollouts(name)]
        return [places.place(path) for path in places.by_id(root, name)]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All threads, or those whose last turn was in that folder."""
        wanted = None if cwd is None else os.path.normpath(cwd)
        for path in places.rollouts(root):
            place = places.place(path)
            if wanted is None or (place.cwd is not None and os.path.normpath(place.cwd) == wanted):
                yield place

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """What the thread's rollout tells, in its order."""
        fold = CodexRollout(self.agent, place.native_id)
        try:
            with opening.opened(place.path) as file:
                for line in jsonl.read(file, STARTS):
                    yield from fold.take(line)
        except (OSError, opening.CompressedRollout) as problem:
            yield self._unreadable(place, problem)
        yield from fold.end()

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether Codex could go on with it as it is."""
        fold = CodexRollout(self.agent, place.native_id)
        problems: list[TranscriptProblem] = []
        readable = True
        try:
            with opening.opened(place.path) as file:
                for line in jsonl.read(file, STARTS):
                    fold.take(line)
        except FileNotFoundError:
            readable = False
            problems.append(
                TranscriptProblem("no_transcript", "there is no rollout of it", {"path": place.path})
            )
        except OSError as problem:
            readable = False
            problems.append(TranscriptProblem("store_damaged", str(problem), {"path": place.path}))
        except opening.CompressedRollout as problem:
            readable = False
            problems.append(TranscriptProblem("compressed", str(problem), {"path": place.path}))
        fold.end()
        facts = fold.facts
        if readable:
            problems += judge.judge(facts, place.native_id)
        if twins := [path for path in self._twins(place) if path != place.path]:
            problems.append(
                TranscriptProblem("multiple_files", "more than one rollout has its id", {"others": twins})
            )
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=judge.is_sound(problems),
            problems=problems,
            dangling=[call for _, call in facts.dangling],
            turns=facts.turns,
            last_complete=facts.last_complete,
            title=facts.title or place.title,
            cwd=facts.cwd or place.cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """The rollout; all else that Codex has of a thread it makes anew from this."""
        return [place.path] if os.path.isfile(place.path) else []

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Who holds the thread's lock."""
        return owners(root, place.native_id)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """What it started for the thread: Codex 0.166 tells each of its commands whose it is."""
        return table.marks_marked("CODEX_THREAD_ID", place.native_id)

    def _twins(self, place: SessionRef) -> list[str]:
        """All files whose name has its id, in the folder of sessions where it lies."""
        if places.named(place.path) is None:
            return []
        above = place.path
        while above != os.path.dirname(above):
            above = os.path.dirname(above)
            if os.path.basename(above) in places.FOLDERS:
                found = places.rollouts(os.path.dirname(above))
                return [path for path in found if places.named(path) == place.native_id]
        return []

    def _unreadable(self, place: SessionRef, problem: Exception) -> NewEvent:
        body = {"text": str(problem), "code": "store_damaged", "path": place.path}
        return NewEvent("notice", body, origin=Origin(self.agent, place.native_id, "unreadable"))
