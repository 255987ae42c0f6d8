"""Folders of the hub's machine over HTTP, for a form that asks where a task runs."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from holdfast.hub.api.responses import TheHub, fails

LATEST = 200  # sessions whose folders count as recent
RECENT, MATCHES = 12, 50


class FolderEntry(msgspec.Struct, frozen=True):
    """A folder that exists; `repository`: it is the top of a git repository."""

    path: str
    repository: bool


class Folders(msgspec.Struct, frozen=True):
    """Folders of recent sessions, and those whose path begins with what was asked for."""

    recent: list[FolderEntry]
    matches: list[FolderEntry]


@get(
    "/api/folders",
    operation_id="listFolders",
    summary="Folders where tasks ran lately, and completions of a path",
    responses=fails(),
)
async def list_folders(hub: TheHub, prefix: Annotated[str, QueryParameter(max_length=4096)] = "") -> Folders:
    """Both in one answer; a prefix that names no folder has no matches."""
    headers, _ = await hub.store.headers(state="present", empty=True, limit=LATEST)
    used = [header.worktree.repo_root if header.worktree else header.cwd for header in headers]
    paths = list(dict.fromkeys(path for path in used if path is not None))
    home = hub.env.get("HOME", "")
    return await asyncio.to_thread(_look, paths, prefix, home)


def _look(paths: list[str], prefix: str, home: str) -> Folders:
    recent = [_entry(path) for path in paths if os.path.isdir(path)]
    return Folders(recent[:RECENT], complete(prefix, home))


def complete(prefix: str, home: str) -> list[FolderEntry]:
    """The folders whose path begins with `prefix`; `~` is the home of the hub's user."""
    if prefix == "~" or prefix.startswith("~/"):
        prefix = home + prefix[1:]
    if not os.path.isabs(prefix) or "\0" in prefix:
        return []
    folder, name = os.path.split(prefix)
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(name)
                and (name.startswith(".") or not entry.name.startswith("."))
                and entry.is_dir()
            )
    except OSError:
        return []
    return [_entry(os.path.join(folder, each)) for each in names[:MATCHES]]


def _entry(path: str) -> FolderEntry:
    return FolderEntry(path, os.path.exists(os.path.join(path, ".git")))


ROUTES = [list_folders]
