"""Findings: what recovery sees in a home, what it would do about it, and what it did."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from typing import Any

import msgspec

Signature = tuple[int, int, int]  # a file as it was looked at: inode, size, mtime


def signature(path: str) -> Signature | None:
    """A file as it is now; None if there is none."""
    try:
        what = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (what.st_ino, what.st_size, what.st_mtime_ns) if stat.S_ISREG(what.st_mode) else None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    code: str
    subject: str  # a session's id, else a file's name
    text: str
    action: str | None  # what a repair does; None: nothing safe can be done, a person decides
    evidence: dict[str, Any] = {}
    signature: Signature | None = None  # of the file that was judged

    @property
    def id(self) -> str:
        """The same finding has the same id every time."""
        return f"{self.code}:{self.subject}"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about a finding."""

    finding: str
    code: str
    subject: str
    result: str  # one sentence
    kept: list[str] = []  # where the bytes are that were replaced, or of which not all could be read
    recovered: int | None = None  # records that came back; stand-ins are not among them
    lost: list[str] = []  # records that no copy has any more, as "3" or "5-9"; a notice stands in for each


class Unhealed(msgspec.Struct, frozen=True, kw_only=True):
    """What could not be repaired, and where its bytes are."""

    code: str
    subject: str
    text: str
    kept: list[str] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a heal saw and did."""

    at: str
    sessions: int  # in the database when it was done
    compared: int  # mirrors that had to be read, not only looked at
    findings: list[Finding]
    done: list[Done]
    problems: list[str] = []  # repairs that failed, each told; the rest went on
    unhealed: list[Unhealed] = []  # findings that have no repair

    @property
    def healed(self) -> bool:
        """Whether anything was repaired."""
        return bool(self.done)


def unhealed(findings: Iterable[Finding]) -> list[Unhealed]:
    """Findings that nothing safe can be done about; a person decides."""
    return [
        Unhealed(
            code=one.code,
            subject=one.subject,
            text=one.text,
            kept=[one.evidence["file"]] if "file" in one.evidence else [],
        )
        for one in findings
        if one.action is None
    ]


def fingerprint(findings: list[Finding]) -> str:
    """A name for exactly this state of things."""
    digest = hashlib.sha256()
    for finding in sorted(findings, key=lambda f: f.id):
        digest.update(msgspec.json.encode(finding))
    return digest.hexdigest()[:16]


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding as the doctor prints it."""
    return {
        "id": finding.id,
        "code": finding.code,
        "subject": finding.subject,
        "text": finding.text,
        "safe": finding.action is not None,
        "action": finding.action,
        "evidence": finding.evidence,
    }
