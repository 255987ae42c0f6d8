"""Facts for tests of the verdict: sound ones, and ways to spoil them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.resume.environment import FolderState
from holdfast.resume.facts import LastTask, ResumeFacts
from holdfast.transcripts.reader import Inspection, TranscriptProblem

STORE = Inspection(
    agent="demo", native_id="n1", path="/store/n1.jsonl", sound=True, turns=2, last_complete=2, cwd="/work"
)
SOUND = ResumeFacts(
    session="s1",
    agent="demo",
    token="n1",
    last=LastTask("t1", "succeeded"),
    store=STORE,
    folder=FolderState("/work"),
    can_fork=True,
    seen=10,
)


def but(**changes: Any) -> ResumeFacts:
    """Sound facts with something else in them."""
    return msgspec.structs.replace(SOUND, **changes)


def store(*codes: str, **changes: Any) -> Inspection:
    """A store with these problems."""
    problems = [TranscriptProblem(code, f"what {code} means", {}) for code in codes]
    given = {"sound": not problems, "problems": problems, **changes}
    return msgspec.structs.replace(STORE, **given)
