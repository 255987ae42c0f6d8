"""Which files are in the folders of a home? Opens nothing but tombstones."""

from __future__ import annotations

import json
import os
import stat as statmode
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from holdfast import durable_io, ids
from holdfast.home import Home
from holdfast.recovery.findings import Finding, Signature

MIRROR_SUFFIX = ".jsonl"
TOMBSTONE_SUFFIX = ".tombstone.json"
UNKNOWN = "?"  # the id of a deletion whose tombstone is unreadable


class MirrorFile(NamedTuple):
    """The path and the `stat` of a mirror file."""

    path: str
    stat: os.stat_result

    @property
    def signature(self) -> Signature:
        """Identifies this version of the file."""
        return (self.stat.st_ino, self.stat.st_size, self.stat.st_mtime_ns)


class HomeScan(NamedTuple):
    """The files in the folders of a home."""

    mirrors: dict[str, MirrorFile]
    trashed: dict[str, MirrorFile]
    tombstones: dict[str, dict[str, Any]]
    findings: list[Finding]  # files that do not belong there
    blocked: set[str]  # names in `sessions/` of things that are not mirrors
    intact: set[str]  # sessions whose mirror matches its seal


def scan_home(home: Home, seals: Mapping[str, str]) -> HomeScan:
    """List `sessions/` and `trash/`.

    `seals`: by file name, the size and time of a mirror that needs no comparison.
    """
    findings: list[Finding] = []
    intact: set[str] = set()
    mirrors = dict(_mirrors(home.sessions, findings, seals, intact))
    blocked = {finding.subject for finding in findings}
    trashed = dict(_mirrors(home.trash, findings, {}, set()))
    tombstones = dict(_tombstones(home.trash, findings))
    for folder in (home.quarantine, home.reports):
        if os.path.isdir(folder):
            findings += [_temp_file(path) for path in durable_io.old_temps(folder, time.time())]
    return HomeScan(mirrors, trashed, tombstones, findings, blocked, intact)


def _mirrors(
    folder: str, findings: list[Finding], seals: Mapping[str, str], intact: set[str]
) -> Iterator[tuple[str, MirrorFile]]:
    now = time.time()
    for entry in _entries(folder):
        if entry.name == ".lock" or entry.name.endswith(TOMBSTONE_SUFFIX):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # another process removed it
        if _matches_seal(seals.get(entry.name), status):
            intact.add(entry.name[: -len(MIRROR_SUFFIX)])
            continue
        name, suffix = os.path.splitext(entry.name)
        is_file = statmode.S_ISREG(status.st_mode)
        if is_file and durable_io.is_temp(entry.name):
            if now - status.st_mtime > durable_io.TEMP_OLD_S:
                findings.append(_temp_file(entry.path))
        elif is_file and suffix == MIRROR_SUFFIX and ids.is_id(name, ids.SESSION):
            yield name, MirrorFile(entry.path, status)
        else:
            findings.append(_foreign(entry.path, entry.name, status))


def _matches_seal(seal: str | None, status: os.stat_result) -> bool:
    return (
        seal is not None
        and seal.endswith(f"/{status.st_size}/{status.st_mtime_ns}")
        and statmode.S_ISREG(status.st_mode)
    )


def _entries(folder: str) -> list[os.DirEntry[str]]:
    if not os.path.isdir(folder):
        return []
    with os.scandir(folder) as entries:
        return list(entries)


def _temp_file(path: str) -> Finding:
    return Finding(
        code="temp_litter",
        subject=os.path.basename(path),
        text="a temporary file of a dead process",
        action="remove it",
        evidence={"file": path},
    )


def _foreign(path: str, name: str, status: os.stat_result) -> Finding:
    kind = "a file"
    if statmode.S_ISDIR(status.st_mode):
        kind = "a directory"
    elif statmode.S_ISLNK(status.st_mode):
        kind = "a link" if os.path.exists(path) else "a dangling link"
    return Finding(
        code="foreign_file",
        subject=printable(name),
        text=f"{kind} that is not a mirror; it is left alone",
        action=None,
        evidence={"file": printable(path)},
    )


def _tombstones(folder: str, findings: list[Finding]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in _entries(folder):
        session = entry.name.removesuffix(TOMBSTONE_SUFFIX)
        if session == entry.name:
            continue
        try:
            if not entry.is_file(follow_symlinks=False):
                raise ValueError("it is not a file")
            with open(entry.path, "rb") as file:
                tombstone = json.loads(file.read())
            if tombstone["session"] != session or not isinstance(tombstone["deletion"]["id"], str):
                raise ValueError("it belongs to another session")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            findings.append(unreadable(entry.path, problem))
            if ids.is_id(session, ids.SESSION):
                # Enough to keep a session deleted that only a file still has, not to delete one.
                yield session, {"deletion": {"id": UNKNOWN, "by": "?", "reason": "?"}}
            continue
        yield session, tombstone


def printable(name: str) -> str:
    """A file name as valid text, whatever its bytes are."""
    return os.fsencode(name).decode(errors="backslashreplace")


def unreadable(path: str, problem: Exception) -> Finding:
    """The finding for a file that belongs here and is unreadable."""
    return Finding(
        code="unreadable_file",
        subject=printable(os.path.basename(path)),
        text=f"unreadable ({printable(str(problem))}); it is left alone",
        action=None,
        evidence={"file": printable(path)},
    )
