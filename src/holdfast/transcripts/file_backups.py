"""How are agents' transcript files backed up? Only new bytes are copied, and no copied byte is ever lost.

`native/<agent>/<native id>/` holds the copies, and `places.json` says where each original is. If a transcript
was cut or rewritten since the last backup, the older copy is kept under a numbered name.
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from typing import Literal, NamedTuple

import msgspec

from holdfast import durable_io

Change = Literal["same", "grown", "shrunk", "rewritten", "missing", "new"]

_PIECE = 1 << 20


class FileCopy(NamedTuple):
    """One file of a native session and our copy of it."""

    original: str
    copy: str


class _CopyRecord(msgspec.Struct, frozen=True):
    """Where the copy of one original is."""

    copy: str
    level: int | None = None  # the size up to which our log holds the content


class FileBackups:
    """The file backups of one native session."""

    def __init__(self, folder: str):
        self.folder = folder
        self._path = os.path.join(folder, "places.json")
        self._places = self._read()

    def known(self) -> list[FileCopy]:
        """The files that were copied and where they came from."""
        return [FileCopy(original, self._at(entry)) for original, entry in self._places.items()]

    def update(self, files: Iterable[str], *, level: bool = False) -> int:
        """Copy the new bytes of these files and return their number.

        `level`: our log already holds all of their content, so a later check does not read them again.
        """
        durable_io.make_folder(self.folder)
        copied = 0
        with _exclusive(self.folder):  # the worker of the last task may still copy when the next task starts
            self._places = self._read()
            for original in files:
                entry = self._places.get(original) or _CopyRecord(self._free_name(original))
                with suppress(FileNotFoundError):  # deleted since it was listed
                    copied += _copy_new(original, self._at(entry))
                    size = os.path.getsize(self._at(entry)) if level else entry.level
                    self._places[original] = _CopyRecord(entry.copy, size)
            self._write()
        return copied

    def is_level(self, files: Iterable[str]) -> bool:
        """Whether our log holds all content of these files; False if there are none."""
        entries = [(path, self._places.get(path)) for path in files]
        return bool(entries) and all(
            entry is not None and entry.level is not None and _size(path) == entry.level
            for path, entry in entries
        )

    def changes(self) -> list[tuple[FileCopy, Change]]:
        """Compare each original with its copy."""
        return [(known, compare(known.original, known.copy)) for known in self.known()]

    def _read(self) -> dict[str, _CopyRecord]:
        with suppress(FileNotFoundError, ValueError), open(self._path, "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, _CopyRecord])
        return {}

    def _at(self, entry: _CopyRecord) -> str:
        return os.path.join(self.folder, entry.copy)

    def _free_name(self, original: str) -> str:
        taken = {entry.copy for entry in self._places.values()} | {os.path.basename(self._path)}
        base = os.path.basename(original)
        names = chain([base], (f"{number}-{base}" for number in count(2)))
        return next(name for name in names if name not in taken)

    def _write(self) -> None:
        temporary = durable_io.temp_name(self._path)
        with open(temporary, "wb", opener=durable_io.private) as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._places), indent=1))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path)


@contextmanager
def _exclusive(folder: str) -> Iterator[None]:
    """Keep other processes from copying into this folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def compare(original: str, copy: str) -> Change:
    """How an original changed since it was copied."""
    if not os.path.exists(copy):
        return "new"
    if not os.path.exists(original):
        return "missing"
    size, copied = os.path.getsize(original), os.path.getsize(copy)
    if size < copied:
        return "shrunk" if _starts_alike(original, copy, size) else "rewritten"
    if not _starts_alike(original, copy, copied):
        return "rewritten"
    return "same" if size == copied else "grown"


def restore(known: FileCopy, at: str) -> str | None:
    """Restore a copy to its original path. An existing file is moved aside, and its new path is returned."""
    moved = None
    if os.path.exists(known.original):
        moved = f"{known.original}.replaced-{at.replace(':', '')}"
        durable_io.move(known.original, moved)
    durable_io.make_folder(os.path.dirname(known.original))
    with open(known.copy, "rb") as file:
        durable_io.create(known.original, iter(lambda: file.read(_PIECE), b""))
    return moved


def _copy_new(original: str, copy: str) -> int:
    change = compare(original, copy)
    if change == "same" or change == "missing":
        return 0
    if change == "grown":
        return _append(original, copy)
    if change in ("shrunk", "rewritten"):
        os.rename(copy, _numbered(copy))
    temporary = durable_io.temp_name(copy)
    with open(original, "rb") as source, open(temporary, "wb", opener=durable_io.private) as target:
        shutil.copyfileobj(source, target, _PIECE)
        target.flush()
        os.fsync(target.fileno())
    os.replace(temporary, copy)
    return os.path.getsize(copy)


def _append(original: str, copy: str) -> int:
    """Append what the original has after the copy's end. A crash leaves a shorter copy, not a wrong one."""
    with open(original, "rb") as source, open(copy, "ab", opener=durable_io.private) as target:
        before = target.tell()
        source.seek(before)
        shutil.copyfileobj(source, target, _PIECE)
        target.flush()
        os.fsync(target.fileno())
        return target.tell() - before


def _starts_alike(one: str, other: str, length: int) -> bool:
    with open(one, "rb") as left, open(other, "rb") as right:
        while length > 0:
            piece = min(_PIECE, length)
            if left.read(piece) != right.read(piece):
                return False
            length -= piece
    return True


def _numbered(copy: str) -> str:
    number = 1
    while os.path.exists(f"{copy}.{number}"):
        if filecmp.cmp(copy, f"{copy}.{number}", shallow=False):
            break
        number += 1
    return f"{copy}.{number}"


def _size(path: str) -> int | None:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return None
