"""What lies in the folders of a home; nothing is opened but tombstones."""

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

ENDING = ".jsonl"
GRAVE = ".tombstone.json"
UNKNOWN = "?"  # the id of a deletion whose tombstone cannot be read


class Sight(NamedTuple):
    """A mirror file as it lies there."""

    path: str
    stat: os.stat_result

    @property
    def signature(self) -> Signature:
        """The file as it was looked at."""
        return (self.stat.st_ino, self.stat.st_size, self.stat.st_mtime_ns)


class Survey(NamedTuple):
    """All there is to see in the folders."""

    mirrors: dict[str, Sight]
    trashed: dict[str, Sight]
    tombstones: dict[str, dict[str, Any]]
    strange: list[Finding]
    taken: set[str]  # names in `sessions/` that something has which is no mirror
    intact: set[str]  # sessions whose mirror is as it was sealed


def survey(home: Home, seals: Mapping[str, str]) -> Survey:
    """What lies in `sessions/` and `trash/`; what does not belong there is named.

    `seals` says of a mirror, by its file's name, how it must look to need no closer look.
    """
    strange: list[Finding] = []
    intact: set[str] = set()
    mirrors = dict(_mirrors(home.sessions, strange, seals, intact))
    taken = {finding.subject for finding in strange}
    trashed = dict(_mirrors(home.trash, strange, {}, set()))
    tombstones = dict(_tombstones(home.trash, strange))
    for folder in (home.quarantine, home.reports):
        if os.path.isdir(folder):
            strange += [_litter(path) for path in durable_io.old_temps(folder, time.time())]
    return Survey(mirrors, trashed, tombstones, strange, taken, intact)


def _mirrors(
    folder: str, strange: list[Finding], seals: Mapping[str, str], intact: set[str]
) -> Iterator[tuple[str, Sight]]:
    now = time.time()
    for entry in _entries(folder):
        if entry.name == ".lock" or entry.name.endswith(GRAVE):
            continue
        try:
            what = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # somebody is at work here
        if _is_as_sealed(seals.get(entry.name), what):
            intact.add(entry.name[: -len(ENDING)])
            continue
        name, ending = os.path.splitext(entry.name)
        plain = statmode.S_ISREG(what.st_mode)
        if plain and durable_io.is_temp(entry.name):
            if now - what.st_mtime > durable_io.TEMP_OLD_S:
                strange.append(_litter(entry.path))
        elif plain and ending == ENDING and ids.is_id(name, ids.SESSION):
            yield name, Sight(entry.path, what)
        else:
            strange.append(_foreign(entry.path, entry.name, what))


def _is_as_sealed(sealed: str | None, what: os.stat_result) -> bool:
    return (
        sealed is not None
        and sealed.endswith(f"/{what.st_size}/{what.st_mtime_ns}")
        and statmode.S_ISREG(what.st_mode)
    )


def _entries(folder: str) -> list[os.DirEntry[str]]:
    if not os.path.isdir(folder):
        return []
    with os.scandir(folder) as entries:
        return list(entries)


def _litter(path: str) -> Finding:
    return Finding(
        code="temp_litter",
        subject=os.path.basename(path),
        text="a temporary file that a dead process left behind",
        action="remove it",
        evidence={"file": path},
    )


def _foreign(path: str, name: str, what: os.stat_result) -> Finding:
    kind = "a file"
    if statmode.S_ISDIR(what.st_mode):
        kind = "a directory"
    elif statmode.S_ISLNK(what.st_mode):
        kind = "a link" if os.path.exists(path) else "a dangling link"
    return Finding(
        code="foreign_file",
        subject=shown(name),
        text=f"{kind} that is no mirror; it is left alone",
        action=None,
        evidence={"file": shown(path)},
    )


def _tombstones(folder: str, strange: list[Finding]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in _entries(folder):
        session = entry.name.removesuffix(GRAVE)
        if session == entry.name:
            continue
        try:
            if not entry.is_file(follow_symlinks=False):
                raise ValueError("it is no file")
            with open(entry.path, "rb") as file:
                note = json.loads(file.read())
            if note["session"] != session or not isinstance(note["deletion"]["id"], str):
                raise ValueError("it is of another session")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            strange.append(unreadable(entry.path, problem))
            if ids.is_id(session, ids.SESSION):
                # Enough to keep a session deleted that only a file still has, not to delete one.
                yield session, {"deletion": {"id": UNKNOWN, "by": "?", "reason": "?"}}
            continue
        yield session, note


def shown(name: str) -> str:
    """A file's name as text that can be written down, whatever its bytes are."""
    return os.fsencode(name).decode(errors="backslashreplace")


def unreadable(path: str, problem: Exception) -> Finding:
    """A file that belongs here and cannot be read."""
    return Finding(
        code="unreadable_file",
        subject=shown(os.path.basename(path)),
        text=f"it cannot be read ({shown(str(problem))}); it is left alone",
        action=None,
        evidence={"file": shown(path)},
    )
