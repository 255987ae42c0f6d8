"""A repository whose configuration starts programs: none of them runs when the hub asks git something."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.git import commands, worktree
from holdfast.git.commands import GitFailed, filter_overrides

AT = "2026-01-31T12:00:00.000000Z"
SESSION = "s0123456789abcde"


def run(cwd: Path, *args: str) -> str:
    done = subprocess.run(("git", *args), cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = tmp_path / "gitconfig"
    config.write_text(
        "[user]\n\tname = T\n\temail = t@example.invalid\n[init]\n\tdefaultBranch = main\n"
        '[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "swordfish")
    return config


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    run(made, "init", "-q")
    (made / "file").write_text("one\n")
    (made / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    run(made, "add", ".")
    run(made, "commit", "-qm", "first")
    return made


def trap(tmp_path: Path) -> str:
    """A command that leaves a trace, with what it has in its environment."""
    path = tmp_path / "trap"
    path.write_text(f'#!/bin/sh\nenv >>"{tmp_path}/trace"\necho "$0 $*" >>"{tmp_path}/trace"\ncat\n')
    path.chmod(0o755)
    return str(path)


def touch(repo: Path) -> None:
    """So that git has to read the file again."""
    (repo / "file").write_text("two\n")
    os.utime(repo / "file", (1, 1))


def spring(repo: Path, tmp_path: Path, mechanism: str) -> None:
    """Set one trap in a repository."""
    evil = trap(tmp_path)
    if mechanism == "hooks":
        hooks = repo / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
            (hooks / name).write_text(f"#!/bin/sh\nexec {evil} </dev/null\n")
            (hooks / name).chmod(0o755)
    elif mechanism == "hooks_path":
        folder = tmp_path / "hooks"
        folder.mkdir()
        for name in ("post-checkout", "reference-transaction", "post-index-change"):
            (folder / name).write_text(f"#!/bin/sh\nexec {evil} </dev/null\n")
            (folder / name).chmod(0o755)
        run(repo, "config", "core.hooksPath", str(folder))
    elif mechanism == "required":
        run(repo, "config", "filter.evil.clean", evil)
        run(repo, "config", "filter.evil.smudge", evil)
        run(repo, "config", "filter.evil.required", "true")
    elif mechanism == "included":
        (repo / ".git" / "more").write_text(f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n')
        run(repo, "config", "include.path", "more")
    elif mechanism == "worktree_config":
        run(repo, "config", "extensions.worktreeConfig", "true")
        run(repo, "config", "--worktree", "filter.evil.clean", evil)
        run(repo, "config", "--worktree", "filter.evil.smudge", evil)
    elif mechanism == "promisor":
        run(repo, "config", "remote.origin.url", f"ext::{evil}")
        run(repo, "config", "remote.origin.promisor", "true")
        run(repo, "config", "protocol.ext.allow", "always")
        run(repo, "config", "extensions.partialClone", "origin")
        blob = run(repo, "rev-parse", "HEAD:file")
        os.unlink(repo / ".git" / "objects" / blob[:2] / blob[2:])
    else:
        run(repo, "config", mechanism, evil)


MECHANISMS = [
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.askPass",
    "credential.helper",
    "diff.external",
    "diff.evil.textconv",
    "diff.evil.command",
    "required",
    "included",
    "worktree_config",
    "hooks",
    "hooks_path",
    "promisor",
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_nothing_of_the_repositorys_choice_runs(repo: Path, tmp_path: Path, mechanism: str) -> None:
    spring(repo, tmp_path, mechanism)
    touch(repo)
    trace = tmp_path / "trace"
    found = await commands.changes(str(repo))
    assert mechanism == "promisor" or list(found.changed) == ["file"], found
    for question in (("diff",), ("log", "-p", "-1"), ("show", "HEAD")):
        try:
            await commands.ask(str(repo), *question)
        except GitFailed:
            assert mechanism == "promisor"
    try:
        tree = await worktree.make(str(repo), SESSION, str(tmp_path / "worktrees"), AT)
    except errors.BadInput as problem:
        assert mechanism == "promisor", problem
        assert not trace.exists()
        return
    assert Path(tree.path, "file").read_text() == "one\n"
    await worktree.state(tree.path)
    shutil.rmtree(tree.path)
    await worktree.back(tree)
    await worktree.remove(tree)
    assert not os.path.exists(tree.path)
    assert not trace.exists(), trace.read_text()


@pytest.mark.parametrize("mechanism", ["filter.evil.clean", "filter.evil.process", "core.fsmonitor"])
async def test_a_submodule_is_looked_at_without_its_filters(
    repo: Path, tmp_path: Path, mechanism: str
) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    run(outer, "init", "-q")
    run(outer, "submodule", "--quiet", "add", str(repo), "sub")
    run(outer, "commit", "-qm", "first")
    assert (await commands.changes(str(outer))).clean
    git_dir = Path(run(outer / "sub", "rev-parse", "--absolute-git-dir"))
    run(outer, "config", "-f", str(git_dir / "config"), mechanism, trap(tmp_path))
    touch(outer / "sub")
    before = await commands.changes(str(outer))
    assert list(before.changed) == ["sub"]
    (outer / "sub" / "new").write_text("x")
    after = await commands.changes(str(outer))
    assert list(after.changed) == ["sub"] and after.changed != before.changed
    assert not (tmp_path / "trace").exists()


async def test_a_filter_of_the_users_own_runs_at_a_checkout_and_sees_no_secret(
    repo: Path, tmp_path: Path, plain_git: Path
) -> None:
    """Git LFS is such a filter: `git lfs install` writes it into the user's configuration."""
    trap(tmp_path)
    own = tmp_path / "own"
    own.write_text(f'#!/bin/sh\nenv >>"{tmp_path}/own-env"\ncat >/dev/null\necho large\n')
    own.chmod(0o755)
    plain_git.write_text(plain_git.read_text() + f'[filter "evil"]\n\tsmudge = {own}\n')
    run(repo, "config", "filter.evil.smudge", str(tmp_path / "trap"))
    tree = await worktree.make(str(repo), SESSION, str(tmp_path / "worktrees"), AT)
    assert Path(tree.path, "file").read_text() == "large\n"
    assert not (tmp_path / "trace").exists()
    seen = (tmp_path / "own-env").read_text()
    assert "HOME=" in seen and "swordfish" not in seen


def test_a_filter_that_cannot_be_turned_off_is_an_error() -> None:
    with pytest.raises(GitFailed, match="a=b"):
        filter_overrides(b"local\0filter.a=b.clean\ncat\0", own_filters=True)


def test_git_sees_nothing_of_our_environment_that_it_does_not_need() -> None:
    given = {"PATH": "/bin", "HOME": "/h", "ANTHROPIC_API_KEY": "k", "GIT_DIR": "/x", "GIT_SSH_COMMAND": "x"}
    made = commands.environment(given)
    assert made["PATH"] == "/bin" and made["HOME"] == "/h"
    assert not {"ANTHROPIC_API_KEY", "GIT_DIR", "GIT_SSH_COMMAND"} & set(made)
