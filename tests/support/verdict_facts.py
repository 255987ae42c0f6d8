"""Facts for tests of the verdict: sound ones, and ways to spoil them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.resume.environment import Folder
from holdfast.resume.facts import Ended, Facts
from holdfast.transcripts.reader import Inspection, TranscriptProblem

STORE = Inspection(
    agent="demo", native_id="n1", path="/store/n1.jsonl", sound=True, turns=2, last_complete=2, cwd="/work"
)
SOUND = Facts(
    session="s1",
    agent="demo",
    token="n1",
    last=Ended("t1", "succeeded"),
    store=STORE,
    folder=Folder("/work"),
    can_fork=True,
    seen=10,
)


def but(**changes: Any) -> Facts:
    """Sound facts with something else in them."""
    return msgspec.structs.replace(SOUND, **changes)


def store(*codes: str, **changes: Any) -> Inspection:
    """A store with these problems."""
    problems = [TranscriptProblem(code, f"what {code} means", {}) for code in codes]
    given = {"sound": not problems, "problems": problems, **changes}
    return msgspec.structs.replace(STORE, **given)
