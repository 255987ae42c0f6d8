"""What nobody has foreseen: the hub says so, rests, comes back, and its readers miss nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from holdfast.home import Home
from holdfast.hub import lifecycle
from tests.hub.asking import Listening, ask, get
from tests.hub.running_hub import RunningHub, odd, running
from tests.hub.test_sessions import begin, done, ended
from tests.hub.test_up import until_mirrored


def health(hub: RunningHub) -> dict[str, Any]:
    found: dict[str, Any] = get(hub, "/healthz")
    return found


def test_a_fault_is_told_and_the_hub_comes_back(home: Home, tmp_path: Path) -> None:
    fault = str(tmp_path / "fault")
    with running(home, str(tmp_path / "work"), program=odd("failing", fault)) as hub:
        session = done(hub, {"say": "before"}, key="k")
        assert health(hub)["status"] == "ok" and health(hub)["failure"] is None
        reading = Listening(hub, f"/api/sessions/{session}/stream")
        seen = [reading.event() for _ in get(hub, f"/api/sessions/{session}/events")["events"]]
        running_task = begin(hub, {"tool": "waits", "run": "sleep 3"}, {"say": "through it"})
        with open(fault, "w"):
            pass
        hub.terminal.until(lambda: (health(hub)["failure"] or {"times": 0})["times"] >= 3)
        told = health(hub)["failure"]
        assert (told["code"], told["what"]) == ("error", "ZeroDivisionError")
        hub.terminal.until(lambda: health(hub)["status"] == "opening")
        hub.terminal.until(lambda: ask(hub, "GET", "/api/sessions").json.get("code") == "store_busy")
        os.unlink(fault)
        hub.terminal.until(lambda: health(hub)["status"] == "ok")
        failure = health(hub)["failure"]  # it is over, and not forgotten
        log = hub.log()
        assert log.count("ZeroDivisionError: nobody has foreseen this") == failure["times"]
        assert log.count("unexpected failure; the home is closed") == failure["times"]

        assert ended(hub, running_task["task"])["status"] == "succeeded"  # the agent did not notice
        ask(hub, "PATCH", f"/api/sessions/{session}", {"title": "after"})
        frame = reading.frame()
        while "" in frame:  # a beat
            frame = reading.frame()
        seen.append(frame)  # no gap: the log is the same
        reading.close()
        events = get(hub, f"/api/sessions/{session}/events")["events"]
        assert [json.loads(each["data"])["event"] for each in seen] == events
        assert health(hub)["failure"] == failure


def test_a_database_that_is_damaged_under_it_is_told_and_mended(hub: RunningHub) -> None:
    session = done(hub, {"say": "kept"})
    until_mirrored(hub, session)
    events = get(hub, f"/api/sessions/{session}/events")["events"]
    inode = os.stat(hub.terminal.home.database).st_ino
    for ending in ("", "-wal"):
        path = hub.terminal.home.database + ending
        with open(path, "r+b") as file:
            file.write(os.urandom(os.path.getsize(path)))
    assert os.stat(hub.terminal.home.database).st_ino == inode  # so only reading it tells

    def is_told() -> bool:
        ask(hub, "GET", f"/api/sessions/{session}")
        return health(hub)["failure"] is not None

    hub.terminal.until(is_told)
    hub.terminal.until(lambda: health(hub)["status"] == "ok")
    assert health(hub)["failure"]["code"] == "store_unreadable"
    assert "; the home is closed" in hub.log()
    assert get(hub, f"/api/sessions/{session}/events")["events"] == events
    assert "session_missing" in [one["code"] for one in health(hub)["healed"]["done"]]


def test_it_rests_the_longer_the_more_often_it_fails() -> None:
    rests = [lifecycle.rest_s(times) for times in range(1, 2000)]
    assert rests == sorted(rests)
    assert rests[:4] == [1.0, 2.0, 4.0, 8.0] and rests[-1] == lifecycle.SELDOM_S
