"""Codex's threads: found, read and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.history import jsonl, marks
from holdfast.history.codex import judge, lock, match, opening, places
from holdfast.history.codex.fold import Fold
from holdfast.history.codex.record import STARTS
from holdfast.history.reader import Inspection, Place, Problem
from holdfast.model.event import NewEvent, Origin


class CodexReader:
    """The rollouts of Codex."""

    agent = "codex"
    missing = "no_transcript"

    def said(self, kind: str, body: dict[str, Any]) -> tuple[str, ...] | None:
        """What an event says in the stream and in a rollout alike."""
        return match.said(kind, body)

    def root(self, env: Mapping[str, str]) -> str:
        """`$CODEX_HOME`."""
        return places.root(dict(env))

    def find(self, root: str, name: str) -> list[Place]:
        """The thread with that UUID, or the rollout at that path, or all in that folder."""
        if os.path.isfile(name):
            return [places.place(name)]
        if os.path.isdir(name):
            return [places.place(path) for path in places.rollouts(name)]
        return [places.place(path) for path in places.by_id(root, name)]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[Place]:
        """All threads, or those whose last turn was in that folder."""
        wanted = None if cwd is None else os.path.normpath(cwd)
        for path in places.rollouts(root):
            place = places.place(path)
            if wanted is None or (place.cwd is not None and os.path.normpath(place.cwd) == wanted):
                yield place

    def events(self, place: Place) -> Iterator[NewEvent]:
        """What the thread's rollout tells, in its order."""
        fold = Fold(self.agent, place.native_id)
        try:
            with opening.opened(place.path) as file:
                for line in jsonl.read(file, STARTS):
                    yield from fold.take(line)
        except (OSError, opening.Compressed) as problem:
            yield self._unreadable(place, problem)
        yield from fold.end()

    def inspect(self, place: Place) -> Inspection:
        """Whether Codex could go on with it as it is."""
        fold = Fold(self.agent, place.native_id)
        problems: list[Problem] = []
        readable = True
        try:
            with opening.opened(place.path) as file:
                for line in jsonl.read(file, STARTS):
                    fold.take(line)
        except FileNotFoundError:
            readable = False
            problems.append(Problem("no_transcript", "there is no rollout of it", {"path": place.path}))
        except OSError as problem:
            readable = False
            problems.append(Problem("store_damaged", str(problem), {"path": place.path}))
        except opening.Compressed as problem:
            readable = False
            problems.append(Problem("compressed", str(problem), {"path": place.path}))
        fold.end()
        facts = fold.facts
        if readable:
            problems += judge.judge(facts, place.native_id)
        if twins := [path for path in self._twins(place) if path != place.path]:
            problems.append(Problem("multiple_files", "more than one rollout has its id", {"others": twins}))
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

    def files(self, place: Place) -> list[str]:
        """The rollout; all else that Codex has of a thread it makes anew from this."""
        return [place.path] if os.path.isfile(place.path) else []

    def owners(self, root: str, place: Place) -> list[int]:
        """Who holds the thread's lock."""
        return lock.owners(root, place.native_id)

    def tools(self, root: str, place: Place) -> list[int]:
        """What it started for the thread: Codex 0.166 tells each of its commands whose it is."""
        return marks.marked("CODEX_THREAD_ID", place.native_id)

    def _twins(self, place: Place) -> list[str]:
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

    def _unreadable(self, place: Place, problem: Exception) -> NewEvent:
        body = {"text": str(problem), "code": "store_damaged", "path": place.path}
        return NewEvent("notice", body, origin=Origin(self.agent, place.native_id, "unreadable"))
