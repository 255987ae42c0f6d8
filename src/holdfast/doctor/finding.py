"""What a doctor saw, and the plan that follows: findings, steps, and a fingerprint of the state."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.doctor.step import Step

Progress = Callable[[int, int, str], None]  # done, of how many, what


class Finding(msgspec.Struct, frozen=True, kw_only=True):
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
    findings: Sequence[Finding]
    steps: Sequence[Step] = ()
    state: str = ""  # a digest of what was read, beyond what findings and steps say
    unfinished: Sequence[Finding] = ()  # operations of ours that were cut short; no part of the state

    @property
    def plan(self) -> list[dict[str, str]]:
        """The repairs, in words."""
        return [{"finding": f.id, "action": f.action} for f in self.findings if f.action]

    @property
    def shown(self) -> list[Finding]:
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
