"""What does `holdfast inspect` report? The state of the store, of our backups, and of living processes."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import msgspec

from holdfast import errors
from holdfast.home import Home
from holdfast.process import table as process_table
from holdfast.transcripts.backups import TranscriptBackup
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem, TranscriptReader


def inspect_session(reader: TranscriptReader, root: str, name: str, home: Home) -> Inspection:
    """Inspect the session in its store, against our backups, and against the process table."""
    refs = reader.find(root, name)
    if len(refs) != 1:
        return _not_one(reader, name, refs)
    ref = refs[0]
    inspection = reader.inspect(ref)
    problems = [
        *inspection.problems,
        *_changed_since_backup(home, reader, ref),
        *_living_processes(reader, root, ref),
    ]
    sound = inspection.sound and len(problems) == len(inspection.problems)
    return msgspec.structs.replace(inspection, problems=problems, sound=sound)


def _not_one(reader: TranscriptReader, name: str, refs: list[SessionRef]) -> Inspection:
    paths: list[str] = sorted({ref.path for ref in refs})
    code = "ambiguous_store" if refs else reader.missing
    text = f"{len(refs)} sessions match" if refs else f"{reader.agent} has no session {name}"
    problem = TranscriptProblem(code, text, {"paths": paths})
    return Inspection(agent=reader.agent, native_id=name, path=None, sound=False, problems=[problem])


def _changed_since_backup(home: Home, reader: TranscriptReader, ref: SessionRef) -> list[TranscriptProblem]:
    """Files and rows that changed since our backup. An unreadable store is already reported by the reader."""
    texts = {
        "shrunk": "is shorter than our backup",
        "rewritten": "does not continue our backup",
        "missing": "no longer exists",
    }
    problems = []
    native = TranscriptBackup(home.native(ref.agent, ref.native_id), ref.native_id, reader)
    with suppress(errors.StoreUnreadable, errors.StoreBusy):
        for path, copy, change, rows in native.differences():
            if change in texts:
                where = path if rows is None else f"the session in {path}"
                evidence: dict[str, Any] = {"path": path, "copy": copy}
                problems.append(TranscriptProblem(change, f"{where} {texts[change]}", evidence))
    return problems


def _living_processes(reader: TranscriptReader, root: str, ref: SessionRef) -> list[TranscriptProblem]:
    table = process_table.table()
    problems = []
    for code, text, pids in (
        ("live_owner", "a living process has this session open", reader.owners(root, ref)),
        ("tools_running", "tools of this session are still running", reader.tools(root, ref)),
    ):
        named = [{"pid": pid, "command": table[pid].command} for pid in pids if pid in table]
        if named:
            names = ", ".join(f"{os.path.basename(str(p['command']))[:60]} ({p['pid']})" for p in named)
            problems.append(TranscriptProblem(code, f"{text}: {names}", {"processes": named}))
    return problems
