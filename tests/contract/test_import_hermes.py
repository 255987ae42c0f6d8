"""A Hermes home lives on in Holdfast: sessions with tokens, events, worktrees; no repair doubles them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.home import Home
from holdfast.store.location import Location
from tests.support.hermes_builder import Made, talk
from tests.support.hermes_holes import HOLES
from tests.support.terminal import Terminal

TREE = ".worktrees/hermes-12345678"
BRANCH = "hermes/hermes-12345678"


@pytest.fixture
def terminal(home: Home, location: Location, tmp_path: Path) -> Terminal:
    made = Terminal(home, str(tmp_path))
    made.env["HERMES_HOME"] = str(tmp_path / "hermes")
    if location.kind == "postgres":
        made.env["HOLDFAST_STORE"] = location.address
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a worktree as the web UI makes one."""
    root = tmp_path / "repo"

    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)

    root.mkdir()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "-b", BRANCH, str(root / TREE))
    return root


def test_sessions_come_with_tokens_events_and_worktrees(
    terminal: Terminal, repository: Path, tmp_path: Path
) -> None:
    made = Made(tmp_path / "hermes")
    tree = repository / TREE
    told = {"cwd": str(tree), "git_branch": BRANCH, "git_repo_root": str(repository)}
    made.row("inrow", talk("inrow", 4), **told)  # no sidecar: its row alone tells of the worktree
    fields = {"worktree_path": str(tree), "worktree_branch": BRANCH, "worktree_repo_root": str(repository)}
    made.side("infile", talk("infile", 4), workspace=str(tree), **fields)
    for name in ("wiped_with_backup", "stale", "undone", "deleted"):
        HOLES[name](made, name)
    made.index()
    done = terminal.asked("import", "hermes")
    assert done["failed"] == []
    taken = {one["native_id"]: one["session"] for one in done["adopted"]}
    assert set(taken) == {"inrow", "infile", "wiped_with_backup", "stale", "undone"}
    for own in ("inrow", "infile"):
        shown = terminal.asked("show", taken[own])
        worktree = shown["session"]["worktree"]
        assert (worktree["path"], worktree["branch"], worktree["repo_root"]) == (
            str(tree),
            BRANCH,
            str(repository),
        )
        assert [(token["native_id"], token["agent"]) for token in shown["tokens"]] == [(own, "hermes")]
        assert [
            e["body"]["text"] for e in terminal.log(taken[own]) if e["kind"] in ("user", "assistant")
        ] == [message["content"] for message in talk(own, 4)]
        assert terminal.asked("verdict", taken[own])["action"] == "resume"
    said = {own: [e["body"].get("text") for e in terminal.log(session)] for own, session in taken.items()}
    assert "wiped_with_backup says 7" in said["wiped_with_backup"]
    assert "stale asks" in said["stale"] and "an answer\u2028in pieces" in said["stale"]
    assert "undone says 7" not in said["undone"]
    plan = terminal.asked("doctor", "hermes", str(made.path), status=15)["fingerprint"]
    terminal.give("doctor", "hermes", str(made.path), "--apply", plan)
    again = terminal.asked("import", "hermes")
    assert {one["native_id"] for one in again["adopted"]} == set(taken)
    for one in again["adopted"]:
        assert not one["new"]
        log = [
            e["body"].get("text") for e in terminal.log(one["session"]) if e["kind"] in ("user", "assistant")
        ]
        assert len(log) == len(set(log)), "what a repair put back is not taken twice"
