"""`holdfast import` beside a hub that runs: nothing is lost or doubled, and who watches sees it come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.home import Home
from tests.hub.asking import Listening, ask, get
from tests.hub.running_hub import RunningHub
from tests.hub.test_doctor import SELF, looked
from tests.hub.test_sessions import begin, ended
from tests.support.terminal import Terminal


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Terminal]:
    """A home whose agent has sessions that no other home knows."""
    made = Terminal(Home(str(tmp_path / "elsewhere")), str(tmp_path))
    try:
        for number in range(6):
            made.run({"say": f"elsewhere {number}"})
        yield made
    finally:
        made.end_all()


def test_an_import_is_seen_live_while_an_agent_works(any_hub: RunningHub, elsewhere: Terminal) -> None:
    busy = begin(any_hub, *[{"say": f"word {number}", "delay": 0.05} for number in range(2000)])
    reading = Listening(any_hub, "/api/stream")
    terminal = any_hub.terminal
    terminal.env = {**terminal.env, "HOLDFAST_DEMO_HOME": elsewhere.env["HOLDFAST_DEMO_HOME"]}
    importing = terminal.start("import", "demo", "--json")
    adopt = ask(any_hub, "POST", "/api/adopt", {"agent": "demo"})  # sees only its own agent's folder
    assert adopt.status == 202
    said, complained = importing.communicate(timeout=60)
    assert importing.returncode == 0, complained
    told = json.loads(said)
    new = {one["session"] for one in told["adopted"] if one["new"]}
    assert len(new) == 6 and told["failed"] == []

    logs: dict[str, list[int]] = {}
    awaited = {session: get(any_hub, f"/api/sessions/{session}")["session"]["events"] for session in new}
    while any(len(logs.get(session, ())) < count for session, count in awaited.items()):
        frame = json.loads(reading.event()["data"])
        logs.setdefault(frame["session"], []).append(frame["event"]["seq"])
    reading.close()
    for session, count in awaited.items():
        assert logs[session] == list(range(1, count + 1))
    listed = {one["id"] for one in get(any_hub, "/api/sessions?limit=100")["sessions"]}
    assert listed == new | {busy["session"]}
    assert get(any_hub, f"/api/tasks/{busy['task']}")["status"] == "running"
    assert looked(any_hub, SELF)["findings"] == []

    again = terminal.asked("import", "demo")
    assert not [one for one in again["adopted"] if one["new"] or one["events"]]
    any_hub.client().cancel(busy["task"], now=True)
    ended(any_hub, busy["task"])


def test_an_import_by_command_and_one_by_the_hub_take_each_session_once(
    any_hub: RunningHub, elsewhere: Terminal
) -> None:
    any_hub.kill()
    any_hub.terminal.env["HOLDFAST_DEMO_HOME"] = elsewhere.env["HOLDFAST_DEMO_HOME"]
    any_hub.start()
    importing = any_hub.terminal.start("import", "demo", "--json")
    assert ask(any_hub, "POST", "/api/adopt", {"agent": "demo"}).status == 202
    said, complained = importing.communicate(timeout=60)
    assert importing.returncode == 0, complained
    over = any_hub.terminal.until(lambda: not (now := get(any_hub, "/api/adopt"))["running"] and now)
    assert over["problems"] == [] and json.loads(said)["failed"] == []
    found = get(any_hub, "/api/sessions?limit=100&state=all")["sessions"]
    assert len(found) == 6
    assert any_hub.terminal.until(lambda: get(any_hub, "/api/adoptable") == {"agents": []})
