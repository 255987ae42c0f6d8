"""`holdfast import hapi`: every session of every schema lives on, whatever is wrong with it; none twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from holdfast.store.location import Location
from tests.conftest import Opener
from tests.support.hapi_builder import Made, build
from tests.support.hapi_cases import files
from tests.support.hapi_holes import holes, uuid
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(home: Home, location: Location, tmp_path: Path) -> Terminal:
    made = Terminal(home, str(tmp_path))
    made.env["HOME"] = str(tmp_path / "nobody")
    if location.kind == "postgres":
        made.env["HOLDFAST_STORE"] = location.address
    return made


def imported(terminal: Terminal, path: Path) -> dict[str, Any]:
    done = json.loads(terminal.give("import", "hapi", str(path), "--json").stdout)
    assert not done["failed"]
    return {one["native_id"]: one for one in done["adopted"]}


@pytest.mark.parametrize("version", [1, 8, 16, 26])
async def test_every_session_comes_whatever_is_wrong_with_it(
    version: int, terminal: Terminal, opener: Opener, tmp_path: Path
) -> None:
    path = tmp_path / "hapi/hapi.db"
    here = {name: hole for name, hole in holes().items() if version >= hole.since and name != "huge"}
    build(path, version, {name: hole.made for name, hole in here.items()}, packed=True)
    before = files(path.parent)
    store = await opener()
    ours = imported(terminal, path)
    assert files(path.parent) == before and ours.keys() == here.keys()
    for name, hole in here.items():
        log = [e for e in await store.events(ours[name]["session"], limit=1000) if e.origin is not None]
        assert len({e.origin.record_id.partition("#")[0] for e in log if e.origin}) == len(hole.made.messages)
    agents = {name: (await store.session(ours[name]["session"])).agent for name in here}
    assert agents["in messages"] == "claude" and agents["parent thread"] == "codex"
    assert agents["no flavor, one token"] == "kimi" and agents["torn"] == "hapi"
    again = imported(terminal, path)
    assert all(not one["new"] and one["events"] == 0 for one in again.values())
    assert {name: one["session"] for name, one in again.items()} == {
        n: one["session"] for n, one in ours.items()
    }


async def test_a_token_that_the_doctor_brought_back_comes_with_the_next_import(
    terminal: Terminal, opener: Opener, tmp_path: Path
) -> None:
    path = tmp_path / "hapi/hapi.db"
    build(path, 26, {"in messages": holes()["in messages"].made})
    store = await opener()
    session = imported(terminal, path)["in messages"]["session"]
    assert not await store.tokens(session)
    target = HapiInstall(str(path), {"HOME": str(tmp_path)})
    operation.apply(Home(str(tmp_path / "doctor's")), target, target.diagnose().fingerprint)
    assert imported(terminal, path)["in messages"]["session"] == session
    assert [token.native_id for token in await store.tokens(session)] == [uuid(2)]


async def test_a_session_that_crashed_in_hapi_is_not_called_sound(
    terminal: Terminal, opener: Opener, tmp_path: Path
) -> None:
    path = tmp_path / "hapi/hapi.db"
    ended = {"archivedBy": "cli", "lifecycleState": "archived"}
    flavor = {"flavor": "claude", "claudeSessionId": uuid(70), "path": str(tmp_path)}
    build(
        path,
        26,
        {
            "crashed": Made({**flavor, **ended, "archiveReason": "Session crashed"}),
            "done": Made(
                {**flavor, **ended, "claudeSessionId": uuid(71), "archiveReason": "Session completed"}
            ),
        },
    )
    ours = imported(terminal, path)
    store = await opener()
    for name, crashed in (("crashed", True), ("done", False)):
        session = await store.session(ours[name]["session"])
        assert session.metadata is not None and session.metadata["hapi_state"]["lifecycleState"] == "archived"
        found = terminal.asked("verdict", session.id)
        assert ("crashed_elsewhere" in [reason["code"] for reason in found["reasons"]]) == crashed
        assert found["action"] != "resume"
        notes = [event.body for event in await store.events(session.id) if event.kind == "notice"]
        assert [note["crashed"] for note in notes if note["code"] == "ended_elsewhere"] == [crashed]
        before = session.events
        imported(terminal, path)
        assert (await store.session(session.id)).events == before, "what is kept already is not kept again"
