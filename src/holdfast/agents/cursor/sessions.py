"""Where does Cursor keep conversations? From a folder or a file to the stores in it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import apsw

from holdfast.agents.cursor import sdk_sqlite, sdk_store, sqlite_rows
from holdfast.errors import HoldfastError

SDK_SQLITE, SDK_JSONL, ACP, LEGACY, TRANSCRIPT = (
    "sdk-sqlite",
    "sdk-jsonl",
    "cli-acp",
    "cli-legacy",
    "transcript",
)
INDEX, STORE, META = "index.db", "store.db", "meta.json"

_KNOWN = ("acp-sessions", "chats", "projects", "sdk-agent-store", "agent-transcripts", ".cursor")
_TRANSCRIPTS, _ACP_FOLDER = "agent-transcripts", "acp-sessions"
_DEEPEST = 4  # how many levels are searched below an unknown folder
_MOST_FOLDERS = 20_000
_MAGIC = b"SQLite format 3\0"
_NO_SLUG = re.compile(r"[^A-Za-z0-9]+", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class StoreLocation(NamedTuple):
    """A store on disk, before it is opened."""

    form: str
    path: str
    only: str | None = None  # for a store with many agents: the folder name of the one that is meant


def is_id(name: str) -> bool:
    """Whether a name can be an id: it becomes part of a path."""
    return _ID.fullmatch(name) is not None


def slug(cwd: str) -> str:
    """The project name of a folder."""
    return _NO_SLUG.sub("-", cwd).strip("-")


def chats_folder_name(cwd: str) -> str:
    """The folder name of a cwd among the CLI's older chats."""
    return hashlib.md5(cwd.encode(errors="surrogateescape"), usedforsecurity=False).hexdigest()


def project(path: str) -> str:
    """The project name of a transcript."""
    folder = os.path.dirname(path)
    while folder and os.path.basename(folder) != _TRANSCRIPTS:
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return os.path.basename(os.path.dirname(folder))


def stores_at(path: str) -> Iterator[StoreLocation]:
    """The stores at a path or below it."""
    if os.path.isdir(path):
        yield from _StoreWalk().folder(os.path.abspath(path), 0)
    elif os.path.isfile(path):
        yield from _file(os.path.abspath(path))


class _StoreWalk:
    """A bounded walk, wherever it starts."""

    def __init__(self) -> None:
        self._left = _MOST_FOLDERS

    def folder(self, path: str, depth: int) -> Iterator[StoreLocation]:
        self._left -= 1
        names = _names(path)
        if self._left < 0 or not names:
            return
        if any(name in names for name in sdk_store.FILES):
            yield StoreLocation(SDK_JSONL, path)
        elif INDEX in names:
            yield StoreLocation(SDK_SQLITE, os.path.join(path, INDEX))
        elif STORE in names:
            yield _store(os.path.join(path, STORE))
        elif os.path.basename(path) == _TRANSCRIPTS:
            yield from self._transcripts(path, 2)
        elif os.path.basename(os.path.dirname(path)) == _TRANSCRIPTS:
            yield from self._transcripts(path, 1)
        elif known := [name for name in _KNOWN if name in names]:
            for name in known:
                yield from self.folder(os.path.join(path, name), 0)
        elif depth < _DEEPEST:
            for name in names:
                if os.path.isdir(inner := os.path.join(path, name)):
                    yield from self.folder(inner, depth + 1)

    def _transcripts(self, path: str, levels: int) -> Iterator[StoreLocation]:
        """`<id>.jsonl`, `<id>/<id>.jsonl` and `<id>/subagents/<id>.jsonl`."""
        for name in _names(path):
            inner = os.path.join(path, name)
            if name.endswith((".jsonl", ".txt")) and os.path.isfile(inner):
                yield StoreLocation(TRANSCRIPT, inner)
            elif levels and os.path.isdir(inner):
                yield from self._transcripts(inner, levels - 1)


def _file(path: str) -> Iterator[StoreLocation]:
    folder, name = os.path.split(path)
    if name in sdk_store.FILES:
        yield StoreLocation(SDK_JSONL, folder)
    elif name == INDEX:
        yield StoreLocation(SDK_SQLITE, path)
    elif name == STORE or (name == META and os.path.isfile(os.path.join(folder, STORE))):
        yield _store(os.path.join(folder, STORE))
    elif name.endswith((".jsonl", ".txt")):
        yield StoreLocation(TRANSCRIPT, path)
    elif (form := _form(path)) is not None:
        yield StoreLocation(form, path)


def _store(path: str) -> StoreLocation:
    """The store of one conversation; the SDK's store belongs to an agent in the index two folders up."""
    folder = os.path.dirname(path)
    above = os.path.dirname(os.path.dirname(folder))
    if os.path.isfile(index := os.path.join(above, INDEX)):
        return StoreLocation(SDK_SQLITE, index, os.path.basename(folder))
    if os.path.basename(os.path.dirname(folder)) == _ACP_FOLDER or os.path.isfile(os.path.join(folder, META)):
        return StoreLocation(ACP, path)
    return StoreLocation(LEGACY, path)


def _form(path: str) -> str | None:
    """The format of a database with another name, by its tables."""
    try:
        with open(path, "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
        with sqlite_rows.open_database(path) as db:
            tables = sqlite_rows.tables(db)
    except (OSError, apsw.Error, HoldfastError):
        return None
    if tables >= sdk_sqlite.TABLES:
        return SDK_SQLITE
    return LEGACY if tables >= sqlite_rows.TABLES else None


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
