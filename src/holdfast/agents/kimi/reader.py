"""Sessions of both products: found, read and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from holdfast.agents.kimi import kimi_cli, kimi_code
from holdfast.agents.kimi import sessions as places
from holdfast.agents.kimi.sessions import CLI, KimiSessionFiles
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem

_TEXTS = {
    "torn_tail": "the last line is cut off",
    "bad_line": "lines that cannot be read, which are passed over in silence",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "lines that hold more than one record",
    "orphan_result": "results of calls that are not there",
    "forked_history": "two processes wrote into it at once: turns with the same number",
}


def judge(
    fold: kimi_code.KimiCodeWire | kimi_cli.KimiCliWire | kimi_cli.KimiCliMessages,
    context: kimi_cli.KimiCliMessages | None,
    folder: str | None,
    native_id: str,
) -> list[TranscriptProblem]:
    """What is wrong with a session whose folder says that id."""
    story = fold.story
    if not story.records and (context is None or not context.story.records):
        return [TranscriptProblem("empty", "its file is empty")]
    problems = []
    if folder is not None and folder != native_id:
        text = f"its state says that it is {native_id}, its folder that it is {folder}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_state": native_id}))
    if isinstance(fold, kimi_code.KimiCodeWire) and story.records and not fold.has_header:
        problems.append(
            TranscriptProblem("bad_header", "its first line does not say what kind of file it is")
        )
    odd = [(code, lines, story.counts[code]) for code, lines in story.odd.items()]
    if context is not None:
        odd += [(code, lines, context.story.counts[code]) for code, lines in context.story.odd.items()]
    for code, lines, count in odd:
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), {"count": count, "lines": lines}))
    if isinstance(fold, kimi_cli.KimiCliWire) and context is not None:
        lost = context.context.forgets(fold)
        if lost is not None:
            text = "what was done last is not in what the model will be given, and would be forgotten"
            problems.append(TranscriptProblem("context_forgets_step", text, {"calls": lost}))
    return problems + story.turns.problems()


# --- Sessions of both products: found, read and judged.

TITLE = "kimi-code"  # what Kimi Code 2.1 shows of itself in the process table

_Fold: TypeAlias = kimi_code.KimiCodeWire | kimi_cli.KimiCliWire | kimi_cli.KimiCliMessages


class KimiReader:
    """Kimi Code's sessions, and those of kimi-cli; `form` tells which."""

    agent = places.AGENT
    missing = "no_transcript"

    def root(self, env: Mapping[str, str]) -> str:
        """Kimi Code's folder; kimi-cli's is looked for beside it."""
        return places.root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The session with that id, or at that path; or all in that home, or of that cwd."""
        if not os.path.exists(name):
            return [places.place(f, home) for home in places.homes(root) for f in places.by_id(home, name)]
        path = os.path.abspath(name)
        if (found := places.session_at(path)) is not None:
            return [places.place(found)]
        if homes := places.homes(path):
            return [places.place(found, home) for home in homes for found in places.sessions(home)]
        return list(self.sessions(root, path))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd."""
        for home in places.homes(root):
            for found in places.sessions(home, cwd):
                yield places.place(found, home)

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """What happened, in its order; a subagent's own records are not part of it."""
        path, fold = _fold(place)
        try:
            for line in jsonl.lines(path, _starts(fold)):
                yield from fold.take(line)
        except OSError as problem:
            body = {"text": str(problem), "code": _missing(problem).code, "path": path}
            yield NewEvent("notice", body)
        yield from fold.end()

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether it could go on as it is."""
        path, fold = _fold(place)
        problems: list[TranscriptProblem] = []
        try:
            for line in jsonl.lines(path, _starts(fold)):
                fold.take(line)
        except OSError as problem:
            problems.append(_missing(problem))
        fold.end()
        if not problems:
            problems = judge(fold, _context(place, fold), _stated(place), place.native_id)
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

    def files(self, place: SessionRef) -> list[str]:
        """All in the session's folder."""
        found = places.session_at(place.path)
        return places.files(found) if found is not None else []

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Neither product has a lock: those who were started for this session, or have its file open.

        Kimi Code hides its command line behind a title: one that works in the session's folder may have it.
        """
        named = open_files.named("kimi", place.native_id)
        return sorted({*named, *open_files.writers(place.path), *open_files.titled(TITLE, place.cwd)})

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """Commands of calls that have no result, still running in the session's folder."""
        return open_files.commands(self.inspect(place).dangling, place.cwd)


def _fold(place: SessionRef) -> tuple[str, _Fold]:
    found = places.session_at(place.path) or KimiSessionFiles(
        folder=os.path.dirname(place.path), form=place.form
    )
    if place.form != CLI:
        return place.path, kimi_code.KimiCodeWire(place.native_id)
    if found.wire is not None:
        return found.wire, kimi_cli.KimiCliWire(place.native_id)
    return found.context or place.path, kimi_cli.KimiCliMessages(place.native_id)


def _starts(fold: _Fold) -> tuple[bytes, ...]:
    if isinstance(fold, kimi_code.KimiCodeWire):
        return kimi_code.STARTS
    return kimi_cli.WIRE_STARTS if isinstance(fold, kimi_cli.KimiCliWire) else kimi_cli.CONTEXT_STARTS


def _context(place: SessionRef, fold: _Fold) -> kimi_cli.KimiCliMessages | None:
    """What the model will be given, of a session that has it in a file beside what happened."""
    found = places.session_at(place.path)
    if not isinstance(fold, kimi_cli.KimiCliWire) or found is None or found.context is None:
        return None
    messages = kimi_cli.KimiCliMessages(place.native_id)
    try:
        for line in jsonl.lines(found.context, kimi_cli.CONTEXT_STARTS):
            messages.take(line)
    except OSError:
        return None
    return messages


def _stated(place: SessionRef) -> str | None:
    """The id that the session's folder has, if it says one: it must be the one in its state."""
    found = places.session_at(place.path)
    name = os.path.basename(found.folder) if found is not None else ""
    return name if name.startswith("session_") else None


def _missing(problem: OSError) -> TranscriptProblem:
    if isinstance(problem, FileNotFoundError):
        return TranscriptProblem("no_transcript", "its file is not there")
    return TranscriptProblem("store_damaged", f"its file cannot be read: {problem}")
