"""The changes that tasks leave uncommitted in a git folder, and the warning to the next task there."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast.git import worktree
from holdfast.git.commands import Changes
from holdfast.model.commit import Entry
from holdfast.model.event import NewEvent
from holdfast.model.session import Session
from holdfast.model.task import ENDED, Task
from holdfast.store.store import Store

LOOKED_BACK = 20  # tasks of the same folder, the latest first


async def uncommitted_paths(before: Any, cwd: str) -> list[str]:
    """The paths that a task left uncommitted, given the launch note's look at what was so before."""
    if before is None or not os.path.isdir(cwd):
        return []
    after = await worktree.changes(cwd)
    return [] if after is None else worktree.left_behind(msgspec.convert(before, Changes), after)


async def warnings(store: Store, task: Task, session: Session, now: Changes | None) -> list[Entry]:
    """A notice that names the earlier task whose changes are still uncommitted here."""
    if now is None or not session.cwd or session.worktree is not None:
        return []
    for earlier in await store.latest_tasks(cwd=session.cwd, limit=LOOKED_BACK):
        if earlier.id == task.id or earlier.status not in ENDED or not earlier.outcome:
            continue
        shared = worktree.overlap(now, earlier.outcome.get("left") or [])
        if shared:
            named = ", ".join(shared[:5]) + (" …" if len(shared) > 5 else "")
            text = f"task {earlier.id} ({earlier.status}) left changes here that are not committed: {named}"
            body = {"text": text, "code": "left_behind", "task": earlier.id, "paths": shared}
            return [NewEvent("notice", body)]
    return []
