"""Gemini's sessions: found, read and judged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast import timestamps
from holdfast.agents.gemini import inspect as judge
from holdfast.agents.gemini import sessions as places
from holdfast.agents.gemini.events import GeminiEventBuilder
from holdfast.agents.gemini.inspect import GeminiSurroundings
from holdfast.agents.gemini.log import MutationLog
from holdfast.model.event import NewEvent, Origin
from holdfast.process import open_files
from holdfast.process import table as marks
from holdfast.process import table as tree
from holdfast.transcripts.jsonl import parse
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem

_LONGEST = 1 << 20
# Its settings may have comments; a text that holds slashes is matched first and kept.
_COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def keeps(*folders: str | None) -> bool:
    """Whether `general.sessionRetention.enabled` is off in the last of these folders that says anything."""
    enabled = True
    for folder in folders:
        told = _enabled(folder) if folder is not None else None
        enabled = enabled if told is None else told
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


# --- Gemini's sessions: found, read and judged.

DANGLING = 1000  # calls without a result that are listed


class GeminiReader:
    """The chats of Gemini CLI."""

    agent = "gemini"
    missing = "no_transcript"

    def root(self, env: Mapping[str, str]) -> str:
        """`~/.gemini`, or where `GEMINI_CLI_HOME` says."""
        return places.root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The session with that id or these 8 digits, or the file at that path, or all in that folder."""
        if os.path.isfile(name):
            return [places.place(name)]
        if os.path.isdir(name):
            return list(self.sessions(name))
        return [places.place(path) for path in places.main_files(places.by_id(root, name))]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one project."""
        wanted = None if cwd is None else os.path.normpath(cwd)
        for folder in places.chats(root):
            for path in places.main_files(places.files(folder)):
                place = places.place(path)
                if wanted is None or (place.cwd is not None and os.path.normpath(place.cwd) == wanted):
                    yield place

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """All that was ever said in the session and not taken back, also what a reset put out of reach."""
        log = MutationLog()
        try:
            _read(place.path, log)
            with open(place.path, "rb") as file:
                yield from GeminiEventBuilder(log, file, self.agent, place.native_id).events()
        except OSError as problem:
            body = {"text": str(problem), "code": "store_damaged", "path": place.path}
            yield NewEvent("notice", body, origin=Origin(self.agent, place.native_id, "unreadable"))

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether Gemini could go on with it as it is, and keep it."""
        log = MutationLog()
        problems: list[TranscriptProblem] = []
        open_calls: list[dict[str, Any]] = []
        try:
            _read(place.path, log)
            open_calls = self._dangling(place, log)
        except FileNotFoundError:
            problems.append(
                TranscriptProblem("no_transcript", "there is no file of it", {"path": place.path})
            )
        except OSError as problem:
            problems.append(TranscriptProblem("store_damaged", str(problem), {"path": place.path}))
        cwd = places.cwd(place.path, log) or place.cwd
        if not problems:
            problems = judge.judge(log, place.native_id, self._around(place, cwd), open_calls)
        found = judge.turns(log)
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=judge.is_sound(problems),
            problems=problems,
            dangling=open_calls,
            turns=len(found.complete),
            last_complete=found.complete.rfind(1) + 1 or None,
            title=log.title or place.title,
            cwd=cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """All that Gemini might delete with it: every file with its 8 digits, and its subagents'."""
        found = [place.path, *places.twins(place.path), *places.subagents(place.path, place.native_id)]
        return [path for path in found if os.path.isfile(path)]

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Those that were started for this very session; Gemini keeps no lock and no list of its own."""
        return open_files.named("gemini", place.native_id)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """What its owners started, and what a dead Gemini left behind in its project.

        A running call is not in the history, and its process does not say of which session it is.
        """
        table = tree.table()
        below = {p.pid for owner in self.owners(root, place) for p in tree.descendants(table, owner)}
        agents = [process for process in table.values() if _is_gemini(process.command)]
        led = {p.pid for p in (*agents, *tree.below(table, agents))}
        left = {
            pid for pid in marks.marks_marked("GEMINI_CLI", "1") if pid not in led and _is_in(pid, place.cwd)
        }
        return sorted(below | left)

    def _dangling(self, place: SessionRef, log: MutationLog) -> list[dict[str, Any]]:
        waiting = [entry for entry in log.conversation() if judge.dangling(entry, log)][:DANGLING]
        if not waiting:
            return []
        with open(place.path, "rb") as file:
            teller = GeminiEventBuilder(log, file, self.agent, place.native_id)
            return [
                {"call": call.id, "name": call.name, "input": call.input}
                for entry in waiting
                for call in teller.calls(entry)
                if call.outcome is None
            ]

    def _around(self, place: SessionRef, cwd: str | None) -> GeminiSurroundings:
        twins = places.twins(place.path)
        heads = [(path, places.head(path)) for path in twins]
        rivals = [path for path, log in heads if place.native_id in log.header_ids and log.said]
        minutes = [found for path in (place.path, *twins) if (found := places.minute(path)) is not None]
        own = places.home_of(place.path)
        project = os.path.join(cwd, places.FOLDER) if cwd is not None else None
        return GeminiSurroundings(
            twins=tuple(twins),
            rivals=tuple(rivals),
            keeps=keeps(own, project),
            minute=max(minutes, default=None),
            now=timestamps.now(),
        )


def _is_gemini(command: str) -> bool:
    """Whether a command line runs it: by its name, or as a script of node's."""
    return any("gemini" in os.path.basename(word) for word in command.split()[:3])


def _is_in(pid: int, cwd: str | None) -> bool:
    try:
        return cwd is not None and os.path.realpath(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:
        return False


def _read(path: str, log: MutationLog) -> None:
    with places.opened(path) as lines:
        for line in lines:
            log.take(line)
