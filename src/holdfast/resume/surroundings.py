"""Where a session works: whether that is still there, and on which branch."""

from __future__ import annotations

import os

import msgspec

from holdfast.git import folder, worktree
from holdfast.model.session import Session
from holdfast.model.task import Task


class Folder(msgspec.Struct, frozen=True):
    """The session's folder, then and now."""

    path: str | None = None
    there: bool = True
    worktree: bool = False  # it is a git worktree of the session's own
    was_on: str | None = None  # the branch at the end of the last task, or the worktree's own
    is_on: str | None = None


async def look(session: Session, last: Task | None) -> Folder:
    """Look at it; nothing is changed, also where a launch would put a worktree back."""
    own = session.worktree
    path = session.cwd if own is None else own.path
    if path is None:
        return Folder()
    there = os.path.isdir(path)
    was = ((last.outcome or {}).get("branch") if last is not None else None) or (own.branch if own else None)
    now = await folder.branch(path) if there and was is not None else None
    if own is not None and there:
        path = await worktree.folder_in(own, session.cwd or own.path)
    return Folder(os.path.realpath(path), there, own is not None, was, now)
