"""What a doctor saw, and the plan that follows: findings, steps, and a fingerprint of the state."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.doctor.files import FileDigest

Value = str | int | float | None


class FileStep(msgspec.Struct, frozen=True, kw_only=True):
    """A file's bytes become others; only if they are still what they were."""

    path: str
    before: FileDigest | None  # None: there is no such file, and it is made by create-or-fail
    content: Callable[[], bytes] | None  # what it shall hold, asked once; None: the file goes away
    findings: tuple[str, ...] = ()  # the ids of what this mends
    says: str = ""  # a name for the content that changes when it does; else the findings must tell

    def identity(self) -> bytes:
        """What the plan's fingerprint takes of it."""
        kind = "remove" if self.content is None else "put"
        before = self.before and (self.before.sha256, self.before.size)
        return msgspec.json.encode([kind, before, self.findings, self.says])


class RowChange(msgspec.Struct, frozen=True):
    """One change of rows; the transaction is taken back if it changes another number of them."""

    sql: str
    values: Sequence[Value] = ()
    rows: int = 1


class RowCheck(msgspec.Struct, frozen=True):
    """A query, and what it gives once the change is made."""

    sql: str
    values: Sequence[Value]
    expected: Sequence[Sequence[Value]]


class DatabaseStep(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a SQLite database change, all in one transaction or none.

    Statements must name the values that they replace, so that a change made meanwhile is seen.
    The checks tell from the rows alone whether the change is made.
    """

    path: str
    statements: Sequence[RowChange]
    checks: Sequence[RowCheck]
    findings: tuple[str, ...] = ()

    def identity(self) -> bytes:
        """What the plan's fingerprint takes of it."""
        shown: Any = [(s.sql, s.values, s.rows) for s in self.statements]
        return msgspec.json.encode(["rows", shown, self.findings])


Step = FileStep | DatabaseStep


# --- What a doctor saw, and the plan that follows: findings, steps, and a fingerprint of the state.

Progress = Callable[[int, int, str], None]  # done, of how many, what


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    code: str
    subject: str  # a session's id, else a file's name
    text: str
    action: str | None = None  # what the plan does about it; None: it is reported and left alone
    evidence: dict[str, Any] = {}
    part: str = ""  # tells several findings of one code and subject apart

    @property
    def id(self) -> str:
        """The same finding has the same id every time."""
        return f"{self.code}:{self.subject}" + (f":{self.part}" if self.part else "")

    @property
    def safe(self) -> bool:
        """Whether the plan repairs it."""
        return self.action is not None

    def as_json(self) -> dict[str, Any]:
        """As `--json` and the API show it."""
        return {
            "id": self.id,
            "code": self.code,
            "subject": self.subject,
            "text": self.text,
            "safe": self.safe,
            "action": self.action,
            "evidence": self.evidence,
        }


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one look showed, and the steps that would mend it."""

    target: str  # `self`, `hapi`, `hermes`
    path: str
    findings: Sequence[DoctorFinding]
    steps: Sequence[Step] = ()
    state: str = ""  # a digest of what was read, beyond what findings and steps say
    unfinished: Sequence[DoctorFinding] = ()  # operations of ours that were cut short; no part of the state

    @property
    def plan(self) -> list[dict[str, str]]:
        """The repairs, in words."""
        return [{"finding": f.id, "action": f.action} for f in self.findings if f.action]

    @property
    def shown(self) -> list[DoctorFinding]:
        """All that the user is told."""
        return [*self.unfinished, *self.findings]

    @property
    def fingerprint(self) -> str:
        """Names the state that the plan was made from, wherever it lies."""
        digest = hashlib.sha256(f"{self.target}\0{self.state}\0".encode())
        for finding in sorted(self.findings, key=lambda f: f.id):
            digest.update(msgspec.json.encode(finding))
        for step in self.steps:
            digest.update(step.identity())
        return digest.hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        """As `--json` and the API show it."""
        return {
            "target": self.target,
            "path": self.path,
            "findings": [f.as_json() for f in self.shown],
            "plan": self.plan,
            "fingerprint": self.fingerprint,
        }


# --- What the doctor must know of a program to look at its files and mend them.


class RepairTarget(Protocol):
    """One install of one program."""

    target: str  # the program's name, as on the command line
    path: str  # the folder (real path) whose files may be changed; it is locked meanwhile

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All findings and the steps that would mend them; nothing is changed by it, nor any time."""
        ...

    def running(self) -> list[str]:
        """For each sign that the program runs on these files, one sentence that says how it is known."""
        ...
