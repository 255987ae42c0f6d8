"""The web UI's folder of sessions, listed once: an install may have ten thousand sessions."""

from __future__ import annotations

import codecs
import json
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO

from holdfast.peers.hermes import sidecar, values
from holdfast.peers.hermes.layout import DELETED, INDEX, RUNS, TURNS, HermesLayout, is_temp_file, session_id
from holdfast.peers.hermes.sidecar import SidecarState
from holdfast.transcripts.reader import TranscriptProblem


class SessionsFolder(HermesLayout):
    """A layout whose file names were read at one moment."""

    @cached_property
    def listed(self) -> list[str]:
        """The names in the folder of sessions."""
        return super().names()

    def names(self) -> list[str]:
        """The file names in the folder of sessions."""
        return self.listed

    @cached_property
    def shards(self) -> dict[str, list[str]]:
        """The turn journals of each session."""
        shards: dict[str, list[str]] = defaultdict(list)
        if self.folder is not None:
            folder = os.path.join(self.folder, TURNS)
            for name in _names(folder):
                if name.endswith(".jsonl"):
                    own = name[: -len(".jsonl")].rpartition("~")[0] or name[: -len(".jsonl")]
                    shards[own].append(os.path.join(folder, name))
        return dict(shards)

    @cached_property
    def with_runs(self) -> frozenset[str]:
        """The sessions that have run journals."""
        return frozenset(_names(os.path.join(self.folder, RUNS)) if self.folder is not None else ())

    def turn_journals(self, native_id: str) -> list[str]:
        """The shards of a session's turn journal."""
        return self.shards.get(native_id, [])

    def run_journals(self, native_id: str) -> list[str]:
        """The run journals of a session."""
        return super().run_journals(native_id) if native_id in self.with_runs else []

    @cached_property
    def sidecars(self) -> list[str]:
        """The sessions that have a sidecar, in order."""
        named = (session_id(name) for name in self.listed if name.endswith(".json"))
        return sorted(own for own in named if own is not None)

    @cached_property
    def backups(self) -> frozenset[str]:
        """The sessions that have a backup."""
        named = (session_id(name) for name in self.listed if name.endswith(".bak"))
        return frozenset(own for own in named if own is not None)

    def has_sessions(self) -> bool:
        """Whether this is a folder of sessions, and not some other folder."""
        if self.folder is None or not os.path.isdir(self.folder):
            return False
        names = {INDEX, DELETED, TURNS, RUNS}
        if self.home is not None or os.path.basename(self.folder) == "sessions" or names & {*self.listed}:
            return True
        paths = (self.sidecar(own) for own in (*self.sidecars, *self.backups))
        sides = (sidecar.load(file) for path in paths if path for file in (path, f"{path}.bak"))
        return any(side.usable and isinstance(side.head.get("session_id"), str) for side in sides)

    def has_sidecar(self, native_id: str) -> bool:
        """Whether a session has a sidecar."""
        position = bisect_left(self.sidecars, native_id)
        return position < len(self.sidecars) and self.sidecars[position] == native_id

    def others(self) -> set[str]:
        """The sessions that have a backup or a journal, but no sidecar."""
        others = self.backups | {own for own in self.shards if self.sidecar(own) is not None}
        return {own for own in others if not self.has_sidecar(own)}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # it does not exist, or we may not read it
        return []


# --- The entries of the web UI's index, read piece by piece: with ten thousand sessions it is large.

PIECE = 1 << 16
_SPACE = " \t\r\n"

_scan = json.JSONDecoder().raw_decode


def entries(layout: HermesLayout) -> Iterator[Any]:
    """The entries, one by one; ValueError if they cannot be read, OSError if the file cannot be opened."""
    assert layout.folder is not None
    with values.open_file(os.path.join(layout.folder, INDEX)) as file:
        yield from _items(_JsonStream(file))


def listed_ids(layout: HermesLayout) -> Iterator[str]:
    """The listed sessions; ValueError and OSError as in `entries`."""
    for item in entries(layout):
        if isinstance(item, dict) and (own := values.identifier(item.get("session_id"))):
            yield own


def all_entries(layout: HermesLayout) -> list[Any]:
    """All entries, to be written again; empty if they cannot be read."""
    try:
        return list(entries(layout))
    except (OSError, ValueError):
        return []


class _JsonStream:
    """JSON text that is read piece by piece; only the unread part is in memory."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._piece = PIECE
        self.unread = ""

    def read_more(self) -> bool:
        """Read more; whether there was more."""
        data = self._file.read(self._piece)
        self._piece *= 2  # a long value must not be parsed again for every small piece
        self.unread += self._decoder.decode(data, final=not data)
        return bool(data)

    def next_char(self) -> str:
        """The next character that is not white space; empty at the end."""
        while not (rest := self.unread.lstrip(_SPACE)) and self.read_more():
            pass
        self.unread = rest or self.unread.lstrip(_SPACE)
        return self.unread[:1]

    def next_value(self) -> Any:
        """The next value; something must follow it."""
        while True:
            try:
                next_value, end = _scan(self.unread)
                if end < len(self.unread):
                    self.unread, self._piece = self.unread[end:], PIECE
                    return next_value
            except RecursionError:
                raise ValueError("nested too deep") from None
            except ValueError:
                pass
            if not self.read_more():
                raise ValueError("incomplete value")


def _items(text: _JsonStream) -> Iterator[Any]:
    if text.next_char() != "[":
        raise ValueError("not a list")
    text.unread = text.unread[1:]
    if text.next_char() == "]":
        text.unread = text.unread[1:]
    else:
        while True:
            text.next_char()
            yield text.next_value()
            next_char = text.next_char()
            text.unread = text.unread[1:]
            if next_char == "]":
                break
            if next_char != ",":
                raise ValueError("not a list")
    if text.next_char():
        raise ValueError("unexpected text after the list")


# --- What is wrong with the folder as a whole; each session is judged on its own.


def folder_problems(
    folder: SessionsFolder,
    damaged: Mapping[str, SidecarState],
    misnamed: Mapping[str, str],
    knows: Callable[[str], bool],
) -> list[TranscriptProblem]:
    """Problems of its index, files that are not sessions, and temporary files of crashes.

    `damaged`: the sidecars that are not whole; `misnamed`: by file name, the session that a file names;
    `knows`: whether a database has a session.
    """
    found = []
    foreign = [
        own for own, state in damaged.items() if state == "foreign" and not _is_kept(folder, own, knows)
    ]
    if foreign:
        names = sorted(f"{own}.json" for own in foreign)
        found.append(TranscriptProblem("foreign_file", "some files are not sessions", {"names": names}))
    if temp_files := sorted(name for name in folder.listed if is_temp_file(name)):
        text = f"a crash left temporary files ({len(temp_files):,})"
        found.append(TranscriptProblem("tmp_litter", text, {"names": temp_files}))
    if (problem := _index(folder, damaged, misnamed, knows)) is not None:
        found.append(problem)
    return found


def _index(
    folder: SessionsFolder,
    damaged: Mapping[str, SidecarState],
    misnamed: Mapping[str, str],
    knows: Callable[[str], bool],
) -> TranscriptProblem | None:
    sidecars = folder.sidecars
    unlisted = bytearray(0 if own in damaged or own in misnamed else 1 for own in sidecars)
    if INDEX not in folder.listed:
        return (
            TranscriptProblem("index_missing", "the index is missing", {"name": INDEX})
            if any(unlisted)
            else None
        )
    elsewhere = set(misnamed.values())
    ghosts: set[str] = set()
    try:
        for own in listed_ids(folder):
            position = bisect_left(sidecars, own)
            if position < len(sidecars) and sidecars[position] == own and damaged.get(own) != "foreign":
                unlisted[position] = 0
            elif own not in elsewhere:
                ghosts.add(own)
    except (OSError, ValueError):
        return TranscriptProblem("index_corrupt", "the index cannot be read", {"name": INDEX})
    # An entry whose file is gone stays as long as its backup or its row exists (#5504).
    ghosts = {own for own in ghosts if not _is_kept(folder, own, knows)}
    if not ghosts and not any(unlisted):
        return None
    missing = [own for own, is_wanted in zip(sidecars, unlisted, strict=True) if is_wanted]
    text = f"the index lists {len(ghosts):,} sessions that are gone, and lacks {len(missing):,} that exist"
    return TranscriptProblem("index_stale", text, {"ghosts": sorted(ghosts), "missing": missing})


def _is_kept(folder: SessionsFolder, own: str, knows: Callable[[str], bool]) -> bool:
    return own in folder.backups or knows(own)
