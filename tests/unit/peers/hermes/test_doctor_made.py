"""Homes made by the rules of the formats, with one hole or two: what is found, mended, and left alone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hermes import sidecar
from holdfast.peers.hermes.install import HermesInstall
from tests.crash.support import TORTURE
from tests.support.hermes_builder import SCHEMAS, Made, content, everything
from tests.support.hermes_holes import FOLDER_HOLES, HOLES, LAYERS, Hole

NEEDS_COLUMNS = {"missing", "image"}  # say more than the oldest databases can

UNSURE = {  # the marks of what was meant are not whole any more: then both copies are kept
    ("cleared", "stale_too"),
    ("cleared", "torn_too"),
    ("compressed", "torn_too"),
    ("compressed", "backup_torn_too"),
}


def found(seen: Diagnosis, own: str) -> dict[str, bool]:
    return {f.code: f.safe for f in seen.findings if f.subject == own}


def check(made: Made, own: str, hole: Hole, before: dict[str, bytes]) -> None:
    """Whether a session is as it should be after the repair."""
    path = made.folder / f"{own}.json"
    if hole.unchanged:
        assert path.read_bytes() == before[str(path.relative_to(made.path))]
    if hole.says is None:
        assert hole.unchanged or not path.exists()
        return
    side: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    said = [str(told["content"]) for told in side["messages"] if not told.get("_error")]
    assert said == hole.says
    assert not set(hole.never) & set(said)
    if hole.unchanged:
        return
    assert side["session_id"] == own and side["message_count"] == len(side["messages"])
    assert side["title"] == f"Session {own}" or side["title"] == "t"
    if made.version != 6 or any(name.endswith(f"{own}.json") for name in before):
        assert side.get("workspace", f"/src/{own}") == f"/src/{own}"
    if any(name.endswith(f"{own}.json") and data[:1] == b"{" for name, data in before.items()):
        assert side.get("later_field", {"kept": own}) == {"kept": own}


def run(made: Made, holes: dict[str, Hole], folder: dict[str, bool], tmp_path: Path) -> None:
    before = everything(made.path)
    install, home = HermesInstall(str(made.path), {}), Home(str(tmp_path / "home"))
    seen = install.diagnose()
    assert HermesInstall(str(made.path), {}).diagnose().fingerprint == seen.fingerprint
    assert everything(made.path) == before, "looking changes nothing"
    for own, hole in holes.items():
        assert found(seen, own) == hole.codes, own
    rest = [f for f in seen.findings if f.subject not in holes]
    assert {f.code: f.safe for f in rest} == folder
    bytes_before = content(made.path)
    if not seen.steps:
        assert not any(f.safe for f in seen.findings)
        for own, hole in holes.items():
            check(made, own, hole, bytes_before)
        return
    receipt = operation.apply(home, install, seen.fingerprint)
    assert receipt.problems == []
    for own, hole in holes.items():
        check(made, own, hole, bytes_before)
    after = content(made.path)
    for name, data in bytes_before.items():
        if "state.db" in name or name.endswith((".bak", ".jsonl")):
            assert after[name] == data, "what is evidence stays"
    listed = {entry["session_id"] for entry in json.loads((made.folder / "_index.json").read_text())}
    there = {
        own
        for own in holes
        if holes[own].says is not None and holes[own].codes.get("session_id_mismatch", True)
    }
    assert there <= listed and "ghost" not in listed
    again = install.diagnose()
    assert again.plan == [] and not again.steps
    assert {(f.code, f.subject) for f in again.findings} == {
        (f.code, f.subject) for f in seen.findings if not f.safe
    }
    operation.undo(home, install, receipt)
    assert content(made.path) == bytes_before
    assert install.diagnose().fingerprint == seen.fingerprint


@pytest.mark.parametrize("name", HOLES)
@pytest.mark.parametrize("version", SCHEMAS)
def test_one_hole_with_databases_of_every_age(name: str, version: int, tmp_path: Path) -> None:
    if version < 22 and name in NEEDS_COLUMNS:
        pytest.skip("older databases have no columns for that")
    made = Made(tmp_path / "hermes", version)
    hole = HOLES[name](made, "one")
    made.index()
    run(made, {"one": hole}, {}, tmp_path)


@pytest.mark.parametrize("first", HOLES)
def test_two_holes_in_two_sessions_are_each_as_if_alone(first: str, tmp_path: Path) -> None:
    others = [name for name in HOLES if not first == name == "deleted"]
    if not TORTURE:
        others = random.Random(first).sample(others, 4)
    for number, second in enumerate(others):
        made = Made(tmp_path / str(number) / "hermes", 30)
        holes = {"one": HOLES[first](made, "one"), "two": HOLES[second](made, "two")}
        made.index()
        run(made, holes, {}, tmp_path / str(number))


@pytest.mark.parametrize("name", FOLDER_HOLES)
def test_holes_of_the_folder_beside_those_of_sessions(name: str, tmp_path: Path) -> None:
    for number, own in enumerate(HOLES if TORTURE else random.Random(name).sample([*HOLES], 8)):
        made = Made(tmp_path / str(number) / "hermes", 22)
        holes = {"one": HOLES[own](made, "one"), "fine": HOLES["sound"](made, "fine")}
        made.index()
        folder = FOLDER_HOLES[name](made)
        run(made, holes, folder.codes, tmp_path / str(number))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_second_hole_in_the_same_session_loses_nothing(layer: str, tmp_path: Path) -> None:
    for number, name in enumerate(HOLES if TORTURE else random.Random(layer).sample([*HOLES], 10)):
        made = Made(tmp_path / str(number) / "hermes", 30)
        hole = HOLES[name](made, "one")
        LAYERS[layer](made, "one")
        made.index()
        path = made.folder / "one.json"
        before, bytes_before = said(path), content(made.path)
        install, home = HermesInstall(str(made.path), {}), Home(str(tmp_path / str(number) / "home"))
        seen = install.diagnose()
        assert content(made.path) == bytes_before
        if not seen.steps:
            assert not seen.plan
            continue
        receipt = operation.apply(home, install, seen.fingerprint)
        assert receipt.problems == []
        now = said(path)
        for text in before:
            assert text.replace("\ud83d", "\ufffd") in now, (name, text)
        if (name, layer) not in UNSURE:
            assert not set(hole.never) & set(now), name
        again = install.diagnose()
        assert again.plan == [] and not again.steps, name
        for name_of in bytes_before:
            if ".tmp." not in name_of:
                assert name_of in content(made.path)
        operation.undo(home, install, receipt)
        assert content(made.path) == bytes_before


def said(path: Path) -> list[str]:
    told = sidecar.load(str(path)).messages
    return [str(one.get("content")) for one in told if isinstance(one, dict) and not one.get("_error")]
