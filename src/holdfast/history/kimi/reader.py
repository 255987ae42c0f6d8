"""Sessions of both products: found, read and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from holdfast.history import jsonl, living
from holdfast.history.kimi import judge, kimi_cli, kimi_code, places
from holdfast.history.kimi.places import CLI, Found
from holdfast.history.reader import Inspection, Place, Problem
from holdfast.model.event import NewEvent

TITLE = "kimi-code"  # what Kimi Code 2.1 shows of itself in the process table

_Fold: TypeAlias = kimi_code.Fold | kimi_cli.Wire | kimi_cli.Messages


class KimiReader:
    """Kimi Code's sessions, and those of kimi-cli; `form` tells which."""

    agent = places.AGENT
    missing = "no_transcript"

    def root(self, env: Mapping[str, str]) -> str:
        """Kimi Code's folder; kimi-cli's is looked for beside it."""
        return places.root(env)

    def find(self, root: str, name: str) -> list[Place]:
        """The session with that id, or at that path; or all in that home, or of that cwd."""
        if not os.path.exists(name):
            return [places.place(f, home) for home in places.homes(root) for f in places.by_id(home, name)]
        path = os.path.abspath(name)
        if (found := places.session_at(path)) is not None:
            return [places.place(found)]
        if homes := places.homes(path):
            return [places.place(found, home) for home in homes for found in places.sessions(home)]
        return list(self.sessions(root, path))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[Place]:
        """All sessions, or those of one cwd."""
        for home in places.homes(root):
            for found in places.sessions(home, cwd):
                yield places.place(found, home)

    def events(self, place: Place) -> Iterator[NewEvent]:
        """What happened, in its order; a subagent's own records are not part of it."""
        path, fold = _fold(place)
        try:
            for line in jsonl.lines(path, _starts(fold)):
                yield from fold.take(line)
        except OSError as problem:
            body = {"text": str(problem), "code": _missing(problem).code, "path": path}
            yield NewEvent("notice", body)
        yield from fold.end()

    def inspect(self, place: Place) -> Inspection:
        """Whether it could go on as it is."""
        path, fold = _fold(place)
        problems: list[Problem] = []
        try:
            for line in jsonl.lines(path, _starts(fold)):
                fold.take(line)
        except OSError as problem:
            problems.append(_missing(problem))
        fold.end()
        if not problems:
            problems = judge.judge(fold, _context(place, fold), _stated(place), place.native_id)
        turns = fold.story.turns
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=not problems,
            problems=problems,
            dangling=turns.dangling,
            turns=turns.count,
            last_complete=turns.last_complete,
            title=place.title,
            cwd=place.cwd,
        )

    def files(self, place: Place) -> list[str]:
        """All in the session's folder."""
        found = places.session_at(place.path)
        return places.files(found) if found is not None else []

    def owners(self, root: str, place: Place) -> list[int]:
        """Neither product has a lock: those who were started for this session, or have its file open.

        Kimi Code hides its command line behind a title: one that works in the session's folder may have it.
        """
        named = living.named("kimi", place.native_id)
        return sorted({*named, *living.writers(place.path), *living.titled(TITLE, place.cwd)})

    def tools(self, root: str, place: Place) -> list[int]:
        """Commands of calls that have no result, still running in the session's folder."""
        return living.commands(self.inspect(place).dangling, place.cwd)


def _fold(place: Place) -> tuple[str, _Fold]:
    found = places.session_at(place.path) or Found(folder=os.path.dirname(place.path), form=place.form)
    if place.form != CLI:
        return place.path, kimi_code.Fold(place.native_id)
    if found.wire is not None:
        return found.wire, kimi_cli.Wire(place.native_id)
    return found.context or place.path, kimi_cli.Messages(place.native_id)


def _starts(fold: _Fold) -> tuple[bytes, ...]:
    if isinstance(fold, kimi_code.Fold):
        return kimi_code.STARTS
    return kimi_cli.WIRE_STARTS if isinstance(fold, kimi_cli.Wire) else kimi_cli.CONTEXT_STARTS


def _context(place: Place, fold: _Fold) -> kimi_cli.Messages | None:
    """What the model will be given, of a session that has it in a file beside what happened."""
    found = places.session_at(place.path)
    if not isinstance(fold, kimi_cli.Wire) or found is None or found.context is None:
        return None
    messages = kimi_cli.Messages(place.native_id)
    try:
        for line in jsonl.lines(found.context, kimi_cli.CONTEXT_STARTS):
            messages.take(line)
    except OSError:
        return None
    return messages


def _stated(place: Place) -> str | None:
    """The id that the session's folder has, if it says one: it must be the one in its state."""
    found = places.session_at(place.path)
    name = os.path.basename(found.folder) if found is not None else ""
    return name if name.startswith("session_") else None


def _missing(problem: OSError) -> Problem:
    if isinstance(problem, FileNotFoundError):
        return Problem("no_transcript", "its file is not there")
    return Problem("store_damaged", f"its file cannot be read: {problem}")
