"""How are the sessions of Kimi Code and kimi-cli found, read and inspected?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from holdfast.agents.kimi import kimi_cli, kimi_code, sessions
from holdfast.agents.kimi.sessions import CLI, KimiSessionFiles
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem, TranscriptReader

_TEXTS = {
    "torn_tail": "the last line is cut off",
    "bad_line": "some lines cannot be read and are skipped silently",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "some lines hold more than one record",
    "orphan_result": "results have no call",
    "forked_history": "two processes wrote at the same time: turns share a number",
}


def find_problems(
    transcript: kimi_code.KimiCodeWire | kimi_cli.KimiCliWire | kimi_cli.KimiCliMessages,
    context: kimi_cli.KimiCliMessages | None,
    folder: str | None,
    native_id: str,
) -> list[TranscriptProblem]:
    """The problems of a session whose folder has this id."""
    conversation = transcript.conversation
    if not conversation.records and (context is None or not context.conversation.records):
        return [TranscriptProblem("empty", "its file is empty")]
    problems = []
    if folder is not None and folder != native_id:
        text = f"its state file has the id {native_id}, its folder the id {folder}"
        problems.append(TranscriptProblem("session_id_mismatch", text, {"in_state": native_id}))
    if isinstance(transcript, kimi_code.KimiCodeWire) and conversation.records and not transcript.has_header:
        problems.append(TranscriptProblem("bad_header", "the first line is not a file header"))
    odd = [(code, lines, conversation.counts[code]) for code, lines in conversation.odd.items()]
    if context is not None:
        odd += [
            (code, lines, context.conversation.counts[code])
            for code, lines in context.conversation.odd.items()
        ]
    for code, lines, count in odd:
        problems.append(TranscriptProblem(code, _TEXTS.get(code, code), {"count": count, "lines": lines}))
    if isinstance(transcript, kimi_cli.KimiCliWire) and context is not None:
        lost = context.context.forgets(transcript)
        if lost is not None:
            text = "the last actions are not in the model's context, so a resume would forget them"
            problems.append(TranscriptProblem("context_forgets_step", text, {"calls": lost}))
    return problems + conversation.turns.problems()


# --- The reader

TITLE = "kimi-code"  # the process title of Kimi Code 2.1

_Transcript: TypeAlias = kimi_code.KimiCodeWire | kimi_cli.KimiCliWire | kimi_cli.KimiCliMessages


class KimiReader(TranscriptReader):
    """The sessions of Kimi Code and of kimi-cli; `form` says which."""

    agent = sessions.AGENT

    def root(self, env: Mapping[str, str]) -> str:
        """Kimi Code's folder; kimi-cli's folder is searched beside it."""
        return sessions.root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The session with this id or at this path; or all in this home or of this cwd."""
        if not os.path.exists(name):
            return [
                sessions.session_ref(f, home)
                for home in sessions.homes(root)
                for f in sessions.by_id(home, name)
            ]
        path = os.path.abspath(name)
        if (files := sessions.session_at(path)) is not None:
            return [sessions.session_ref(files)]
        if homes := sessions.homes(path):
            return [sessions.session_ref(files, home) for home in homes for files in sessions.sessions(home)]
        return list(self.sessions(root, path))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd."""
        for home in sessions.homes(root):
            for files in sessions.sessions(home, cwd):
                yield sessions.session_ref(files, home)

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """What happened, in order; the records of subagents are not part of it."""
        path, transcript = _conversation(ref)
        try:
            for line in jsonl.lines(path, _starts(transcript)):
                yield from transcript.on_line(line)
        except OSError as problem:
            body = {"text": str(problem), "code": _missing(problem).code, "path": path}
            yield NewEvent("notice", body)
        yield from transcript.end()

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether it can be resumed as it is."""
        path, transcript = _conversation(ref)
        problems: list[TranscriptProblem] = []
        try:
            for line in jsonl.lines(path, _starts(transcript)):
                transcript.on_line(line)
        except OSError as problem:
            problems.append(_missing(problem))
        transcript.end()
        if not problems:
            problems = find_problems(transcript, _context(ref, transcript), _folder_id(ref), ref.native_id)
        turns = transcript.conversation.turns
        return self.inspection(
            ref,
            problems,
            dangling=turns.dangling,
            turns=turns.count,
            last_complete=turns.last_complete,
        )

    def files(self, ref: SessionRef) -> list[str]:
        """All files in the session's folder."""
        files = sessions.session_at(ref.path)
        return sessions.files(files) if files is not None else []

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """Neither product has a lock: processes started for this session, or with its file open.

        Kimi Code hides its command line behind a title, so one in the session's folder may own it.
        """
        named = open_files.named("kimi", ref.native_id)
        return sorted({*named, *open_files.writers(ref.path), *open_files.titled(TITLE, ref.cwd)})


def _conversation(ref: SessionRef) -> tuple[str, _Transcript]:
    files = sessions.session_at(ref.path) or KimiSessionFiles(folder=os.path.dirname(ref.path), form=ref.form)
    if ref.form != CLI:
        return ref.path, kimi_code.KimiCodeWire(ref.native_id)
    if files.wire is not None:
        return files.wire, kimi_cli.KimiCliWire(ref.native_id)
    return files.context or ref.path, kimi_cli.KimiCliMessages(ref.native_id)


def _starts(transcript: _Transcript) -> tuple[bytes, ...]:
    if isinstance(transcript, kimi_code.KimiCodeWire):
        return kimi_code.STARTS
    return kimi_cli.WIRE_STARTS if isinstance(transcript, kimi_cli.KimiCliWire) else kimi_cli.CONTEXT_STARTS


def _context(ref: SessionRef, transcript: _Transcript) -> kimi_cli.KimiCliMessages | None:
    """What the model will get, if the session keeps it in a separate file."""
    files = sessions.session_at(ref.path)
    if not isinstance(transcript, kimi_cli.KimiCliWire) or files is None or files.context is None:
        return None
    messages = kimi_cli.KimiCliMessages(ref.native_id)
    try:
        for line in jsonl.lines(files.context, kimi_cli.CONTEXT_STARTS):
            messages.on_line(line)
    except OSError:
        return None
    return messages


def _folder_id(ref: SessionRef) -> str | None:
    """The id in the name of the session's folder, if any: it must equal the id in its state."""
    files = sessions.session_at(ref.path)
    name = os.path.basename(files.folder) if files is not None else ""
    return name if name.startswith("session_") else None


def _missing(problem: OSError) -> TranscriptProblem:
    if isinstance(problem, FileNotFoundError):
        return TranscriptProblem("no_transcript", "its file does not exist")
    return TranscriptProblem("store_damaged", f"its file cannot be read: {problem}")
