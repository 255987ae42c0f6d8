"""The web UI's folder, listed once: with ten thousand sessions nobody lists it for each of them."""

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
from holdfast.peers.hermes import values as files
from holdfast.peers.hermes.layout import DELETED, INDEX, RUNS, TURNS, HermesLayout, is_temp_file, session_id
from holdfast.peers.hermes.sidecar import SidecarState
from holdfast.transcripts.reader import TranscriptProblem


class SessionsFolder(HermesLayout):
    """A layout whose names were read at one moment."""

    @cached_property
    def listed(self) -> list[str]:
        """The names in the folder of sessions."""
        return super().names()

    def names(self) -> list[str]:
        """The same."""
        return self.listed

    @cached_property
    def shards(self) -> dict[str, list[str]]:
        """The turn journals of each session."""
        found: dict[str, list[str]] = defaultdict(list)
        if self.folder is not None:
            folder = os.path.join(self.folder, TURNS)
            for name in _names(folder):
                if name.endswith(".jsonl"):
                    own = name[: -len(".jsonl")].rpartition("~")[0] or name[: -len(".jsonl")]
                    found[own].append(os.path.join(folder, name))
        return dict(found)

    @cached_property
    def with_runs(self) -> frozenset[str]:
        """The sessions that have run journals."""
        return frozenset(_names(os.path.join(self.folder, RUNS)) if self.folder is not None else ())

    def turn_journals(self, native_id: str) -> list[str]:
        """The shards of its turn journal."""
        return self.shards.get(native_id, [])

    def run_journals(self, native_id: str) -> list[str]:
        """Its run journals."""
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
        """Whether there is a folder of sessions, and not just any folder."""
        if self.folder is None or not os.path.isdir(self.folder):
            return False
        own = {INDEX, DELETED, TURNS, RUNS}
        if self.home is not None or os.path.basename(self.folder) == "sessions" or own & {*self.listed}:
            return True
        paths = (self.sidecar(own) for own in (*self.sidecars, *self.backups))
        sides = (sidecar.load(file) for path in paths if path for file in (path, f"{path}.bak"))
        return any(side.usable and isinstance(side.head.get("session_id"), str) for side in sides)

    def has_sidecar(self, native_id: str) -> bool:
        """Whether a session has one."""
        place = bisect_left(self.sidecars, native_id)
        return place < len(self.sidecars) and self.sidecars[place] == native_id

    def others(self) -> set[str]:
        """The sessions that have no sidecar, but a backup or a journal."""
        found = self.backups | {own for own in self.shards if self.sidecar(own) is not None}
        return {own for own in found if not self.has_sidecar(own)}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # none, or not for us
        return []


# --- What the web UI's index lists, read piece by piece: with ten thousand sessions it is a big file.

PIECE = 1 << 16
_SPACE = " \t\r\n"

_scan = json.JSONDecoder().raw_decode


def entries(layout: HermesLayout) -> Iterator[Any]:
    """What it lists, one by one; ValueError where it cannot be read, OSError if it is no file for us."""
    assert layout.folder is not None
    with files.open_file(os.path.join(layout.folder, INDEX)) as file:
        yield from _items(_JsonStream(file))


def listed_ids(layout: HermesLayout) -> Iterator[str]:
    """The sessions that it lists; ValueError and OSError as above."""
    for item in entries(layout):
        if isinstance(item, dict) and (own := values.identifier(item.get("session_id"))):
            yield own


def all_entries(layout: HermesLayout) -> list[Any]:
    """All of it, to be written anew; empty if it cannot be read."""
    try:
        return list(entries(layout))
    except (OSError, ValueError):
        return []


class _JsonStream:
    """A file's text, of which only what is not yet read is held."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._piece = PIECE
        self.left = ""

    def more(self) -> bool:
        """Read on; whether there was more."""
        data = self._file.read(self._piece)
        self._piece *= 2  # one value may be long: not to be tried again for every piece of it
        self.left += self._decoder.decode(data, final=not data)
        return bool(data)

    def sign(self) -> str:
        """The next character that is no space; empty at the end."""
        while not (rest := self.left.lstrip(_SPACE)) and self.more():
            pass
        self.left = rest or self.left.lstrip(_SPACE)
        return self.left[:1]

    def value(self) -> Any:
        """The next value, which is followed by something."""
        while True:
            try:
                value, end = _scan(self.left)
                if end < len(self.left):
                    self.left, self._piece = self.left[end:], PIECE
                    return value
            except RecursionError:
                raise ValueError("nested too deep") from None
            except ValueError:
                pass
            if not self.more():
                raise ValueError("no whole value")


def _items(text: _JsonStream) -> Iterator[Any]:
    if text.sign() != "[":
        raise ValueError("no list")
    text.left = text.left[1:]
    if text.sign() == "]":
        text.left = text.left[1:]
    else:
        while True:
            text.sign()
            yield text.value()
            sign = text.sign()
            text.left = text.left[1:]
            if sign == "]":
                break
            if sign != ",":
                raise ValueError("no list")
    if text.sign():
        raise ValueError("something behind the list")


# --- What is wrong with the web UI's folder of sessions as a whole; sessions are judged one by one.


def folder_problems(
    census: SessionsFolder,
    odd: Mapping[str, SidecarState],
    misnamed: Mapping[str, str],
    knows: Callable[[str], bool],
) -> list[TranscriptProblem]:
    """Its index, files that are no sessions, what crashes left.

    `odd`: the sidecars that are not whole; `misnamed`: the sessions that files of a wrong name tell;
    `knows`: whether a database has a session.
    """
    found = []
    strange = [own for own, state in odd.items() if state == "foreign" and not _is_kept(census, own, knows)]
    if strange:
        names = sorted(f"{own}.json" for own in strange)
        found.append(TranscriptProblem("foreign_file", "files that are no sessions", {"names": names}))
    if litter := sorted(name for name in census.listed if is_temp_file(name)):
        text = f"a crash left temporary files ({len(litter):,})"
        found.append(TranscriptProblem("tmp_litter", text, {"names": litter}))
    if (said := _index(census, odd, misnamed, knows)) is not None:
        found.append(said)
    return found


def _index(
    census: SessionsFolder,
    odd: Mapping[str, SidecarState],
    misnamed: Mapping[str, str],
    knows: Callable[[str], bool],
) -> TranscriptProblem | None:
    sidecars = census.sidecars
    wanted = bytearray(0 if own in odd or own in misnamed else 1 for own in sidecars)
    if INDEX not in census.listed:
        return (
            TranscriptProblem("index_missing", "its index is not there", {"name": INDEX})
            if any(wanted)
            else None
        )
    elsewhere = set(misnamed.values())
    ghosts: set[str] = set()
    try:
        for own in listed_ids(census):
            place = bisect_left(sidecars, own)
            if place < len(sidecars) and sidecars[place] == own and odd.get(own) != "foreign":
                wanted[place] = 0
            elif own not in elsewhere:
                ghosts.add(own)
    except (OSError, ValueError):
        return TranscriptProblem("index_corrupt", "its index cannot be read", {"name": INDEX})
    # An entry whose file is gone is not a ghost while its backup or its row is there (#5504).
    ghosts = {own for own in ghosts if not _is_kept(census, own, knows)}
    if not ghosts and not any(wanted):
        return None
    missing = [own for own, is_wanted in zip(sidecars, wanted, strict=True) if is_wanted]
    text = (
        f"its index lists {len(ghosts):,} sessions that are gone, and lacks {len(missing):,} that are there"
    )
    return TranscriptProblem("index_stale", text, {"ghosts": sorted(ghosts), "missing": missing})


def _is_kept(census: SessionsFolder, own: str, knows: Callable[[str], bool]) -> bool:
    return own in census.backups or knows(own)
