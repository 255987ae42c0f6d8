"""A session's own git worktree: made, put back, and removed only when nothing can be lost with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from holdfast import durable_io, errors
from holdfast.git import commands, unfinished
from holdfast.git.commands import Changes
from holdfast.model.session import Worktree

# In a worktree's own git folder: what git is in the middle of.
IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a sequence of picks",
}
SHOWN = 5  # paths that a reason names


async def make(repo_cwd: str, session_id: str, worktrees: str, at: str) -> Worktree:
    """A new worktree and branch for a session, from the commit that `repo_cwd` is on."""
    common = await _repository(repo_cwd)
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else common
    branch = f"holdfast/{session_id}"
    path = os.path.join(os.path.abspath(worktrees), f"{_plain_name(root)}-{session_id}")
    start = await _known_commit(repo_cwd, "HEAD")
    if start is None:
        raise errors.BadInput(
            f"the git repository of {repo_cwd} has no commit yet, so no worktree can be made of it",
            hint="commit something first",
        )
    if await _known_commit(root, f"refs/heads/{branch}") is not None:
        raise errors.BadInput(
            f"the branch {branch} exists already in {root}", hint=f"see what it is with `git log {branch}`"
        )
    if os.path.lexists(path):
        raise errors.BadInput(f"{path} exists already", hint="move it away")
    durable_io.make_folder(worktrees)
    worktree = Worktree(path, branch, root, at)
    unfinished.note(worktree, start)
    try:
        await _add(worktree, repo_cwd, "-b", branch, "--", path, start)
    except errors.BadInput:
        with suppress(commands.GitFailed):  # git makes the branch first and leaves it
            await commands.do(root, "update-ref", "-d", f"refs/heads/{branch}", start)
        unfinished.forget(worktree)
        raise
    return worktree


async def back(worktree: Worktree) -> None:
    """Put a worktree that is gone back as it was committed; one that is there is left alone."""
    if os.path.isdir(worktree.path):
        if await _is_own(worktree):
            return
        raise errors.BadInput(
            f"{worktree.path} is there, but it is not the worktree of {worktree.repo_root}",
            hint="move it away",
        )
    await _repository(worktree.repo_root)
    left = await _left_of(worktree)
    if left is not None:
        await _revive(worktree, left)
        return
    if await _known_commit(worktree.repo_root, f"refs/heads/{worktree.branch}") is None:
        raise errors.BadInput(
            f"the worktree {worktree.path} is gone, and so is its branch {worktree.branch}",
            hint="start a fresh session",
        )
    durable_io.make_folder(os.path.dirname(worktree.path))
    await _add(worktree, worktree.repo_root, "--", worktree.path, worktree.branch)


async def state(path: str) -> Changes:
    """What is uncommitted in the work tree that a folder is in; a question that fails is its `problem`."""
    return await commands.changes(path)


async def folder_in(worktree: Worktree, repo_cwd: str) -> str:
    """The folder of the worktree that is what `repo_cwd` is in its own tree; its top if it has none."""
    try:
        within = await commands.line(repo_cwd, "rev-parse", "--show-prefix")
    except (commands.GitFailed, commands.GitMissing):
        return worktree.path
    folder = os.path.join(worktree.path, within).rstrip("/")
    return folder if os.path.isdir(folder) else worktree.path


async def may_remove(worktree: Worktree) -> list[str]:
    """Why the worktree must stay; empty only if git has answered every question.

    Ignored files do not count: what a repository says to ignore is build output and the like, and
    would keep every worktree forever.
    """
    path = worktree.path
    try:
        if not await _is_own(worktree):
            return [f"{path} is not a worktree of {worktree.repo_root} any more"]
        changes = await commands.changes(path)
        return [
            *_uncommitted(changes),
            *await _hidden(path),
            *await _unpushed(worktree, changes.branch),
            *_in_progress(await commands.line(path, "rev-parse", "--absolute-git-dir")),
        ]
    except (commands.GitFailed, commands.GitMissing, OSError) as problem:
        return [f"git could not be asked about {path}: {problem}"]


async def remove(worktree: Worktree) -> None:
    """Remove the worktree or refuse with the reasons; its branch stays unless another holds all of it."""
    reasons = await may_remove(worktree)
    if reasons:
        raise errors.Refused(
            f"the worktree {worktree.path} stays: {'; '.join(reasons)}",
            hint="commit and push what is in it, or move it away",
            reasons=reasons,
        )
    try:
        tip = await _commit(worktree.repo_root, f"refs/heads/{worktree.branch}")
        others = ("--not", f"--exclude={worktree.branch}", "--branches")
        own = "1" if tip is None else await _count(worktree.repo_root, tip, *others)
        # git looks once more itself, and would not see untracked files that the config hides.
        await commands.do(
            worktree.repo_root,
            "-c",
            "status.showUntrackedFiles=all",
            "worktree",
            "remove",
            "--",
            worktree.path,
            also=(worktree.path,),
        )
        if tip is not None and own == "0":  # only if it still is that commit
            await commands.do(worktree.repo_root, "update-ref", "-d", f"refs/heads/{worktree.branch}", tip)
        unfinished.forget(worktree)
    except (commands.GitFailed, commands.GitMissing) as problem:
        raise errors.Refused(f"the worktree {worktree.path} could not be removed: {problem}") from None


def left_behind(before: Changes, after: Changes) -> list[str]:
    """The paths that a task left uncommitted: new ones, and those that it wrote to again.

    Where either look failed nothing is said, for it might be somebody else's work.
    """
    if before.problem is not None or after.problem is not None:
        return []
    was = before.paths
    return [
        path
        for path, mark in sorted(after.paths.items())
        if (was[path] != mark if path in was else not before.more)
    ]


def overlap(now: Changes, left: Sequence[str]) -> list[str]:
    """Those of the paths that were left which are still uncommitted."""
    still = now.paths
    return sorted({path for path in left if path in still})


async def _repository(cwd: str) -> str:
    """The git folder that all worktrees of a repository share."""
    if not os.path.isdir(cwd):
        raise errors.BadInput(f"there is no folder {cwd}")
    try:
        shared = await commands.line(cwd, "rev-parse", "--git-common-dir")
    except commands.GitMissing:
        raise errors.BadInput(
            "git is not installed, and a worktree needs it", hint="install git, or run without --worktree"
        ) from None
    except commands.GitFailed as problem:
        if "not a git repository" in str(problem):
            raise errors.BadInput(
                f"{cwd} is in no git repository, so no worktree can be made of it",
                hint="run without --worktree, or `git init` and commit first",
            ) from None
        raise errors.BadInput(f"git refuses {cwd}: {problem}") from None
    return os.path.realpath(os.path.join(cwd, shared))


async def _commit(cwd: str, name: str) -> str | None:
    """The commit that a ref names; None if there is no such ref."""
    try:
        return await commands.line(cwd, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except commands.GitFailed as problem:
        if problem.status == 1:
            return None
        raise


async def _known_commit(cwd: str, name: str) -> str | None:
    """The same; a question that fails is an error that a user can read."""
    try:
        return await _commit(cwd, name)
    except commands.GitFailed as problem:
        raise errors.BadInput(f"git could not be asked for {name} in {cwd}: {problem}") from None


async def _add(worktree: Worktree, cwd: str, *args: str) -> None:
    try:
        await commands.do(cwd, "worktree", "add", "--quiet", *args)
    except commands.GitFailed as problem:
        # A hook that fails after the checkout fails the command, not the worktree.
        if await _is_own(worktree):
            found = await commands.changes(worktree.path)
            if found.problem is None and found.head is not None and not found.changed:
                return
        raise errors.BadInput(f"git could not make the worktree {worktree.path}: {problem}") from None


async def _is_own(worktree: Worktree) -> bool:
    """Whether the folder is the top of a worktree of that repository, not just a folder in another."""
    try:
        top = await commands.line(worktree.path, "rev-parse", "--show-toplevel")
        shared = await commands.line(worktree.path, "rev-parse", "--git-common-dir")
        root = await commands.line(worktree.repo_root, "rev-parse", "--git-common-dir")
    except (commands.GitFailed, commands.GitMissing):
        return False
    return os.path.realpath(top) == os.path.realpath(worktree.path) and os.path.realpath(
        os.path.join(worktree.path, shared)
    ) == os.path.realpath(os.path.join(worktree.repo_root, root))


async def _left_of(worktree: Worktree) -> str | None:
    """Git's own folder of a worktree whose files are gone; it has the index, and so what was staged."""
    shared = await _repository(worktree.repo_root)
    folder = os.path.join(shared, "worktrees")
    wanted = os.path.realpath(os.path.join(worktree.path, ".git"))
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        try:
            with open(os.path.join(folder, name, "gitdir"), encoding="utf-8") as file:
                place = file.read().strip()
        except (OSError, ValueError):
            continue
        if os.path.realpath(place) == wanted:
            return os.path.join(folder, name)
    return None


async def _revive(worktree: Worktree, own: str) -> None:
    """Check out the files of a worktree that git still knows; adding it again would drop staged changes."""
    durable_io.make_folder(os.path.dirname(worktree.path))
    os.mkdir(worktree.path)
    durable_io.create(os.path.join(worktree.path, ".git"), [f"gitdir: {own}\n".encode()])
    try:
        await commands.do(worktree.path, "checkout-index", "--all", "--quiet")
    except commands.GitFailed as problem:
        raise errors.BadInput(f"git could not put {worktree.path} back: {problem}") from None


def _uncommitted(changes: Changes) -> list[str]:
    if changes.problem is not None:
        return [f"git could not be asked what is uncommitted: {changes.problem}"]
    reasons = []
    if changes.changed:
        reasons.append(f"uncommitted changes: {_some(changes.changed, changes.more)}")
    if changes.untracked:
        reasons.append(f"untracked files: {_some(changes.untracked, changes.more)}")
    if not reasons and not changes.clean:
        reasons.append("more changes than can be read")
    return reasons


async def _hidden(path: str) -> list[str]:
    """Files that git was told not to look at: it would remove them without a word."""
    told = await commands.ask(path, "ls-files", "-v", "-z", limit=64 * 1024 * 1024)
    found = []
    for record in told.output.split(b"\0")[:-1]:
        flag, file = record[:1], record[2:]
        if (flag == b"S" or flag.islower()) and os.path.lexists(os.path.join(os.fsencode(path), file)):
            found.append(commands.text(file))
    reasons = [f"files that git was told not to look at: {_some(found, False)}"] if found else []
    return [*reasons, "more files than can be looked at"] if told.cut else reasons


async def _unpushed(worktree: Worktree, branch: str | None) -> list[str]:
    """Commits of the branch and of what is checked out that are on no remote and on no other branch."""
    head = await _commit(worktree.path, "HEAD")
    if head is None:
        return ["what is checked out has no commit"]
    own = await _commit(worktree.path, f"refs/heads/{worktree.branch}")
    tips = [head] if own is None else [head, own]
    others = [f"--exclude={name}" for name in sorted({worktree.branch, branch or worktree.branch})]
    count = await _count(worktree.path, *tips, "--not", *others, "--branches", "--remotes")
    return [] if count == "0" else [f"{count} commits that are on no remote and on no other branch"]


async def _count(cwd: str, *args: str) -> str:
    return await commands.line(cwd, "rev-list", "--count", *args)


def _in_progress(folder: str) -> list[str]:
    reasons = []
    for name in sorted(os.listdir(folder)):
        if name in IN_PROGRESS:
            reasons.append(f"{IN_PROGRESS[name]} is in progress")
        elif name.endswith(".lock"):
            reasons.append(f"git holds a lock in it: {name}")
        elif name == "locked":
            reasons.append("it is locked (`git worktree lock`)")
    return reasons


def _some(paths: dict[str, str] | list[str], more: bool) -> str:
    names = sorted(paths)
    rest = len(names) - SHOWN
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {rest}{' or more' if more else ''} others" if rest > 0 else shown


def _plain_name(root: str) -> str:
    """A repository's name as a part of a file name."""
    name = os.path.basename(root).removesuffix(".git")
    plain = "".join([c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name])
    return plain.strip(".-")[:40] or "repo"


# --- A folder as git sees it, where there is git.


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
    return await state(cwd) if in_git(cwd) else None


async def branch(cwd: str) -> str | None:
    """The branch that a folder is on; None where there is no git, or none that answers."""
    if not in_git(cwd):
        return None
    try:
        return await commands.line(cwd, "rev-parse", "--abbrev-ref", "HEAD")
    except (commands.GitFailed, commands.GitMissing):
        return None
