"""hermes-agent's own transcript of a session, a JSON file that it writes if it is told to.

It has no times, and nobody cuts it when messages are taken back. So it stands in for rows only where the
database has none and the sidecar tells nothing.
"""

from __future__ import annotations

import os
from typing import Any

from holdfast import timestamps
from holdfast.model.session import Worktree
from holdfast.peers.hermes import sidecar, values
from holdfast.peers.hermes.database import HermesSessionRow
from holdfast.peers.hermes.layout import HermesLayout
from holdfast.peers.hermes.messages import HermesMessage, read_message
from holdfast.peers.hermes.sidecar import Sidecar


class HermesTranscript:
    """What one such file has, in the place of rows."""

    def __init__(self, side: Sidecar):
        self.path = side.path
        self._told = [one for one in side.messages if isinstance(one, dict)]

    def places(self, native_id: str) -> list[int]:
        """One for each message."""
        return list(range(len(self._told)))

    def message(self, place: int) -> HermesMessage | None:
        """One of them."""
        return read_message(self._told[place], "row", f"transcript-{place}")


def find(layout: HermesLayout, native_id: str, live: Sidecar) -> HermesTranscript | None:
    """The transcript that may stand in for a session's rows, if there is one."""
    if not may_stand_in(live):
        return None
    sides = [sidecar.load(path) for path in layout.transcripts(native_id)]
    whole = [side for side in sides if side.state == "whole" and _is_of(side, native_id)]
    return HermesTranscript(whole[0]) if len(whole) == 1 and whole[0].messages else None


def may_stand_in(live: Sidecar) -> bool:
    """Whether a sidecar lost what it had, and does not say that somebody took it away."""
    if live.state == "unreadable" or (live.state == "whole" and live.messages):
        return False
    marks = ("truncation_boundary", "truncation_watermark", "clear_generation")
    return all(live.head.get(name) is None for name in marks)


def _is_of(side: Sidecar, native_id: str) -> bool:
    return values.identifier(side.head.get("session_id")) in ("", native_id)


# --- The folder and git worktree of a session, as its sidecar or its row records them.


def folder_of_row(header: HermesSessionRow) -> str | None:
    """The session's folder: the agent's schema names it `cwd`, the web UI's own schema `workspace`."""
    return header.word("workspace") or header.word("worktree_path") or header.word("cwd")


def worktree_fields(header: HermesSessionRow) -> dict[str, Any]:
    """The sidecar's worktree fields from a row of either schema."""
    started = values.seconds(header.values.get("started_at"))
    if path := header.word("worktree_path"):
        return {
            "worktree_path": path,
            "worktree_branch": header.word("worktree_branch") or header.word("git_branch"),
            "worktree_repo_root": header.word("worktree_repo_root") or header.word("git_repo_root"),
            "worktree_created_at": values.seconds(header.values.get("worktree_created_at")) or started,
        }
    # The agent's schema has no such columns: a worktree is a folder below `.worktrees` of a repository.
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
