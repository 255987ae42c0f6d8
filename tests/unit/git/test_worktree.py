"""Worktrees, with real repositories and the real git."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.git import commands, worktree
from holdfast.git.commands import Changes, GitOutput
from holdfast.model.session import Worktree

AT = "2026-01-31T12:00:00.000000Z"
SESSION = "s0123456789abcde"


@pytest.fixture(autouse=True)
def plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = T\n\temail = t@example.invalid\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def run(cwd: str | Path, *args: str) -> str:
    done = subprocess.run(("git", *args), cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def shell(tree: Worktree, command: str) -> int:
    return subprocess.run(("sh", "-c", command), cwd=tree.path, capture_output=True).returncode


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "my repo"
    (repo / "deep" / "er").mkdir(parents=True)
    run(repo, "init", "-q")
    (repo / "file").write_text("one\n")
    (repo / "deep" / "er" / "f").write_text("x\n")
    (repo / ".gitignore").write_text("*.o\n")
    run(repo, "add", ".")
    run(repo, "commit", "-qm", "first")
    return repo


@pytest.fixture
async def tree(repo: Path, tmp_path: Path) -> Worktree:
    return await worktree.make(str(repo), SESSION, str(tmp_path / "home" / "worktrees"), AT)


def write(tree: Worktree, name: str, text: str = "new\n") -> None:
    Path(tree.path, name).write_text(text)


def commit(tree: Worktree, name: str = "file", text: str = "changed\n") -> None:
    write(tree, name, text)
    run(tree.path, "add", name)
    run(tree.path, "commit", "-qm", name)


def branches(repo: Path | str) -> list[str]:
    return run(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


async def test_a_worktree_has_a_branch_and_a_folder_of_its_own(tree: Worktree, repo: Path) -> None:
    assert tree == Worktree(tree.path, f"holdfast/{SESSION}", str(repo), AT)
    assert os.path.basename(tree.path) == f"my-repo-{SESSION}"
    assert run(tree.path, "rev-parse", "HEAD") == run(repo, "rev-parse", "HEAD")
    seen = await worktree.state(tree.path)
    assert seen.clean and seen.branch == tree.branch and seen.head == run(repo, "rev-parse", "HEAD")


async def test_it_is_made_from_where_one_is(repo: Path, tmp_path: Path) -> None:
    run(repo, "switch", "-qc", "topic")
    (repo / "file").write_text("topic\n")
    run(repo, "commit", "-qam", "topic")
    run(repo, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    made = await worktree.make(str(tmp_path / "linked" / "deep"), SESSION, str(tmp_path / "w"), AT)
    assert run(made.path, "rev-parse", "HEAD") == run(repo, "rev-parse", "main")
    assert made.repo_root == str(repo)  # not the linked worktree, which may go away
    assert await worktree.folder_in(made, str(tmp_path / "linked" / "deep" / "er")) == f"{made.path}/deep/er"
    assert await worktree.folder_in(made, str(repo)) == made.path
    (repo / "only here").mkdir()
    assert await worktree.folder_in(made, str(repo / "only here")) == made.path


async def test_a_bare_repository_with_worktrees_will_do(repo: Path, tmp_path: Path) -> None:
    run(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    run(tmp_path / "bare.git", "worktree", "add", "-q", "../linked", "main")
    made = await worktree.make(str(tmp_path / "linked"), SESSION, str(tmp_path / "w"), AT)
    assert made.repo_root == str(tmp_path / "bare.git") and os.path.basename(made.path) == f"bare-{SESSION}"
    assert await worktree.may_remove(made) == []
    await worktree.remove(made)


async def test_what_git_is_told_by_the_environment_does_not_count(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    run(tmp_path, "init", "-q", str(other))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_TRACE", "1")
    made = await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    assert made.repo_root == str(repo) and (await worktree.state(made.path)).clean


def test_the_environment() -> None:
    given = {"GIT_DIR": "x", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_GLOBAL": "/c", "PATH": "/p", "LC_ALL": "de"}
    env = commands.environment(given)
    assert "GIT_DIR" not in env and "GIT_CONFIG_COUNT" not in env
    assert (env["GIT_CONFIG_GLOBAL"], env["PATH"], env["LC_ALL"]) == ("/c", "/p", "C")


async def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput, match="in no git repository") as told:
        await worktree.make(str(tmp_path), SESSION, str(tmp_path / "w"), AT)
    assert "git init" in told.value.hint and not (tmp_path / "w").exists()
    with pytest.raises(errors.BadInput, match="no folder"):
        await worktree.make(str(tmp_path / "none"), SESSION, str(tmp_path / "w"), AT)


async def test_no_commit(tmp_path: Path) -> None:
    run(tmp_path, "init", "-q", "empty")
    with pytest.raises(errors.BadInput, match="no commit yet"):
        await worktree.make(str(tmp_path / "empty"), SESSION, str(tmp_path / "w"), AT)
    seen = await worktree.state(str(tmp_path / "empty"))
    assert seen.clean and seen.head is None and seen.branch == "main"


async def test_no_git(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.BadInput, match="git is not installed") as told:
        await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    assert told.value.hint
    seen = await worktree.state(str(repo))
    assert seen.problem == "git is not installed" and not seen.clean


async def test_the_branch_exists(repo: Path, tmp_path: Path) -> None:
    run(repo, "branch", f"holdfast/{SESSION}")
    with pytest.raises(errors.BadInput, match=r"branch holdfast/.* exists already"):
        await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)


async def test_a_branch_in_the_way_and_a_folder_in_the_way(repo: Path, tmp_path: Path) -> None:
    run(repo, "branch", "holdfast")
    with pytest.raises(errors.BadInput, match="cannot lock ref"):
        await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    run(repo, "branch", "-D", "holdfast")
    (tmp_path / "w" / f"my-repo-{SESSION}").mkdir(parents=True)
    with pytest.raises(errors.BadInput, match="exists already"):
        await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    assert branches(repo) == ["main"]


async def test_a_failed_make_leaves_no_branch(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitattributes").write_text("file filter=bad\n")
    run(repo, "add", ".")
    run(repo, "commit", "-qm", "filter")
    run(repo, "config", "--global", "filter.bad.smudge", "false")
    run(repo, "config", "--global", "filter.bad.required", "true")
    with pytest.raises(errors.BadInput, match="could not make the worktree"):
        await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    assert branches(repo) == ["main"] and os.listdir(tmp_path / "w") == []


async def test_a_hook_that_fails_after_the_checkout_is_not_our_failure(repo: Path, tmp_path: Path) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    made = await worktree.make(str(repo), SESSION, str(tmp_path / "w"), AT)
    assert (await worktree.state(made.path)).clean


async def test_state_sees_all_that_is_uncommitted(tree: Worktree, repo: Path) -> None:
    run(repo, "config", "status.showUntrackedFiles", "no")
    write(tree, "file")
    write(tree, "staged")
    run(tree.path, "add", "staged")
    run(tree.path, "mv", "deep/er/f", "moved there")
    Path(tree.path, "new dir").mkdir()
    write(tree, "new dir/ä\n\x7f")
    Path(os.fsdecode(os.path.join(os.fsencode(tree.path), b"\xff"))).write_text("x")
    write(tree, "build.o")
    seen = await worktree.state(os.path.join(tree.path, "new dir"))  # from any folder of it
    assert set(seen.changed) == {"file", "staged", "deep/er/f", "moved there"}
    assert set(seen.untracked) == {"new dir/ä\n\x7f", "\\xff"}
    assert not seen.clean and "gone" in seen.changed["deep/er/f"] and "gone" not in seen.untracked["\\xff"]
    assert msgspec.convert(msgspec.to_builtins(seen), Changes) == seen


async def test_state_sees_conflicts(tree: Worktree, repo: Path) -> None:
    commit(tree, "file", "theirs\n")
    (repo / "file").write_text("ours\n")
    run(repo, "commit", "-qam", "ours")
    assert shell(tree, "git merge -q main") == 1
    assert list((await worktree.state(tree.path)).changed) == ["file"]
    reasons = await worktree.may_remove(tree)
    assert "a merge is in progress" in reasons


async def test_state_is_bounded(tree: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(tree, f"n{number:02}")
    monkeypatch.setattr(commands, "MAX_PATHS", 10)
    seen = await worktree.state(tree.path)
    assert len(seen.paths) == 10 and seen.more and not seen.clean
    monkeypatch.setattr(commands, "MAX_PATHS", 1000)
    told = await commands.ask(tree.path, "status", "--porcelain=v2", "--branch", "-z", limit=150)
    assert told.cut and len(told.output) == 150 and commands.parse(told, tree.path).more


async def test_a_question_that_fails_is_not_clean(tree: Worktree, repo: Path) -> None:
    (repo / ".git" / "worktrees" / os.path.basename(tree.path) / "index").write_text("rubbish")
    seen = await worktree.state(tree.path)
    assert seen.problem is not None and not seen.clean
    assert worktree.left_behind(Changes(), seen) == []
    assert await worktree.may_remove(tree)
    assert (await worktree.state(str(repo.parent))).problem is not None
    assert (await worktree.state(str(repo / "none"))).problem is not None


async def test_a_git_that_does_not_answer_is_not_clean(
    tree: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid; echo clean; exec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(commands, "QUESTION_S", 0.2)
    began = time.monotonic()
    seen = await worktree.state(tree.path)
    assert seen.problem is not None and "did not end within" in seen.problem and not seen.clean
    assert time.monotonic() - began < 3
    asking = asyncio.create_task(worktree.state(tree.path))
    await asyncio.sleep(0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    monkeypatch.setattr(commands, "QUESTION_S", 0.05)
    assert len(await worktree.may_remove(tree)) == 1


async def test_an_unknown_answer_is_not_clean() -> None:
    assert commands.parse(GitOutput(b"# branch.oid abc\x00X what\x00"), "/").problem
    assert commands.parse(GitOutput(b"# branch.oid abc\x00# stash 3\x00"), "/") == Changes(head="abc")


def shown(reasons: list[str]) -> str:
    return "; ".join(reasons)


async def test_a_clean_one_may_go_and_takes_its_branch_along(tree: Worktree, repo: Path) -> None:
    write(tree, "build.o")  # ignored files do not count
    assert await worktree.may_remove(tree) == []
    await worktree.remove(tree)
    assert not os.path.exists(tree.path) and branches(repo) == ["main"]
    assert "holdfast" not in run(repo, "worktree", "list")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("echo x >> file", "uncommitted changes: file"),
        ("rm file", "uncommitted changes: file"),
        ("git rm -q --cached file", "file"),
        ("echo x > new && git add new", "uncommitted changes: new"),
        ("chmod +x file", "uncommitted changes: file"),
        ("echo x > new", "untracked files: new"),
        ("git init -q nested && echo x > nested/f", "untracked files: nested/"),
        ("echo x >> file && git commit -qam x", "1 commits that are on no remote"),
        ("git commit -q --allow-empty -m x && git switch -q --detach HEAD^", "1 commits"),
        ("git switch -q --detach && git commit -q --allow-empty -m x", "1 commits"),
        ("git switch -qc topic && git commit -q --allow-empty -m x", "1 commits"),
        ("git switch -q --orphan blank", "no commit"),
        ("git bisect start -q HEAD >/dev/null", "a bisect is in progress"),
        ('touch "$(git rev-parse --git-dir)/index.lock"', "git holds a lock in it: index.lock"),
        ("git worktree lock .", "it is locked"),
        ("git update-index --assume-unchanged file && echo x >> file", "told not to look at: file"),
        ("git update-index --skip-worktree file && echo x >> file", "told not to look at: file"),
        ("rm .git", "not a worktree of"),
        ("rm .git && git init -q .", "not a worktree of"),
        ('echo x > "$(git rev-parse --git-dir)/HEAD"', "not a worktree of"),
    ],
)
async def test_what_could_be_lost_stays(tree: Worktree, repo: Path, harm: str, reason: str) -> None:
    # A repository around it would answer for a folder that is no worktree any more.
    around = os.path.dirname(os.path.dirname(tree.path))
    run(around, "init", "-q")
    Path(around, ".gitignore").write_text("*\n")
    assert shell(tree, harm) == 0
    before = sorted(os.listdir(tree.path))
    assert reason in shown(await worktree.may_remove(tree))
    with pytest.raises(errors.Refused, match="stays") as told:
        await worktree.remove(tree)
    assert told.value.facts["reasons"]
    assert sorted(os.listdir(tree.path)) == before and tree.branch in branches(repo)


async def test_a_folder_in_the_same_repository_is_no_worktree(repo: Path) -> None:
    (repo / ".git" / "info" / "exclude").write_text("home\n")
    made = await worktree.make(str(repo), SESSION, str(repo / "home" / "worktrees"), AT)
    assert await worktree.may_remove(made) == []
    os.unlink(os.path.join(made.path, ".git"))
    assert "not a worktree of" in shown(await worktree.may_remove(made))


@pytest.mark.parametrize("end", ["exit 128", "kill -9 $$", "echo; exit 3"])
async def test_any_one_question_that_fails_keeps_it(
    tree: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    true = shutil.which("git")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho x >> "{tmp_path}/calls"\n'
        f'[ "$(wc -l < "{tmp_path}/calls")" = "$(cat "{tmp_path}/fails")" ] && {{ {end}; }}\n'
        f'exec {true} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    for number in range(20):
        (tmp_path / "fails").write_text(str(number))
        (tmp_path / "calls").write_text("")
        reasons = await worktree.may_remove(tree)
        calls = (tmp_path / "calls").read_text().count("x")
        assert (reasons == []) is (number == 0 or calls < number), (number, reasons)
        if calls < number:
            break
    assert 8 < number < 20


async def test_a_rebase_in_progress_stays(tree: Worktree, repo: Path) -> None:
    commit(tree, "file", "theirs\n")
    (repo / "file").write_text("ours\n")
    run(repo, "commit", "-qam", "ours")
    assert shell(tree, "git rebase -q main") == 1
    assert "a rebase is in progress" in await worktree.may_remove(tree)


async def test_a_sparse_worktree_may_go(tree: Worktree) -> None:
    run(tree.path, "sparse-checkout", "set", "--no-cone", "deep")
    assert not os.path.exists(os.path.join(tree.path, "file"))
    assert await worktree.may_remove(tree) == []


async def test_a_branch_that_was_pushed_may_go_and_is_kept(tree: Worktree, repo: Path) -> None:
    run(repo.parent, "init", "-q", "--bare", "far.git")
    run(repo, "remote", "add", "origin", str(repo.parent / "far.git"))
    commit(tree)
    assert "1 commits" in shown(await worktree.may_remove(tree))
    run(tree.path, "push", "-q", "origin", "HEAD")
    assert await worktree.may_remove(tree) == []
    await worktree.remove(tree)
    assert not os.path.exists(tree.path) and tree.branch in branches(repo)
    await worktree.back(tree)
    assert Path(tree.path, "file").read_text() == "changed\n"
    assert (await worktree.state(tree.path)).branch == tree.branch


async def test_a_branch_that_was_merged_elsewhere_goes(tree: Worktree, repo: Path) -> None:
    commit(tree)
    run(repo, "branch", "merged", tree.branch)
    assert await worktree.may_remove(tree) == []
    await worktree.remove(tree)
    assert branches(repo) == ["main", "merged"]


async def test_a_branch_of_a_longer_name_is_another_branch(tree: Worktree, repo: Path) -> None:
    commit(tree)
    run(repo, "branch", f"{tree.branch}x", tree.branch)
    assert await worktree.may_remove(tree) == []


async def test_untracked_files_that_the_config_hides_stay(tree: Worktree, repo: Path) -> None:
    run(repo, "config", "status.showUntrackedFiles", "no")
    write(tree, "new")
    assert "untracked files: new" in shown(await worktree.may_remove(tree))


async def test_git_itself_has_the_last_word(
    tree: Worktree, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that appears after we looked: git looks again, even where the config hides it."""
    run(repo, "config", "status.showUntrackedFiles", "no")

    async def nothing(worktree: Worktree) -> list[str]:
        write(tree, "late")
        return []

    monkeypatch.setattr(worktree, "may_remove", nothing)
    with pytest.raises(errors.Refused, match="could not be removed"):
        await worktree.remove(tree)
    assert Path(tree.path, "late").exists() and tree.branch in branches(repo)


async def test_back_leaves_what_is_there(tree: Worktree) -> None:
    write(tree, "file", "mine\n")
    await worktree.back(tree)
    assert Path(tree.path, "file").read_text() == "mine\n"


async def test_back_after_the_folder_was_deleted_keeps_what_was_staged(tree: Worktree) -> None:
    commit(tree)
    write(tree, "staged", "precious\n")
    run(tree.path, "add", "staged")
    shutil.rmtree(tree.path)
    await worktree.back(tree)
    assert Path(tree.path, "staged").read_text() == "precious\n"
    assert Path(tree.path, "file").read_text() == "changed\n"
    seen = await worktree.state(tree.path)
    assert list(seen.paths) == ["staged"] and seen.branch == tree.branch


async def test_back_refuses_what_it_cannot_do(tree: Worktree, repo: Path) -> None:
    await worktree.remove(tree)
    with pytest.raises(errors.BadInput, match="so is its branch"):
        await worktree.back(tree)
    os.mkdir(tree.path)
    with pytest.raises(errors.BadInput, match="is there, but it is not"):
        await worktree.back(tree)
    os.rmdir(tree.path)
    run(repo, "worktree", "add", "-q", "-b", tree.branch, str(repo.parent / "elsewhere"))
    with pytest.raises(errors.BadInput, match=r"already (checked out|used by worktree)"):
        await worktree.back(tree)
    shutil.rmtree(repo)
    with pytest.raises(errors.BadInput, match="no folder"):
        await worktree.back(tree)


async def test_what_a_task_left_behind(tree: Worktree) -> None:
    write(tree, "mine")
    write(tree, "touched")
    write(tree, "committed")
    before = await worktree.state(tree.path)
    write(tree, "touched", "more and more\n")
    write(tree, "file", "changed\n")
    write(tree, "new")
    run(tree.path, "add", "committed")
    run(tree.path, "commit", "-qm", "x", "committed")
    after = await worktree.state(tree.path)
    left = worktree.left_behind(before, after)
    assert left == ["file", "new", "touched"]
    assert worktree.left_behind(after, after) == []
    run(tree.path, "add", ".")  # staging somebody's work does not make it one's own
    assert worktree.left_behind(before, await worktree.state(tree.path)) == left
    run(tree.path, "reset", "-q")
    run(tree.path, "checkout", "file")
    assert worktree.overlap(await worktree.state(tree.path), left) == ["new", "touched"]


paths = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("12"))
looks = st.builds(Changes, paths, paths, more=st.booleans(), problem=st.sampled_from([None, None, "no"]))


@settings(deadline=None, max_examples=60)
@given(looks, looks)
def test_left_behind_and_overlap_hold_together(before: Changes, after: Changes) -> None:
    left = worktree.left_behind(before, after)
    assert left == sorted(set(left)) and set(left) <= set(after.paths)
    assert worktree.left_behind(after, after) == []
    assert worktree.overlap(after, left) == left
    if before.problem or after.problem:
        assert left == []
    elif before.more:  # whose the others are is not known
        assert set(left) <= set(before.paths)
    else:
        untouched = {path for path, mark in after.paths.items() if before.paths.get(path) == mark}
        assert set(left) == set(after.paths) - untouched
