"""Deleting a session, and the worktree that was made for it."""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.git import worktree
from holdfast.model.session import Session, Worktree
from holdfast.store.contract import Store


async def delete(store: Store, session: str, by: str, reason: str) -> tuple[Session, str | None]:
    """Into the trash with it; its worktree goes unless something could be lost, and then why it stays."""
    changed = await store.delete(session, by, reason)
    if changed.worktree is None or await _is_shared(store, changed.worktree):
        return changed, None
    try:
        await worktree.remove(changed.worktree)
    except Refused as problem:
        return changed, problem.message
    return changed, None


async def _is_shared(store: Store, made: Worktree) -> bool:
    """Whether another session works there: one that goes on from the deleted one has its worktree, too."""
    found = (await store.sessions(text=made.branch, empty=True)).sessions
    return any(session.worktree is not None and session.worktree.path == made.path for session in found)
