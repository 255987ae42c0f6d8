"""The folder and git worktree of a session, as its sidecar or its row records them."""

from __future__ import annotations

import os
from typing import Any

from holdfast import timestamps
from holdfast.model.session import Worktree
from holdfast.peers.hermes import values
from holdfast.peers.hermes.database import HermesSessionRow


def folder_of_row(header: HermesSessionRow) -> str | None:
    """The session's folder: the agent's schema names it `cwd`, the web UI's own schema `workspace`."""
    return header.text("workspace") or header.text("worktree_path") or header.text("cwd")


def worktree_fields(header: HermesSessionRow) -> dict[str, Any]:
    """The sidecar's worktree fields from a row of either schema."""
    started = values.seconds(header.values.get("started_at"))
    if path := header.text("worktree_path"):
        return {
            "worktree_path": path,
            "worktree_branch": header.text("worktree_branch") or header.text("git_branch"),
            "worktree_repo_root": header.text("worktree_repo_root") or header.text("git_repo_root"),
            "worktree_created_at": values.seconds(header.values.get("worktree_created_at")) or started,
        }
    # The agent's schema has no such columns: a worktree is a folder below `.worktrees` of a repository.
    cwd, root = header.text("cwd") or "", header.text("git_repo_root") or ""
    before, mark, below = cwd.partition("/.worktrees/")
    name = below.split("/")[0]
    path = os.path.join(before, ".worktrees", name)
    if not mark or not name or root.rstrip("/") not in (before, path):
        return {}
    return {
        "worktree_path": path,
        "worktree_branch": header.text("git_branch"),
        "worktree_repo_root": before,
        "worktree_created_at": started,
    }


def worktree_of(head: dict[str, Any], header: HermesSessionRow | None) -> Worktree | None:
    """The worktree in a sidecar's head, else in its row; None if a part is missing."""
    fields = head if head.get("worktree_path") else worktree_fields(header) if header is not None else {}
    path, branch, root = (
        values.text(fields.get(f"worktree_{part}")) for part in ("path", "branch", "repo_root")
    )
    created = (
        values.seconds(fields.get("worktree_created_at")) or values.seconds(head.get("created_at")) or 0.0
    )
    if not path or not branch or not root:
        return None
    return Worktree(path=path, branch=branch, repo_root=root, created_at=timestamps.stamp(created))
