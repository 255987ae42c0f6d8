"""`inspect` as a person asks for it: the store, our copies of it, and the processes that hold it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import msgspec

from holdfast import errors
from holdfast.home import Home
from holdfast.process import table as tree
from holdfast.transcripts.backups import TranscriptBackup
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem, TranscriptReader


def examine(reader: TranscriptReader, root: str, name: str, home: Home) -> Inspection:
    """Whether the session is sound, as far as all three can tell."""
    found = reader.find(root, name)
    if len(found) != 1:
        return _not_one(reader, name, found)
    place = found[0]
    seen = reader.inspect(place)
    problems = [*seen.problems, *_parted(home, reader, place), *_alive(reader, root, place)]
    sound = seen.sound and len(problems) == len(seen.problems)
    return msgspec.structs.replace(seen, problems=problems, sound=sound)


def _not_one(reader: TranscriptReader, name: str, found: list[SessionRef]) -> Inspection:
    paths: list[str] = sorted({place.path for place in found})
    code = "ambiguous_store" if found else reader.missing
    text = f"{len(found)} sessions could be meant" if found else f"{reader.agent} has no session {name}"
    problem = TranscriptProblem(code, text, {"paths": paths})
    return Inspection(agent=reader.agent, native_id=name, path=None, sound=False, problems=[problem])


def _parted(home: Home, reader: TranscriptReader, place: SessionRef) -> list[TranscriptProblem]:
    """What became of files and rows since we copied them; a store that cannot be read has told so itself."""
    texts = {
        "shrunk": "is shorter than when we last saw it",
        "rewritten": "is not what we last saw, continued",
        "missing": "is gone since we last saw it",
    }
    found = []
    native = TranscriptBackup(home.native(place.agent, place.native_id), place.native_id, reader)
    with suppress(errors.StoreUnreadable, errors.StoreBusy):
        for path, copy, change, rows in native.differences():
            if change in texts:
                where = path if rows is None else f"its share of {path}"
                evidence: dict[str, Any] = {"path": path, "copy": copy}
                found.append(TranscriptProblem(change, f"{where} {texts[change]}", evidence))
    return found


def _alive(reader: TranscriptReader, root: str, place: SessionRef) -> list[TranscriptProblem]:
    table = tree.table()
    found = []
    for code, text, pids in (
        ("live_owner", "a living process holds this session", reader.owners(root, place)),
        ("tools_running", "tools of this session still run", reader.tools(root, place)),
    ):
        named = [{"pid": pid, "command": table[pid].command} for pid in pids if pid in table]
        if named:
            shown = ", ".join(f"{os.path.basename(str(p['command']))[:60]} ({p['pid']})" for p in named)
            found.append(TranscriptProblem(code, f"{text}: {shown}", {"processes": named}))
    return found
