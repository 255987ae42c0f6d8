"""What a diagnosis found, the steps of the repair, and the fingerprint of the state it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.doctor.files import FileDigest

Value = str | int | float | None
Progress = Callable[[int, int, str], None]  # done, total, current item


class FileStep(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces the bytes of a file, only if they did not change since the diagnosis."""

    path: str
    before: FileDigest | None  # None: the file does not exist and is created exclusively
    content: Callable[[], bytes] | None  # the new bytes, read once; None: the file is removed
    findings: tuple[str, ...] = ()  # the ids of the findings that it repairs
    says: str = ""  # changes with the content; needed where the findings do not

    def identity(self) -> bytes:
        """Its part of the plan's fingerprint."""
        kind = "remove" if self.content is None else "put"
        before = self.before and (self.before.sha256, self.before.size)
        return msgspec.json.encode([kind, before, self.findings, self.says])


class RowChange(msgspec.Struct, frozen=True):
    """One SQL statement; the transaction is rolled back if it changes another number of rows."""

    sql: str
    values: Sequence[Value] = ()
    rows: int = 1


class RowCheck(msgspec.Struct, frozen=True):
    """A query, and its result once the change is applied."""

    sql: str
    values: Sequence[Value]
    expected: Sequence[Sequence[Value]]


class DatabaseStep(msgspec.Struct, frozen=True, kw_only=True):
    """Changes rows of a SQLite database in one transaction.

    Each statement names the values that it replaces, so it detects a concurrent change. The checks decide
    from the rows alone whether the change is applied.
    """

    path: str
    statements: Sequence[RowChange]
    checks: Sequence[RowCheck]
    findings: tuple[str, ...] = ()

    def identity(self) -> bytes:
        """Its part of the plan's fingerprint."""
        changes: Any = [(s.sql, s.values, s.rows) for s in self.statements]
        return msgspec.json.encode(["rows", changes, self.findings])


Step = FileStep | DatabaseStep


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem that the doctor found."""

    id: str = ""  # stable: the same finding has the same id in every diagnosis
    code: str
    subject: str  # a session's id, or a file's name
    text: str
    safe: bool = False  # the plan repairs it
    action: str | None = None  # what the plan does about it; None: nothing
    evidence: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Derive the id, unless it is set, and whether the plan repairs it."""
        if not self.id:
            msgspec.structs.force_setattr(self, "id", finding_id(self.code, self.subject))
        msgspec.structs.force_setattr(self, "safe", self.action is not None)


def finding_id(code: str, subject: str, part: str = "") -> str:
    """The id of a finding; `part` distinguishes several with one code and subject."""
    return f"{code}:{subject}" + (f":{part}" if part else "")


class PlannedAction(msgspec.Struct, frozen=True):
    """What is done about one finding."""

    finding: str
    action: str


class DiagnosisReport(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnosis as `--json` and the API show it."""

    target: str
    path: str
    findings: list[DoctorFinding]
    plan: list[PlannedAction]
    fingerprint: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the doctor found, and the steps that repair it."""

    target: str  # `self`, `hapi`, `hermes`
    path: str
    findings: Sequence[DoctorFinding]
    steps: Sequence[Step] = ()
    state: str = ""  # a digest of what was read, beyond findings and steps
    unfinished: Sequence[DoctorFinding] = ()  # interrupted repairs of ours; not part of the state

    @property
    def plan(self) -> list[PlannedAction]:
        """What the plan does about each finding."""
        return [PlannedAction(f.id, f.action) for f in self.findings if f.action]

    @property
    def shown(self) -> list[DoctorFinding]:
        """All findings that the user sees."""
        return [*self.unfinished, *self.findings]

    @property
    def fingerprint(self) -> str:
        """Identifies the state that the plan was made from, wherever the install is."""
        digest = hashlib.sha256(f"{self.target}\0{self.state}\0".encode())
        for finding in sorted(self.findings, key=lambda f: f.id):
            digest.update(msgspec.json.encode(finding))
        for step in self.steps:
            digest.update(step.identity())
        return digest.hexdigest()[:16]

    def report(self) -> DiagnosisReport:
        """What `--json` and the API show."""
        return DiagnosisReport(
            target=self.target,
            path=self.path,
            findings=self.shown,
            plan=self.plan,
            fingerprint=self.fingerprint,
        )

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        value: dict[str, Any] = msgspec.to_builtins(self.report())
        return value


class RepairTarget(Protocol):
    """One install of a program that the doctor can repair."""

    target: str  # the program's name on the command line
    path: str  # the real path of the folder whose files may change; it is locked during a repair

    def diagnose(self, progress: Progress | None = None) -> Diagnosis:
        """All findings and the steps that repair them; it changes nothing, not even a file time."""
        ...

    def running(self) -> list[str]:
        """One sentence for each process that uses these files."""
        ...
