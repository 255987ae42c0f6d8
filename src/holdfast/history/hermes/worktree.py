"""The git worktree that the web UI made for a session, as its sidecar or the agent's row tells it."""

from __future__ import annotations

import os
from typing import Any

from holdfast import clock
from holdfast.history.hermes import values
from holdfast.history.hermes.database import Header
from holdfast.model.session import Worktree


def of_row(header: Header) -> dict[str, Any]:
    """The sidecar's fields out of a row: the session's folder is below `.worktrees` of a repository."""
    cwd, root = header.word("cwd") or "", header.word("git_repo_root") or ""
    before, mark, below = cwd.partition("/.worktrees/")
    name = below.split("/")[0]
    path = os.path.join(before, ".worktrees", name)
    if not mark or not name or root.rstrip("/") not in (before, path):
        return {}
    return {
        "worktree_path": path,
        "worktree_branch": header.word("git_branch"),
        "worktree_repo_root": before,
        "worktree_created_at": values.seconds(header.values.get("started_at")),
    }


def of(head: dict[str, Any], header: Header | None) -> Worktree | None:
    """What a sidecar's head says, else its row; None if that is not all there."""
    told = head if head.get("worktree_path") else of_row(header) if header is not None else {}
    path, branch, root = (
        values.text(told.get(f"worktree_{part}")) for part in ("path", "branch", "repo_root")
    )
    made = values.seconds(told.get("worktree_created_at")) or values.seconds(head.get("created_at")) or 0.0
    if not path or not branch or not root:
        return None
    return Worktree(path=path, branch=branch, repo_root=root, created_at=clock.stamp(made))
