"""Findings: what is wrong in a home, what a repair would do, and what it did."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from typing import Any

import msgspec

Signature = tuple[int, int, int]  # a version of a file: inode, size, mtime


def signature(path: str) -> Signature | None:
    """The current version of a file. None if there is no such file."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    code: str
    subject: str  # a session id or a file name
    text: str
    action: str | None  # what a repair does; None: no repair is safe, a person decides
    evidence: dict[str, Any] = {}
    signature: Signature | None = None  # of the examined file

    @property
    def id(self) -> str:
        """The same for the same finding every time."""
        return f"{self.code}:{self.subject}"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A repair that was done."""

    finding: str
    code: str
    subject: str
    result: str  # one sentence
    kept: list[str] = []  # files with the bytes that were replaced or only partly readable
    recovered: int | None = None  # records that are back in the database, without placeholders
    lost: list[str] = []  # records that no copy has, as "3" or "5-9"; a notice replaces each


class Unhealed(msgspec.Struct, frozen=True, kw_only=True):
    """A finding without a repair, and the files with its bytes."""

    code: str
    subject: str
    text: str
    kept: list[str] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a heal found and repaired."""

    at: str
    sessions: int  # in the database after the repairs
    compared: int  # mirrors whose content was read
    findings: list[Finding]
    done: list[Done]
    problems: list[str] = []  # repairs that failed; they do not stop the others
    unhealed: list[Unhealed] = []  # findings that have no repair

    @property
    def healed(self) -> bool:
        """Whether anything was repaired."""
        return bool(self.done)


def unhealed(findings: Iterable[Finding]) -> list[Unhealed]:
    """The findings that have no safe repair."""
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
    """Identifies exactly this set of findings."""
    digest = hashlib.sha256()
    for finding in sorted(findings, key=lambda f: f.id):
        digest.update(msgspec.json.encode(finding))
    return digest.hexdigest()[:16]


def as_json(finding: Finding) -> dict[str, Any]:
    """The JSON form of a finding that the doctor prints."""
    return {
        "id": finding.id,
        "code": finding.code,
        "subject": finding.subject,
        "text": finding.text,
        "safe": finding.action is not None,
        "action": finding.action,
        "evidence": finding.evidence,
    }
