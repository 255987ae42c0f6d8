"""Worktrees whose making was cut short by a crash: noted before git begins, removed at the next start.

A note names the process that makes the worktree. It goes when the session is recorded. What is found
without its session after that process is gone is removed, if it holds nothing but files of the commit that
it was made from.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from holdfast import durable_io
from holdfast.git import commands
from holdfast.model.json_codec import decode_as, encode
from holdfast.model.session import Worktree
from holdfast.process import identity, table
from holdfast.process.identity import Ident

PREFIX = ".making-"
MAX_BLOB = 64 * 1024 * 1024  # bytes of a file that is compared with what git was writing


class UnfinishedWorktree(msgspec.Struct, frozen=True):
    """One worktree in the making."""

    worktree: Worktree
    start: str  # the commit that it is made from
    maker: Ident

    @property
    def session(self) -> str:
        """The session that it is made for."""
        return self.worktree.branch.rpartition("/")[2]


def note(worktree: Worktree, start: str) -> None:
    """Remember that this process begins to make a worktree."""
    pid = os.getpid()
    maker = Ident(pid, identity.started(pid) or 0.0, identity.boot_id())
    made = UnfinishedWorktree(worktree, start, maker)
    durable_io.create(_path(worktree), [encode(made)])


def forget(worktree: Worktree) -> None:
    """Its session is recorded, or it is gone."""
    with suppress(FileNotFoundError):
        os.unlink(_path(worktree))


def left_in(worktrees: str) -> Iterator[UnfinishedWorktree]:
    """Those whose maker is gone; a note that was torn names nothing and stays."""
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(worktrees)):
            if not name.startswith(PREFIX):
                continue
            with open(os.path.join(worktrees, name), "rb") as file, suppress(ValueError):
                found = decode_as(file.read(), UnfinishedWorktree)
                if not identity.is_alive(*found.maker):
                    yield found


async def remove(found: UnfinishedWorktree) -> str | None:
    """Remove what was made of it, folder, git's own record and branch; why not, if something must stay."""
    worktree = found.worktree
    if await asyncio.to_thread(_is_busy, worktree.path):
        return "git is still at work there"
    if os.path.isdir(worktree.path):
        try:
            entries = await _entries(worktree.repo_root, found.start)
            foreign = await asyncio.to_thread(_foreign_file, worktree.path, entries)
            if foreign is None:
                foreign = await _unlike(worktree, entries)
        except (commands.GitFailed, commands.GitMissing) as problem:
            return f"git could not be asked about {worktree.path}: {problem}"
        if foreign is not None:
            return f"{worktree.path} holds {foreign}, which is not as git wrote it"
    try:
        tip = await commands.line(
            worktree.repo_root, "for-each-ref", "--format=%(objectname)", f"refs/heads/{worktree.branch}"
        )
        if tip not in ("", found.start):
            return f"the branch {worktree.branch} has commits of its own"
        with suppress(commands.GitFailed):  # git may not know it yet
            # Twice: git holds a lock on a worktree that it is making.
            await commands.do(
                worktree.repo_root, "worktree", "remove", "--force", "--force", "--", worktree.path
            )
        if os.path.isdir(worktree.path):
            await asyncio.to_thread(shutil.rmtree, worktree.path)
        if tip:
            await commands.do(
                worktree.repo_root, "update-ref", "-d", f"refs/heads/{worktree.branch}", found.start
            )
    except (commands.GitFailed, commands.GitMissing) as problem:
        return f"git could not remove {worktree.path}: {problem}"
    forget(worktree)
    return None


def _is_busy(folder: str) -> bool:
    """Whether a process works on that folder: a git outlives the hub that started it."""
    for process in table.table().values():
        if folder in process.command:
            return True
        with suppress(OSError):
            if os.readlink(f"/proc/{process.pid}/cwd").startswith(folder):
                return True
    return False


async def _entries(repo: str, commit: str) -> dict[str, str]:
    """The files of a commit and the id of each one's content."""
    told = await commands.ask(repo, "ls-tree", "-r", "-z", commit, limit=256 * 1024 * 1024)
    found = {}
    for record in told.output.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        found[os.fsdecode(name)] = facts.split()[2].decode()
    return found


def _foreign_file(folder: str, entries: dict[str, str]) -> str | None:
    """A file below the folder that the commit does not have."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in [*names, *links]:
            path = os.path.relpath(os.path.join(place, name), folder)
            if path not in entries and path != ".git":
                return path
    return None


async def _unlike(worktree: Worktree, entries: dict[str, str]) -> str | None:
    """A file that is neither what the commit has nor the beginning of it."""
    for name, blob in entries.items():
        path = os.path.join(worktree.path, name)
        if not os.path.lexists(path) or os.path.isdir(path):
            continue
        content = await asyncio.to_thread(_content, path)
        if content is None:
            return name
        kind = hashlib.sha256 if len(blob) == 64 else hashlib.sha1
        if kind(b"blob %d\0" % len(content) + content).hexdigest() == blob:
            continue
        whole = await commands.ask(worktree.repo_root, "cat-file", "blob", blob, limit=MAX_BLOB)
        if whole.cut or not whole.output.startswith(content):
            return name
    return None


def _content(path: str) -> bytes | None:
    """What a file or a link holds; None if that is too much to compare."""
    if os.path.islink(path):
        return os.fsencode(os.readlink(path))
    with open(path, "rb") as file:
        found = file.read(MAX_BLOB + 1)
    return found if len(found) <= MAX_BLOB else None


def _path(worktree: Worktree) -> str:
    return os.path.join(os.path.dirname(worktree.path), PREFIX + worktree.branch.rpartition("/")[2])
