"""The doctor over HTTP, on homes that are really damaged: findings, plan, receipt, undo."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest

from holdfast.home import Home
from tests.hub.asking import ask, get
from tests.hub.running_hub import RunningHub, started
from tests.hub.test_sessions import begin, done, refused
from tests.support import hapi_cases as doctor_hapi
from tests.support.terminal import Terminal
from tests.unit.peers.hermes.test_doctor import FIXTURES as HERMES

SELF = {"target": "self"}
RECEIPT = {
    *("target", "path", "receipt", "at", "fingerprint", "done"),
    *("kept", "touched", "problems", "undo", "sealed"),
}


@pytest.fixture
def alone(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    """A hub of a user who has no agents of his own, so that none of this machine is a witness."""
    terminal = Terminal(home, str(tmp_path))
    terminal.env["HOME"] = str(tmp_path / "nobody")
    with started(terminal) as found:
        yield found


def looked(hub: RunningHub, target: dict[str, str]) -> Any:
    return get(hub, "/api/doctor?" + "&".join(f"{name}={quote(value)}" for name, value in target.items()))


def applied(hub: RunningHub, target: dict[str, str], fingerprint: str) -> Any:
    answer = ask(hub, "POST", "/api/doctor/apply", {**target, "fingerprint": fingerprint})
    assert answer.status == 200 and set(answer.json) == RECEIPT, answer
    return answer.json


def stale(hub: RunningHub, target: dict[str, str], fingerprint: str) -> None:
    told = ask(hub, "POST", "/api/doctor/apply", {**target, "fingerprint": fingerprint})
    assert refused(told, 409, "plan_changed")["hint"]


def undone(hub: RunningHub, receipt: str) -> Any:
    return ask(hub, "POST", "/api/doctor/undo", {"receipt": receipt})


def test_our_own_mirrors_are_mended_while_agents_go_on(any_hub: RunningHub) -> None:
    hub, home = any_hub, any_hub.terminal.home
    torn, gone = Path(home.mirror(done(hub))), Path(home.mirror(done(hub)))
    hub.terminal.until(lambda: looked(hub, SELF)["findings"] == [])
    live = begin(hub, *[{"say": f"word {number}", "delay": 0.05} for number in range(2000)])
    whole = {path: path.read_bytes() for path in (torn, gone)}
    torn.write_bytes(whole[torn][:-20])
    gone.unlink()
    damaged = torn.read_bytes()
    found = looked(hub, SELF)
    assert {torn.stem, gone.stem} == {one["subject"] for one in found["findings"]}, found
    stale(hub, SELF, "0" * 16)
    assert torn.read_bytes() == damaged and not gone.exists()
    receipt = applied(hub, SELF, found["fingerprint"])
    assert {one["finding"] for one in receipt["done"]} == {one["id"] for one in found["findings"]}
    assert receipt["problems"] == [] and {str(torn), str(gone)} == set(receipt["touched"])
    assert {path: path.read_bytes() for path in (torn, gone)} == whole
    assert looked(hub, SELF)["findings"] == []
    stale(hub, SELF, found["fingerprint"])
    assert get(hub, f"/api/tasks/{live['task']}")["status"] == "running"

    assert receipt["undo"] == f"holdfast doctor --undo {receipt['receipt']}" and receipt["sealed"] is None
    told = refused(undone(hub, receipt["receipt"]), 409, "refused")
    assert receipt["undo"] in told["hint"]
    hub.terminal.give(*receipt["undo"].split()[1:], status=6)
    hub.kill()
    hub.terminal.give(*receipt["undo"].split()[1:])
    assert torn.read_bytes() == damaged and not gone.exists()


def test_what_comes_back_into_the_database_of_a_running_hub_is_not_taken_back(
    any_hub: RunningHub, tmp_path: Path
) -> None:
    other = Terminal(Home(str(tmp_path / "other")), any_hub.terminal.cwd)
    session = other.run({"say": "from elsewhere"})["session"]
    shutil.copy(other.home.mirror(session), any_hub.terminal.home.mirror(session))
    found = looked(any_hub, SELF)
    assert [one["code"] for one in found["findings"]] == ["session_missing"]
    receipt = applied(any_hub, SELF, found["fingerprint"])
    assert receipt["undo"] is None and receipt["sealed"]
    assert get(any_hub, f"/api/sessions/{session}")["session"]["id"] == session
    assert looked(any_hub, SELF)["findings"] == []
    any_hub.kill()
    any_hub.terminal.give("doctor", "--undo", receipt["receipt"], status=4)


def test_a_damaged_database_is_not_mended_under_the_hub_that_has_it_open(hub: RunningHub) -> None:
    done(hub)
    path = hub.terminal.home.database
    db = apsw.Connection(path)
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    page = int(str(db.execute("select rootpage from sqlite_schema where name = 'token_native'").get))
    size = int(str(db.execute("pragma page_size").get))
    db.close()
    with open(path, "r+b") as file:  # nobody reads this page just now
        file.seek((page - 1) * size)
        file.write(b"\xde\xad" * (size // 2))
    found = looked(hub, SELF)
    assert "database_damaged" in {one["code"] for one in found["findings"]}
    plan = {**SELF, "fingerprint": found["fingerprint"]}
    told = refused(ask(hub, "POST", "/api/doctor/apply", plan), 409, "refused")
    assert "holdfast up" in told["hint"]


def test_a_hapi_install_is_mended_and_given_back(alone: RunningHub, tmp_path: Path) -> None:
    path = doctor_hapi.copied("edited-token-removed.db", tmp_path / "hapi")
    folder, before = path.parent, doctor_hapi.files(path.parent)
    target = {"target": "hapi", "path": str(folder)}
    found = looked(alone, target)
    assert [one["finding"].partition(":")[0] for one in found["plan"]] == ["token_missing"]
    stale(alone, target, "f" * 16)
    db = apsw.Connection(str(path))
    db.execute("select * from sessions").fetchall()
    plan = {**target, "fingerprint": found["fingerprint"]}
    assert refused(ask(alone, "POST", "/api/doctor/apply", plan), 409, "program_running")["detail"]
    db.close()
    assert doctor_hapi.files(folder) == before
    _mended_and_given_back(alone, target, found, folder)


@pytest.mark.parametrize("case", ["wiped_1558", "missing_sidecar_state_db"])
def test_a_hermes_install_is_mended_and_given_back(alone: RunningHub, tmp_path: Path, case: str) -> None:
    folder = tmp_path / "hermes"
    shutil.copytree(HERMES / case / "hermes-home", folder)
    (folder / "webui" / "sessions").mkdir(parents=True, exist_ok=True)
    target = {"target": "hermes", "path": str(folder)}
    found = looked(alone, target)
    assert found["plan"]
    stale(alone, target, "f" * 16)
    _mended_and_given_back(alone, target, found, folder)


def _mended_and_given_back(hub: RunningHub, target: dict[str, str], found: Any, folder: Path) -> None:
    before = doctor_hapi.files(folder)
    receipt = applied(hub, target, found["fingerprint"])
    assert receipt["done"] == found["plan"] and receipt["problems"] == []
    assert doctor_hapi.files(folder) != before and looked(hub, target)["plan"] == []
    stale(hub, target, found["fingerprint"])
    again = undone(hub, receipt["receipt"])
    assert again.status == 200 and again.json == {**receipt, "undone": True}
    assert doctor_hapi.files(folder) == before
    refused(undone(hub, receipt["receipt"]), 409, "refused")
    assert looked(hub, target) == found


def test_what_is_no_plan_path_or_receipt_is_refused(hub: RunningHub, tmp_path: Path) -> None:
    for query in ("target=hapi", "target=hapi&path=rel", "target=hapi&path=%00", "path=/tmp", "target=me"):
        refused(ask(hub, "GET", f"/api/doctor?{query}"), 400, "bad_input")
    missing = {"target": "hermes", "path": str(tmp_path / "nothing")}
    refused(ask(hub, "GET", f"/api/doctor?target=hermes&path={quote(missing['path'])}"), 404, "not_found")
    refused(ask(hub, "POST", "/api/doctor/apply", {**missing, "fingerprint": "f" * 16}), 404, "not_found")
    for odd in ("", "--undo", "/etc/passwd", "é", "f" * 100_000):
        plan = ask(hub, "POST", "/api/doctor/apply", {"fingerprint": odd})
        assert (plan.status, plan.json["code"]) in ((400, "bad_input"), (409, "plan_changed"))
    for odd in ("", "..", "r/../../x", "--apply", "s" * 16):
        refused(undone(hub, odd), 400, "bad_input")
    refused(undone(hub, "r" + "0" * 15), 404, "not_found")
