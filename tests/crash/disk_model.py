"""A disk as a power cut may leave it.

Every change is an operation in one log. What was synced is there; of everything else any part may be:
a write absent, whole, begun, or a stretch of zeros of the right length; a name there or not. A sync of
a file says nothing of its name, and names in a folder need not come in the order they were given.
"""

from __future__ import annotations

import os
import random
from typing import NamedTuple

MODES = ("nothing", "everything", "names", "zeros")  # and "random", as often as is asked for


class Write(NamedTuple):
    """Bytes at a place of a file; with `data` None, the file cut there."""

    file: int
    offset: int
    data: bytes | None
    mtime: int


class Name(NamedTuple):
    """A name in a folder, given to a file (or to a folder: FOLDER) or taken away (None)."""

    folder: str
    name: str
    file: int | None


class Sync(NamedTuple):
    """A file's content is on disk."""

    file: int


class SyncNames(NamedTuple):
    """A folder's names are on disk."""

    folder: str


class Ack(NamedTuple):
    """A caller was answered: its call, and all before it, must survive from here on."""

    number: int


Operation = Write | Name | Sync | SyncNames | Ack

FOLDER = -1


class Content(NamedTuple):
    """What a file holds."""

    data: bytes
    mtime: int


class Image:
    """Files and folders, by their path from the root."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.files: dict[str, Content] = {}

    def key(self) -> int:
        """The same for two images that are the same."""
        return hash((tuple(sorted(self.folders)), tuple(sorted(self.files.items()))))

    def put(self, root: str) -> None:
        """Make it real."""
        for folder in self.folders:
            os.mkdir(os.path.join(root, folder), 0o700)
        for path, (data, mtime) in self.files.items():
            real = os.path.join(root, path)
            with open(real, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(data)
            os.utime(real, ns=(mtime, mtime))


class DiskModel:
    """What is on disk for sure, and what is on its way there."""

    def __init__(self, base: dict[str, Content], folders: list[str]):
        self.names: dict[str, dict[str, int]] = {"": {}}
        self.contents: dict[int, Content] = {}
        self.unsynced: dict[int, list[Write]] = {}
        self.unsynced_names: dict[str, list[Name]] = {}
        for folder in folders:
            self._name(self.names, Name(*os.path.split(folder), FOLDER))
            self.names[folder] = {}
        for number, (path, content) in enumerate(base.items()):
            self._name(self.names, Name(*os.path.split(path), number))
            self.contents[number] = content

    def do(self, operation: Operation) -> None:
        """One more operation."""
        match operation:
            case Write():
                self.unsynced.setdefault(operation.file, []).append(operation)
            case Name():
                self.unsynced_names.setdefault(operation.folder, []).append(operation)
            case Sync():
                content = self.contents.get(operation.file, Content(b"", 0))
                for write in self.unsynced.pop(operation.file, []):
                    content = _written(content, write)
                self.contents[operation.file] = content
            case SyncNames():
                for name in self.unsynced_names.pop(operation.folder, []):
                    self._name(self.names, name)
            case Ack():
                pass

    def image(self, mode: str, rng: random.Random) -> Image:
        """One of the images that a power cut now may leave."""
        chance = rng.choice((0.15, 0.5, 0.85))
        names = {folder: dict(entries) for folder, entries in self.names.items()}
        for waiting in self.unsynced_names.values():
            for name in waiting:
                if mode in ("everything", "names", "zeros") or (mode == "random" and rng.random() < chance):
                    self._name(names, name)
        contents: dict[int, Content] = {}

        def content(file: int) -> Content:
            if file not in contents:
                found = durable = self.contents.get(file, Content(b"", 0))
                for write in self.unsynced.get(file, ()):
                    how = {"everything": "whole", "zeros": "zeros"}.get(mode, "absent")
                    if mode == "random" and rng.random() < chance:
                        how = rng.choice(("whole", "whole", "begun", "zeros"))
                    found = _written(found, write, how, len(durable.data), rng)
                contents[file] = found
            return contents[file]

        found = Image()

        def walk(folder: str) -> None:
            for name, file in names.get(folder, {}).items():
                path = os.path.join(folder, name)
                if file == FOLDER:
                    found.folders.append(path)
                    walk(path)
                else:
                    found.files[path] = content(file)

        walk("")
        return found

    @staticmethod
    def _name(names: dict[str, dict[str, int]], name: Name) -> None:
        entries = names.setdefault(name.folder, {})
        if name.file is None:
            entries.pop(name.name, None)
        else:
            entries[name.name] = name.file


def _written(
    content: Content, write: Write, how: str = "whole", durable: int = 0, rng: random.Random | None = None
) -> Content:
    old, (_, offset, data, mtime) = content.data, write
    if how == "absent":
        return content
    if data is None:
        return Content(old[:offset], mtime)
    if how == "begun" and rng is not None:
        data = data[: rng.randrange(len(data) + 1)]
    if how == "zeros":  # only where nothing was before: no file system empties old blocks
        end = offset + len(data)
        return (
            Content(old + bytes(max(0, end - max(len(old), durable))), mtime) if end > len(old) else content
        )
    return Content(old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :], mtime)
