"""The node of a home: the same where it is renamed, moved or restored; another one in a copy."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors, node
from holdfast.home import Home
from holdfast.node import Node
from tests.crash import children

KINDS = pytest.mark.parametrize("private", [True, False])


def made(path: Path) -> Home:
    home = Home(str(path))
    home.make()
    return home


def mirror(home: Home, name: str, host: str | None, **metadata: Any) -> None:
    """The mirror of a session that an older version made."""
    body = {"op": "create", "agent": "demo", "host": host, "metadata": metadata}
    with open(home.mirror(name), "w", encoding="utf-8") as file:
        file.write(json.dumps({"session": name, "seq": 1, "kind": "session", "body": body}) + "\n{torn")


def named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)


@KINDS
def test_an_id_is_made_once_and_survives_a_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    home = made(tmp_path / "home")
    named(monkeypatch, "laptop.lan")
    first = node.ensure(home, private=private)
    assert first.id.startswith("laptop.lan-") and first.names == {first.id}
    named(monkeypatch, "elsewhere")
    assert node.ensure(home, private=private) == first == node.read(home, private=private)
    assert os.stat(node.path_of(home)).st_mode & 0o777 == 0o600
    assert not first.owns("laptop.lan") and first.owns(None) and first.owns(first.id)


def test_two_homes_on_one_machine_are_two_nodes(tmp_path: Path) -> None:
    ids = {node.ensure(made(tmp_path / name), private=True).id for name in "ab"}
    assert len(ids) == 2


def test_of_many_that_start_at_once_all_get_the_same_id(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    started = [children.start(lambda say: say(node.ensure(home, private=True).id)) for _ in range(8)]
    assert len({child.rest() for child in started}) == 1


@pytest.mark.parametrize("name", ["", "-", "a b/c\n", "x" * 300, "münchen"])
def test_any_hostname_gives_a_plain_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    named(monkeypatch, name)
    found = node.ensure(made(tmp_path / "home"), private=True).id
    assert found.isascii() and found.isprintable() and " " not in found and len(found) < 80


# --- moved, restored, copied


@KINDS
def test_a_moved_home_is_the_same_node(tmp_path: Path, private: bool) -> None:
    first = node.ensure(made(tmp_path / "old"), private=private)
    os.rename(tmp_path / "old", tmp_path / "new")
    assert node.ensure(Home(str(tmp_path / "new")), private=private) == first


@KINDS
def test_a_home_restored_in_its_place_is_the_same_node(tmp_path: Path, private: bool) -> None:
    first = node.ensure(made(tmp_path / "home"), private=private)
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    shutil.rmtree(tmp_path / "home")
    shutil.copytree(tmp_path / "backup", tmp_path / "home")
    assert node.ensure(Home(str(tmp_path / "home")), private=private) == first


@KINDS
@pytest.mark.parametrize("original", ["stays", "goes"])
def test_a_copied_home_is_another_node(
    tmp_path: Path, private: bool, original: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = node.ensure(made(tmp_path / "home"), private=private)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    if original == "goes":
        shutil.rmtree(tmp_path / "home")
    home = Home(str(tmp_path / "copy"))
    seen = node.read(home, private=private)
    assert seen.id != first.id and seen.copy_of == (first.id,), "also before anything was written"
    copy = node.ensure(home, private=private)
    assert copy.id != first.id and copy.copy_of == (first.id,)
    assert f"copy of node {first.id}" in caplog.text and copy.id in caplog.text
    assert node.ensure(home, private=private) == copy, "once"
    if original == "stays":
        assert node.ensure(Home(str(tmp_path / "home")), private=private) == first
    assert copy.owns(first.id) is private, "a SQLite store was copied with the home, a shared one was not"
    assert not copy.runs_here(first.id, has_spool=True)


@KINDS
def test_a_home_on_another_machine_is_another_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    home = made(tmp_path / "home")
    monkeypatch.setattr(node, "_machine", lambda: "machine-1")
    first = node.ensure(home, private=private)
    monkeypatch.setattr(node, "_machine", lambda: "machine-2")
    second = node.ensure(home, private=private)
    assert second.id != first.id and second.copy_of == (first.id,)
    assert second.owns(first.id) is private
    monkeypatch.setattr(node, "_machine", lambda: "")  # a container, whose machine has no id of its own
    assert node.ensure(home, private=private) == second


# --- homes of older versions


@KINDS
def test_sessions_under_hostnames_of_before_stay_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    home = made(tmp_path / "home")
    named(monkeypatch, "new-name")
    for number, host in enumerate(("old-name", "older-name", None)):
        mirror(home, f"s{number}", host)
    mirror(home, "s8", "their-host", hapi_session="h1")
    with open(home.mirror("s9"), "w", encoding="utf-8") as file:
        file.write("no JSON\n")
    before = node.read(home, private=private)
    assert before.names == {"old-name", "older-name"} and not os.path.exists(node.path_of(home))
    found = node.ensure(home, private=private)
    assert found.names == {found.id, "old-name", "older-name"}
    assert not found.owns("their-host"), "hapi recorded another machine"
    node.forget(home, ["older-name"])
    assert node.ensure(home, private=private).names == {found.id, "old-name"}


def test_a_damaged_file_is_an_error_and_no_new_node(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    for damage in ("", "{", "[]", '{"id": "x"}', "null"):
        with open(node.path_of(home), "w", encoding="utf-8") as file:
            file.write(damage)
        with pytest.raises(errors.StoreUnreadable, match="damaged"):
            node.ensure(home, private=True)


# --- whose process it is


@pytest.mark.parametrize(
    ("here", "owner", "has_spool", "answer"),
    [
        (Node("n1", frozenset({"n1"}), (), False), "n1", False, True),
        (Node("n1", frozenset({"n1"}), (), False), "n2", True, False),
        (Node("n1", frozenset({"n1", "host"}), (), False), "host", True, True),
        (Node("n1", frozenset({"n1", "host"}), (), False), "host", False, False),
        (Node("n1", frozenset({"n1", "host"}), ("n0",), False), "host", True, False),
        (Node("n1", frozenset({"n1", "n0"}), ("n0",), True), "n0", True, False),
        (Node("n1", frozenset({"n1"}), (), True), "some older hostname", False, True),
    ],
)
def test_which_owners_are_judged_by_our_process_table(
    here: Node, owner: str, has_spool: bool, answer: bool
) -> None:
    assert here.runs_here(owner, has_spool=has_spool) is answer
