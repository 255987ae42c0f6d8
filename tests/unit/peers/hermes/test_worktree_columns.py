"""Rows of the web UI's own schema: folder and worktree are columns, which its own repair keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hermes.install import HermesInstall
from holdfast.peers.hermes.reader import HermesReader
from tests.support.hermes_builder import T0, Made

COLUMNS = {
    "workspace": "TEXT",
    "worktree_path": "TEXT",
    "worktree_branch": "TEXT",
    "worktree_repo_root": "TEXT",
    "worktree_created_at": "REAL",
}
TREE = "/src/proj/.worktrees/hermes-0a1b"
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
ROW = {
    "workspace": TREE,
    "worktree_path": TREE,
    "worktree_branch": "hermes/hermes-0a1b",
    "worktree_repo_root": "/src/proj",
    "worktree_created_at": T0 + 5,
}
AGENT_ROW = {"cwd": TREE, "git_branch": "hermes/hermes-0a1b", "git_repo_root": "/src/proj"}
WEB_UI = dict.fromkeys(("cwd", "git_branch", "git_repo_root"))


def made(path: Path, version: int, **row: Any) -> Made:
    """A home whose one session has a row and no sidecar."""
    home = Made(path, version)
    for name, kind in COLUMNS.items():
        home.run(f"alter table sessions add column {name} {kind}")
    home.row("s1", MESSAGES, **row)
    return home


def rebuilt(home: Made, tmp_path: Path) -> dict[str, Any]:
    """The sidecar that the doctor makes."""
    install = HermesInstall(str(home.path), {})
    seen = install.diagnose()
    operation.apply(Home(str(tmp_path / "home")), install, seen.fingerprint)
    side: dict[str, Any] = json.loads((home.folder / "s1.json").read_text(encoding="utf-8"))
    return side


@pytest.mark.parametrize("version", [6, 22, 30])
def test_a_rebuilt_sidecar_keeps_the_columns(tmp_path: Path, version: int) -> None:
    side = rebuilt(made(tmp_path / "hermes", version, **WEB_UI, **ROW), tmp_path)
    assert {name: side[name] for name in ROW} == ROW
    assert side["created_workspace"] == TREE


@pytest.mark.parametrize(
    ("row", "workspace", "worktree"),
    [
        pytest.param({"workspace": "/src/plain"}, "/src/plain", None, id="workspace-only"),
        pytest.param({"workspace": "", "cwd": "/src/plain"}, "/src/plain", None, id="empty-workspace"),
        pytest.param(AGENT_ROW, TREE, TREE, id="agent-schema"),
        pytest.param({**AGENT_ROW, **ROW}, TREE, TREE, id="both-schemas"),
        pytest.param({**ROW, "workspace": None}, TREE, TREE, id="worktree-without-workspace"),
        pytest.param({**AGENT_ROW, **ROW, "workspace": f"{TREE}/sub"}, f"{TREE}/sub", TREE, id="subfolder"),
        pytest.param({"worktree_path": TREE, **AGENT_ROW}, TREE, TREE, id="parts-of-each"),
    ],
)
def test_either_schema_names_folder_and_worktree(
    tmp_path: Path, row: dict[str, Any], workspace: str, worktree: str | None
) -> None:
    home = made(tmp_path / "hermes", 30, **{**WEB_UI, **row})
    side = rebuilt(home, tmp_path)
    assert side.get("workspace") == workspace
    assert side.get("worktree_path") == worktree
    assert bool(side.get("worktree_branch")) == (worktree is not None)


def test_an_import_takes_folder_and_worktree_from_the_columns(tmp_path: Path) -> None:
    home = made(tmp_path / "hermes", 30, **WEB_UI, **ROW)
    (place,) = HermesReader().find(str(home.path), "s1")
    assert place.cwd == TREE
    assert place.worktree is not None
    assert (place.worktree.path, place.worktree.branch) == (TREE, "hermes/hermes-0a1b")
    assert place.worktree.repo_root == "/src/proj"
