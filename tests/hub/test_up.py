"""`holdfast up`, from its start to its end and across what happens to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.hub.api.uptime import UptimeSpan, told
from tests.hub.asking import Listening, ask, get
from tests.hub.running_hub import RunningHub, script
from tests.support.terminal import HOLDFAST


def begin(hub: RunningHub, *steps: dict[str, object], key: str | None = None) -> dict[str, str]:
    """Dispatch a script for the demo agent; {"task", "session"}."""
    wish = {"prompt": script(*steps), "agent": "demo", "cwd": hub.terminal.cwd, "key": key}
    answer = ask(hub, "POST", "/api/dispatch", wish)
    assert answer.status == 201, answer
    found: dict[str, str] = answer.json
    return found


def until_said(hub: RunningHub, session: str, text: str) -> None:
    def is_said() -> bool:
        return any(e["kind"] == "assistant" and e["body"] == {"text": text} for e in _events(hub, session))

    hub.terminal.until(is_said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_and_leaves_the_agents_running(hub: RunningHub, number: int) -> None:
    made = begin(hub, {"say": "begun"}, {"tool": "waits", "run": "sleep 2"}, {"say": "done"})
    until_said(hub, made["session"], "begun")
    reading = Listening(hub, "/api/stream")
    reading.frame()
    assert hub.kill(number) == 0
    with suppress(ConnectionError):
        assert "stops" in reading.event("closing")["data"]
    reading.close()
    assert not os.path.exists(os.path.join(hub.terminal.home.path, "hub.json"))
    hub.start()
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{made['task']}")["status"] == "succeeded")
    said = [e["body"]["text"] for e in _events(hub, made["session"]) if e["kind"] == "assistant"]
    assert said == ["begun", "done"]
    lives = get(hub, "/api/lives")["lives"]
    assert [life["end"] for life in lives] == ["stopped", "running"]


@pytest.mark.parametrize("sent", [0, 25], ids=["nothing", "half a head"])
def test_who_has_come_before_the_end_is_still_answered(hub: RunningHub, sent: int) -> None:
    place = urlsplit(hub.url)
    request = f"GET /healthz HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    kept = HTTPConnection(str(place.hostname), place.port, timeout=60)
    with socket.create_connection((place.hostname, place.port), timeout=60) as line:
        line.sendall(request[:sent])
        for _ in range(3):  # by then the hub has heard of the line, too
            kept.request("GET", "/healthz")
            kept.getresponse().read()
        hub.signal(signal.SIGTERM)
        assert kept.sock.recv(1) == b""  # the hub has begun to close
        line.sendall(request[sent:])
        answer = HTTPResponse(line)
        answer.begin()
        assert answer.status == 200 and json.loads(answer.read())["version"]
        assert line.recv(1) == b""
    kept.close()
    assert hub.wait() == 0


def test_a_second_one_is_told_who_holds_the_home(hub: RunningHub) -> None:
    problem = hub.terminal.asked_to_fail("up", "--port", "0", status=6)
    assert problem["code"] == "store_busy"
    assert f"`holdfast up`, process {hub.pid}" in problem["message"]
    assert problem["hint"] == f"it is at {hub.url}/?token={hub.token}"


def test_a_port_that_is_taken_is_said_so_unless_any_will_do(hub: RunningHub) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    assert hub.kill(signal.SIGTERM) == 0
    with taken:
        problem = hub.terminal.asked_to_fail("up", "--port", port, status=6)
    assert problem["code"] == "port_taken" and port in problem["message"]
    assert hub.terminal.asked_to_fail("up", "--port", "70000", status=2)["code"] == "bad_input"
    hub.start()  # the failed ones have left nothing behind
    assert [life["end"] for life in get(hub, "/api/lives")["lives"]] == ["stopped", "running"]


def test_a_config_that_is_wrong_is_refused_before_anything_is_begun(hub: RunningHub) -> None:
    hub.kill(signal.SIGTERM)
    for text in ("[hub]\nprot = 1\n", "[hub]\nport = 99999\n", "[forges.x]\nkind = 3\n"):
        hub.terminal.config(text)
        assert hub.terminal.asked_to_fail("up", status=2)["code"] == "bad_input"


def test_the_address_is_printed_for_a_person_to_open(hub: RunningHub) -> None:
    hub.kill(signal.SIGTERM)
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--port", "0"],
        env=hub.terminal.env,
        cwd=hub.terminal.cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:") and line.endswith(f"/?token={hub.token}\n")
        process.terminate()
        assert process.wait(60) == 0


def test_a_ghost_of_a_run_is_gone_before_anybody_can_ask(any_hub: RunningHub) -> None:
    hub = any_hub
    made = begin(hub, {"say": "begun"}, {"tool": "waits", "run": "sleep 600"}, key="thread:1")
    until_said(hub, made["session"], "begun")
    before = _events(hub, made["session"])
    hub.kill(signal.SIGKILL)
    hub.terminal.end_all()
    hub.start()
    session = get(hub, "/api/sessions/thread%3A1")["session"]  # the very first thing that is asked
    assert session["last_status"] == "interrupted"
    assert get(hub, f"/api/tasks/{made['task']}")["status"] == "interrupted"
    assert get(hub, "/api/sessions?status=running")["sessions"] == []
    assert [one["id"] for one in get(hub, "/api/sessions?status=interrupted")["sessions"]] == [session["id"]]
    assert get(hub, "/api/sessions/thread%3A1/verdict")["action"] == "fresh"
    assert get(hub, "/api/overview")["running"] == 0
    assert [task["id"] for task in get(hub, "/api/overview")["interrupted"]] == [made["task"]]
    assert [one["task"] for one in get(hub, "/healthz")["healed"]["settled"]] == [made["task"]]
    after = _events(hub, made["session"])
    assert after[: len(before)] == before  # nothing of it was touched; what was found out is added
    assert {e["kind"] for e in after[len(before) :]} <= {"task", "tool_summary", "notice", "error"}
    assert [e["seq"] for e in after] == list(range(1, len(after) + 1)) and len(after) > len(before)
    assert [life["end"] for life in get(hub, "/api/lives")["lives"]] == ["killed", "running"]
    hub.kill(signal.SIGKILL)
    hub.start()
    assert _events(hub, made["session"]) == after  # settled once
    assert get(hub, "/api/sessions/thread%3A1")["session"] == session
    assert get(hub, "/healthz")["healed"]["settled"] == []


def test_a_database_that_is_deleted_under_it_is_rebuilt_and_readers_are_told(hub: RunningHub) -> None:
    made = begin(hub, {"say": "kept"})
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{made['task']}")["status"] == "succeeded")
    until_mirrored(hub, made["session"])
    before = _events(hub, made["session"])
    reading = Listening(hub, f"/api/sessions/{made['session']}/stream")
    ids = [reading.event()["id"] for _ in before]
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(hub.terminal.home.database + ending)
    gap = json.loads(reading.event("gap")["data"])
    assert gap["session"] == made["session"] and gap["why"]
    again = [reading.event() for _ in before]
    assert [json.loads(frame["data"])["event"] for frame in again] == before
    assert not {frame["id"] for frame in again} & set(ids)
    reading.close()
    assert get(hub, "/healthz")["status"] == "ok"
    assert "session_missing" in [done["code"] for done in get(hub, "/healthz")["healed"]["done"]]
    once_more = begin(hub, {"say": "works"})
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{once_more['task']}")["status"] == "succeeded")
    foreign = Listening(hub, f"/api/sessions/{made['session']}/stream", last=ids[-1])
    assert json.loads(foreign.event("gap")["data"])["why"]
    assert json.loads(foreign.event()["data"])["event"]["seq"] == 1
    foreign.close()


def test_what_was_healed_at_the_start_is_told(hub: RunningHub) -> None:
    made = begin(hub, {"say": "kept"})
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{made['task']}")["status"] == "succeeded")
    hub.kill(signal.SIGTERM)
    shutil.rmtree(hub.terminal.home.sessions)
    hub.start()
    healed = get(hub, "/healthz")["healed"]
    assert [(one["code"], one["subject"]) for one in healed["done"]] == [("mirror_missing", made["session"])]
    assert get(hub, "/api/overview")["healed"] == healed
    assert hub.log().count(f"healed {made['session']}: mirror_missing") == 1, "printed once"


def test_a_session_that_is_not_resumed_is_in_the_log_and_counted(hub: RunningHub) -> None:
    cut = begin(hub, {"die": "KILL"}, key="k")
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{cut['task']}")["status"] == "interrupted")
    assert "holdfast_not_resumed_total{" not in metrics(hub)
    after = begin(hub, {"say": "anew"}, key="k")
    assert after["session"] != cut["session"]
    hub.terminal.until(lambda: 'holdfast_not_resumed_total{reason="last_interrupted"} 1' in metrics(hub))
    line = f"session {after['session']}, task {after['task']}: resume=<none>: "
    assert hub.log().count(line) == 1 and cut["task"] in hub.log().partition(line)[2].partition("\n")[0]


def test_an_archived_session_is_brought_back_over_http(hub: RunningHub) -> None:
    cut = begin(hub, {"die": "KILL"}, key="k")
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{cut['task']}")["status"] == "interrupted")
    after = begin(hub, {"say": "anew"}, key="k")
    hub.terminal.until(lambda: get(hub, f"/api/tasks/{after['task']}")["status"] == "succeeded")
    where = f"/api/sessions/{cut['session']}"
    assert get(hub, f"{where}/verdict")["reasons"][-1]["evidence"]["holder"] == after["session"]
    wish = {"prompt": script({"say": "back"})}
    refused = ask(hub, "POST", f"{where}/resume", wish)
    assert refused.status == 409 and "--anyway" in refused.json["hint"], refused
    taken = ask(hub, "POST", f"{where}/resume", {**wish, "how": "anyway"})
    assert taken.status == 201 and taken.json["session"] == cut["session"], taken
    assert get(hub, where)["session"]["state"] == "live"
    assert get(hub, f"/api/sessions/{after['session']}")["session"]["state"] == "archived"


def metrics(hub: RunningHub) -> str:
    return ask(hub, "GET", "/metrics").body.decode()


def test_a_diary_with_odd_lines_tells_what_can_be_read() -> None:
    at = [f"2026-01-0{day}T00:00:00.000000Z" for day in range(1, 7)]
    lines = [
        '{"down": "' + at[0] + '"}',  # of one whose begin is lost
        '{"up": "' + at[0] + '"}',
        "garbage",
        '{"killed": "' + at[1] + '"}',
        '{"up": 3}',
        "[]",
        '{"up": "' + at[2] + '"}',
        '{"down": "' + at[3] + '"}',
        '{"up": "' + at[4] + '"}',
        '{"dow',
    ]
    assert told(lines) == [
        UptimeSpan(at[0], at[1], "killed"),
        UptimeSpan(at[2], at[3], "stopped"),
        UptimeSpan(at[4], None, "running"),
    ]


def _events(hub: RunningHub, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(hub, f"/api/sessions/{session}/events")["events"]
    return found


def until_mirrored(hub: RunningHub, session: str) -> None:
    last = get(hub, f"/api/sessions/{session}")["session"]["events"]

    def is_level() -> bool:
        with open(hub.terminal.home.mirror(session)) as file:
            return len(file.readlines()) >= int(last)

    hub.terminal.until(is_level)
