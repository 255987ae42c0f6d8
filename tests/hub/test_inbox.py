"""What the page works with: the inbox, prompts that go by the verdict, leftovers, healed reports, folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.hub.api import healed, inbox
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store
from tests.contract.test_tasks import brought_to
from tests.hub.asking import ask, get
from tests.hub.running_hub import RunningHub, running_in, script
from tests.hub.test_sessions import begin, done, ended, refused

ASKS = {"tool": "shell", "run": "true", "ask": True}
HOLD = {"tool": "shell", "run": "exec sleep 600"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for all of these."""
    with running_in(tmp_path_factory.mktemp("inbox")) as found:
        yield found


def kill_agent(hub: RunningHub, made: dict[str, str]) -> None:
    """Kill the agent of a task in the middle of a tool call; what the tool runs stays."""
    hub.terminal.until_event(made["session"], "tool_progress")
    ident = hub.terminal.until(lambda: Spool(hub.terminal.home.task(made["task"])).agent())
    os.kill(ident.pid, signal.SIGKILL)


def until_open(hub: RunningHub, task: str, status: str) -> dict[str, Any]:
    found: dict[str, Any] = hub.terminal.until(
        lambda: next(
            (t for t in get(hub, "/api/inbox")["open"] if t["id"] == task and t["status"] == status), None
        )
    )
    return found


def test_a_prompt_queued_behind_a_run_that_dies_goes_by_the_verdict_of_that_moment(
    shared: RunningHub,
) -> None:
    hub = shared
    first = begin(hub, HOLD)
    hub.terminal.until_event(first["session"], "tool_progress")
    wish = {"prompt": script({"say": "after the death"}), "how": "verdict", "queue": True, "leftovers": "end"}
    later = ask(hub, "POST", f"/api/sessions/{first['session']}/resume", wish).json
    assert until_open(hub, later["task"], "queued")["session"] == first["session"]
    kill_agent(hub, first)
    assert ended(hub, first["task"])["status"] == "interrupted"
    ask(hub, "POST", f"/api/sessions/{first['session']}/leftovers/stop")
    moved = ended(hub, later["task"])["outcome"]["moved_to"]
    assert ended(hub, moved["task"])["status"] == "succeeded"
    assert get(hub, f"/api/sessions/{moved['session']}")["session"]["link"]["session"] == first["session"]


def test_leftovers_are_named_and_stopped(shared: RunningHub) -> None:
    hub = shared
    made = begin(hub, HOLD)
    kill_agent(hub, made)
    assert ended(hub, made["task"])["status"] == "interrupted"
    where = f"/api/sessions/{made['session']}"
    verdict = get(hub, f"{where}/verdict")
    (reason,) = [one for one in verdict["reasons"] if one["code"] == "tools_running"]
    pids = {process["pid"] for process in reason["evidence"]["processes"]}
    stopped = ask(hub, "POST", f"{where}/leftovers/stop").json["ended"]
    assert {process["pid"] for process in stopped} >= pids and all(p["command"] for p in stopped)
    refused(ask(hub, "POST", f"{where}/leftovers/stop"), 409, "illegal_change")
    assert get(hub, f"{where}/verdict")["action"] == "fresh"


def test_the_inbox_has_what_asks_what_failed_and_what_finished(shared: RunningHub) -> None:
    hub = shared
    good = done(hub, {"usage": {"inputTokens": 5, "outputTokens": 7}}, {"say": "all good"})
    bad = done(hub, {"error": "no"})
    asking = begin(hub, ASKS, permissions="ask")
    found = hub.terminal.until(
        lambda: (inbox := get(hub, "/api/inbox?since=2020-01-01T00:00:00.000000Z"))["permissions"] and inbox
    )
    assert [one["task"] for one in found["permissions"]] == [asking["task"]]
    assert asking["task"] in {task["id"] for task in found["open"]}
    assert bad in {task["session"] for task in found["failed"]}
    (mine,) = [task for task in found["finished"] if task["session"] == good]
    assert mine["answer"] == "all good" and mine["usage"]["output_tokens"] == 7
    assert found["sessions"][good]["cwd"] == os.path.realpath(hub.terminal.cwd)
    assert get(hub, "/api/inbox")["finished"] == []
    ask(hub, "POST", f"/api/tasks/{asking['task']}/cancel", {"now": True})
    ended(hub, asking["task"])


async def test_the_inbox_says_that_a_list_is_cut(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "LISTED", 2)
    for number in range(3):
        assert (await inbox._read(store, None)).more == []
        await brought_to(store, "failed")
        assert len((await inbox._read(store, None)).failed) == min(number + 1, 2)
    assert (await inbox._read(store, None)).more == ["failed"]


def test_folders_recent_and_completed(shared: RunningHub, tmp_path: Path) -> None:
    hub = shared
    done(hub)
    for name in ("alpha", "alps", "beta", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "alpha" / ".git").mkdir()
    (tmp_path / "alfile").touch()
    found = get(hub, f"/api/folders?prefix={tmp_path}/al")
    assert found["matches"] == [
        {"path": str(tmp_path / "alpha"), "repository": True},
        {"path": str(tmp_path / "alps"), "repository": False},
    ]
    assert os.path.realpath(hub.terminal.cwd) in {one["path"] for one in found["recent"]}
    assert get(hub, "/api/folders?prefix=relative")["matches"] == []


def test_healed_reports_stay_until_they_are_dismissed(tmp_path: Path) -> None:
    with running_in(tmp_path) as hub:
        session = done(hub)
        for turn in range(2):
            hub.kill(signal.SIGTERM)
            if turn == 0:
                os.unlink(os.path.join(hub.terminal.home.sessions, f"{session}.jsonl"))
            hub.start()
        (report,) = get(hub, "/api/healed")["reports"]  # also after another restart
        assert report["done"][0]["code"] == "mirror_missing" and report["done"][0]["subject"] == session
        left = ask(hub, "POST", f"/api/healed/{report['name']}/dismiss").json
        assert left["reports"] == []
        hub.kill(signal.SIGTERM)
        hub.start()
        assert get(hub, "/api/healed")["reports"] == []
        refused(ask(hub, "POST", "/api/healed/heal-nothing.json/dismiss"), 404, "not_found")


def test_a_report_that_cannot_be_read_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "heal-1.json").write_text("{")
    (tmp_path / "heal-2.json").write_text("[]")
    (tmp_path / "heal-2.json.dismissed").touch()
    (report,) = healed.open_reports(str(tmp_path))
    assert report.name == "heal-1.json" and "cannot be read" in report.problems[0]
