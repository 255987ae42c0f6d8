"""How are Gemini's chats found, read and inspected?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast import timestamps
from holdfast.agents.gemini import inspect, sessions
from holdfast.agents.gemini.events import GeminiEventBuilder
from holdfast.agents.gemini.inspect import GeminiSurroundings
from holdfast.agents.gemini.log import MutationLog
from holdfast.model.event import NewEvent, Origin
from holdfast.process import open_files
from holdfast.process import table as process_table
from holdfast.transcripts.jsonl import parse
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
    is_same_folder,
)

_LONGEST = 1 << 20
# Its settings may have comments; a string with slashes is matched first and kept.
_COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def keeps(*folders: str | None) -> bool:
    """Whether `general.sessionRetention.enabled` is off in the last of these folders that sets it."""
    enabled = True
    for folder in folders:
        setting = _enabled(folder) if folder is not None else None
        enabled = enabled if setting is None else setting
    return not enabled


def _enabled(folder: str) -> bool | None:
    try:
        with open(os.path.join(folder, "settings.json"), "rb") as file:
            raw = file.read(_LONGEST)
    except (OSError, ValueError):
        return None
    value: Any = parse(_COMMENT.sub(lambda found: found[1] or b" ", raw))
    for name in ("general", "sessionRetention", "enabled"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, bool) else None


# --- The reader

DANGLING = 1000  # how many calls without a result are listed


class GeminiReader(TranscriptReader):
    """The chats of Gemini CLI."""

    agent = "gemini"

    def root(self, env: Mapping[str, str]) -> str:
        """`~/.gemini`, or `.gemini` in `GEMINI_CLI_HOME`."""
        return sessions.root(env)

    def at_file(self, path: str) -> list[SessionRef]:
        """Any file counts as a session's; `inspect` says what is wrong with it."""
        return [sessions.session_ref(path)]

    def with_id(self, root: str, native_id: str) -> list[SessionRef]:
        """The sessions with this id, or whose id begins with these 8 digits."""
        return [sessions.session_ref(path) for path in sessions.main_files(sessions.by_id(root, native_id))]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one project."""
        for folder in sessions.chats(root):
            for path in sessions.main_files(sessions.files(folder)):
                ref = sessions.session_ref(path)
                if cwd is None or is_same_folder(ref.cwd, cwd):
                    yield ref

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """Everything recorded and not rewound, including what a reset removed from the conversation."""
        log = MutationLog()
        try:
            _read(ref.path, log)
            with open(ref.path, "rb") as file:
                yield from GeminiEventBuilder(log, file, self.agent, ref.native_id).events()
        except OSError as problem:
            body = {"text": str(problem), "code": "store_damaged", "path": ref.path}
            yield NewEvent("notice", body, origin=Origin(self.agent, ref.native_id, "unreadable"))

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether Gemini can resume it as it is, and would keep it."""
        log = MutationLog()
        problems: list[TranscriptProblem] = []
        open_calls: list[dict[str, Any]] = []
        try:
            _read(ref.path, log)
            open_calls = self._dangling(ref, log)
        except FileNotFoundError:
            problems.append(TranscriptProblem("no_transcript", "its file does not exist", {"path": ref.path}))
        except OSError as problem:
            problems.append(TranscriptProblem("store_damaged", str(problem), {"path": ref.path}))
        cwd = sessions.cwd(ref.path, log) or ref.cwd
        if not problems:
            problems = inspect.find_problems(log, ref.native_id, self._around(ref, cwd), open_calls)
        turns = inspect.turns(log)
        return self.inspection(
            ref,
            problems,
            dangling=open_calls,
            turns=len(turns.complete),
            last_complete=turns.complete.rfind(1) + 1 or None,
            title=log.title,
            cwd=cwd,
        )

    def is_sound(self, problems: Sequence[TranscriptProblem]) -> bool:
        """Whether a resume loses nothing and repeats nothing in spite of these problems."""
        return inspect.is_sound(problems)

    def files(self, ref: SessionRef) -> list[str]:
        """All files that Gemini might delete with it: those with its 8 digits, and its subagents'."""
        paths = [ref.path, *sessions.twins(ref.path), *sessions.subagents(ref.path, ref.native_id)]
        return [path for path in paths if os.path.isfile(path)]

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """The processes that were started for this session; Gemini has no lock and no list of its own."""
        return open_files.named("gemini", ref.native_id)

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        """What its owners started, and what a dead Gemini left running in its project.

        A running call is not in the history, and its process does not name its session.
        """
        table = process_table.table()
        below = {p.pid for owner in self.owners(root, ref) for p in process_table.descendants(table, owner)}
        agents = [process for process in table.values() if _is_gemini(process.command)]
        led = {p.pid for p in (*agents, *process_table.below(table, agents))}
        left = {
            pid
            for pid in process_table.marks_marked("GEMINI_CLI", "1")
            if pid not in led and _is_in(pid, ref.cwd)
        }
        return sorted(below | left)

    def _dangling(self, ref: SessionRef, log: MutationLog) -> list[dict[str, Any]]:
        waiting = [entry for entry in log.conversation() if inspect.dangling(entry, log)][:DANGLING]
        if not waiting:
            return []
        with open(ref.path, "rb") as file:
            builder = GeminiEventBuilder(log, file, self.agent, ref.native_id)
            return [
                {"call": call.id, "name": call.name, "input": call.input}
                for entry in waiting
                for call in builder.calls(entry)
                if call.outcome is None
            ]

    def _around(self, ref: SessionRef, cwd: str | None) -> GeminiSurroundings:
        twins = sessions.twins(ref.path)
        heads = [(path, sessions.head(path)) for path in twins]
        rivals = [path for path, log in heads if ref.native_id in log.header_ids and log.has_messages]
        minutes = [minute for path in (ref.path, *twins) if (minute := sessions.minute(path)) is not None]
        own = sessions.home_of(ref.path)
        project = os.path.join(cwd, sessions.FOLDER) if cwd is not None else None
        return GeminiSurroundings(
            twins=tuple(twins),
            rivals=tuple(rivals),
            keeps=keeps(own, project),
            minute=max(minutes, default=None),
            now=timestamps.now(),
        )


def _is_gemini(command: str) -> bool:
    """Whether a command line runs Gemini: by its name, or as a node script."""
    return any("gemini" in os.path.basename(word) for word in command.split()[:3])


def _is_in(pid: int, cwd: str | None) -> bool:
    try:
        return cwd is not None and os.path.realpath(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:
        return False


def _read(path: str, log: MutationLog) -> None:
    with sessions.open_log(path) as lines:
        for line in lines:
            log.on_line(line)
