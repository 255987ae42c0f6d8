"""A folder as git sees it, where there is git."""

from __future__ import annotations

import os

from holdfast.git import program, worktree
from holdfast.git.program import Changes


def in_git(cwd: str) -> bool:
    """Whether a folder is inside a git work tree, without asking git."""
    while not os.path.exists(os.path.join(cwd, ".git")):
        above = os.path.dirname(cwd)
        if above == cwd:
            return False
        cwd = above
    return True


async def changes(cwd: str) -> Changes | None:
    """The uncommitted changes of a folder; None where there is no git."""
    return await worktree.state(cwd) if in_git(cwd) else None


async def branch(cwd: str) -> str | None:
    """The branch that a folder is on; None where there is no git, or none that answers."""
    if not in_git(cwd):
        return None
    try:
        return await program.line(cwd, "rev-parse", "--abbrev-ref", "HEAD")
    except (program.GitFailed, program.GitMissing):
        return None
