"""Sessions through HTTP: the promises of the store, kept where others stand before it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import errors
from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.hub.api import responses
from tests.hub.asking import Answer, Listening, ask, get
from tests.hub.running_hub import RunningHub, script
from tests.support.terminal import Terminal
from tests.unit.test_docs import all_errors


def begin(hub: RunningHub, *steps: dict[str, Any], **more: Any) -> dict[str, str]:
    """Dispatch a script for the demo agent; {"task", "session"}."""
    wish = {"prompt": script(*steps), "agent": "demo", "cwd": hub.terminal.cwd, **more}
    answer = ask(hub, "POST", "/api/dispatch", wish)
    assert answer.status == 201, answer
    found: dict[str, str] = answer.json
    return found


def done(hub: RunningHub, *steps: dict[str, Any], **more: Any) -> str:
    """The session of a script that has run."""
    made = begin(hub, *(steps or ({"say": "hello"},)), **more)
    ended(hub, made["task"])
    return made["session"]


def ended(hub: RunningHub, task: str) -> dict[str, Any]:
    over = ("succeeded", "failed", "cancelled", "interrupted")
    found: dict[str, Any] = hub.terminal.until(
        lambda: (t := get(hub, f"/api/tasks/{task}"))["status"] in over and t
    )
    return found


def refused(answer: Answer, status: int, code: str) -> dict[str, Any]:
    assert (answer.status, answer.json["code"]) == (status, code), answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == status and answer.json["detail"]
    found: dict[str, Any] = answer.json
    return found


def test_every_error_has_one_status() -> None:
    codes = {error.code for error in all_errors()} | {"method_not_allowed"}
    assert set(responses.STATUS) == codes
    assert set(responses.STATUS.values()) <= set(responses.TITLES)
    assert all(
        responses.STATUS[error.code] < 500
        for error in all_errors(errors.BadInput) | all_errors(errors.Refused)
    )


def test_a_sparse_archive_keeps_all_that_it_does_not_name(any_hub: RunningHub) -> None:
    hub = any_hub
    session = done(hub, key="forge:dev:a/b:1")
    where = f"/api/sessions/{session}"
    patch = {"version": 1, "metadata": {"kept": {"deep": [1, None]}, "n": 1}}
    assert ask(hub, "PATCH", where, patch).json["version"] == 2
    before = get(hub, where)
    assert [token["status"] for token in before["tokens"]] == ["current"]
    archived = ask(hub, "POST", f"{where}/archive", {"reason": "put away"}, **{"X-Holdfast-By": "J%C3%B8rn"})
    assert archived.json["archive"]["by"] == "Jørn" and archived.json["state"] == "archived"
    after = get(hub, where)
    assert after["tokens"] == before["tokens"]
    changed = {"state", "archive", "updated_at", "events"}
    assert {k: v for k, v in after["session"].items() if k not in changed} == {
        k: v for k, v in before["session"].items() if k not in changed
    }
    other = done(hub, key="forge:dev:a/b:1")  # the key is free
    assert other != session
    refused(ask(hub, "POST", f"{where}/unarchive"), 409, "key_taken")
    assert ask(hub, "DELETE", f"/api/sessions/{other}?reason=test").json["state"] == "deleted"
    assert ask(hub, "POST", f"{where}/unarchive").json["state"] == "live"
    assert get(hub, where)["session"]["metadata"] == {"kept": {"deep": [1, None]}, "n": 1}
    assert ask(hub, "POST", f"/api/sessions/{other}/restore").status == 409
    assert get(hub, "/api/sessions?state=deleted")["sessions"][0]["id"] == other


def test_concurrent_patches_lose_nothing(any_hub: RunningHub) -> None:
    hub = any_hub
    where = f"/api/sessions/{done(hub)}"

    def writer(name: str) -> None:
        version = 1
        while True:
            answer = ask(hub, "PATCH", where, {"version": version, "metadata": {name: name}})
            if answer.status == 200:
                return
            told = refused(answer, 409, "version_mismatch")
            assert told["version"] > version and isinstance(told["metadata"], dict)
            version = told["version"]

    names = [f"writer-{number}" for number in range(12)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(writer, names))
    session = get(hub, where)["session"]
    assert session["metadata"] == {name: name for name in names}
    assert session["version"] == len(names) + 1


def test_a_patch_touches_only_what_it_names(any_hub: RunningHub) -> None:
    hub = any_hub
    where = f"/api/sessions/{done(hub)}"
    first = {"theirs": {"unknown": [1, {"deep": None}], "x": "\u2028"}, "1": 1.5, "": {}, "gone": 0}
    assert ask(hub, "PATCH", where, {"version": 1, "metadata": first}).json["metadata"] == first
    second = {"theirs": {"x": None, "new": True}, "gone": None, "absent": None}
    told = ask(hub, "PATCH", where, {"version": 2, "metadata": second}).json
    kept = {"theirs": {"unknown": [1, {"deep": None}], "new": True}, "1": 1.5, "": {}}
    assert (told["metadata"], told["version"]) == (kept, 3)
    titled = ask(hub, "PATCH", where, {"version": 3, "title": "only that", "metadata": {}}).json
    assert titled["title"] == "only that" and titled["metadata"] == kept
    before = get(hub, where)
    stale = refused(ask(hub, "PATCH", where, {"version": 2, "metadata": {"n": 1}}), 409, "version_mismatch")
    assert stale["version"] == before["session"]["version"] and stale["metadata"] == kept
    refused(ask(hub, "PATCH", where, {"version": 99, "metadata": {"n": 1}}), 409, "version_mismatch")
    hub.kill()
    hub.start()
    assert get(hub, where)["session"]["metadata"] == kept
    assert get(hub, where)["tokens"] == before["tokens"]


def test_a_token_stays_whatever_is_done_to_its_session(any_hub: RunningHub) -> None:
    """Patches, archiving, deleting, restoring and titles, from several sides at once."""
    hub = any_hub
    session = done(hub)
    where = f"/api/sessions/{session}"
    tokens = get(hub, where)["tokens"]
    assert [token["status"] for token in tokens] == ["current"]

    def change(number: int) -> set[int]:
        seen = set()
        for turn in range(8):
            version = get(hub, where)["session"]["version"]
            patch = {"version": version, "metadata": {f"k{number}": turn}, "title": f"{number}/{turn}"}
            seen.add(ask(hub, "PATCH", where, patch).status)
            verb = ("archive", "unarchive", "restore")[(number + turn) % 3]
            seen.add(ask(hub, "POST", f"{where}/{verb}").status)
            if (number + turn) % 4 == 0:
                seen.add(ask(hub, "DELETE", where).status)
            assert get(hub, where)["tokens"] == tokens
        return seen

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert set.union(*pool.map(change, range(4))) <= {200, 409}
    ask(hub, "POST", f"{where}/restore")
    ask(hub, "POST", f"{where}/unarchive")
    assert get(hub, where)["session"]["state"] == "live"
    assert get(hub, where)["tokens"] == tokens
    resumed = ask(hub, "POST", f"{where}/resume", {"prompt": script({"say": "still here"})})
    assert resumed.status == 201 and ended(hub, resumed.json["task"])["status"] == "succeeded"
    assert get(hub, where)["tokens"][0]["native_id"] == tokens[0]["native_id"]


def test_no_patch_touches_a_token(any_hub: RunningHub) -> None:
    hub = any_hub
    where = f"/api/sessions/{done(hub)}"
    before = get(hub, where)
    fields = sorted(AgentRegistry.from_config({}).token_rules().fields)
    assert fields
    for field in fields:
        for value in ("another", None):
            refused(ask(hub, "PATCH", where, {"version": 1, "metadata": {field: value}}), 400, "token_field")
    assert get(hub, where) == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"version": 1}, 400),
        ({"metadata": {"a": 1}}, 400),
        ({"version": "one", "metadata": {"a": 1}}, 400),
        ({"version": 1, "metadata": []}, 400),
        ({"version": 1, "metadata": {"a": "\ud800"}}, 400),
        ({"version": 1, "title": "x", "state": "deleted"}, 400),
        ({"version": 1, "events": []}, 400),
    ],
)
def test_a_patch_that_cannot_be_taken_changes_nothing(
    hub: RunningHub, body: dict[str, Any], status: int
) -> None:
    where = f"/api/sessions/{done(hub)}"
    before = get(hub, where)
    assert ask(hub, "PATCH", where, body).status == status
    assert get(hub, where) == before


def test_lists_are_paged_and_filtered(hub: RunningHub) -> None:
    made = [done(hub, key=f"thread {number}/ä") for number in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = get(hub, f"/api/sessions?limit=2{cursor}")
        seen += [session["id"] for session in page["sessions"]]
        if page["next"] is None:
            break
        cursor = f"&before={quote(page['next'])}"
    assert seen == list(reversed(made))
    assert "metadata" not in page["sessions"][0]
    key = quote("thread 3/ä", safe="")
    for query in (f"key={key}", f"text={quote('THREAD 3')}"):
        assert [s["id"] for s in get(hub, f"/api/sessions?{query}")["sessions"]] == [made[3]]
    assert get(hub, f"/api/sessions/{key}")["session"]["id"] == made[3]
    assert len(get(hub, "/api/sessions?status=succeeded")["sessions"]) == 5
    assert get(hub, "/api/sessions?status=failed")["sessions"] == []
    refused(ask(hub, "GET", "/api/sessions?before=nonsense"), 404, "not_found")
    for query in ("limit=0", "limit=501", "limit=x", "state=gone", "status=done", "empty=maybe"):
        refused(ask(hub, "GET", f"/api/sessions?{query}"), 400, "bad_input")


def test_events_are_paged_by_seq(hub: RunningHub) -> None:
    session = done(hub, *[{"say": str(number), "chunk": 1} for number in range(3)], {"sum": 1})
    every = get(hub, f"/api/sessions/{session}/events")["events"]
    assert [event["seq"] for event in every] == list(range(1, len(every) + 1))
    paged, after = [], 0
    while after is not None:
        page = get(hub, f"/api/sessions/{session}/events?after={after}&limit=3")
        paged += page["events"]
        after = page["next"]
    assert paged == every
    assert get(hub, f"/api/sessions/{session}/events?after=99999") == {"events": [], "next": None}
    refused(ask(hub, "GET", f"/api/sessions/{session}/events?after=-1"), 400, "bad_input")


def test_going_on_is_refused_with_reasons_where_it_is_not_safe(hub: RunningHub) -> None:
    made = begin(hub, {"tool": "waits", "run": "sleep 600"}, key="k")
    where = f"/api/sessions/{made['session']}"
    hub.terminal.until(lambda: b"tool_progress" in ask(hub, "GET", f"{where}/events").body)
    running = refused(ask(hub, "POST", f"{where}/resume", {"prompt": "more"}), 409, "session_running")
    assert running["task"] == made["task"] and running["session"] == made["session"]
    refused(ask(hub, "DELETE", where), 409, "session_running")
    assert get(hub, f"{where}/verdict")["action"] == "wait"
    assert ask(hub, "POST", f"/api/tasks/{made['task']}/cancel", {"now": True}).json["id"] == made["task"]
    assert ended(hub, made["task"])["status"] == "cancelled"
    unsafe = refused(ask(hub, "POST", f"{where}/resume", {"prompt": "more"}), 409, "resume_unsafe")
    assert "last_cancelled" in [reason["code"] for reason in unsafe["reasons"]]
    both = get(hub, f"/api/verdicts?session={made['session']}&session=nobody")["verdicts"]
    assert both[made["session"]]["action"] == "fresh" and both["nobody"]["code"] == "not_found"
    fresh = ask(hub, "POST", f"{where}/resume", {"prompt": "more", "how": "fresh", "brief": False}).json
    assert fresh["session"] != made["session"]
    assert ended(hub, fresh["task"])["status"] == "succeeded"
    assert get(hub, "/api/sessions/k")["session"]["id"] == fresh["session"]


def test_a_session_without_a_token_cannot_be_resumed(hub: RunningHub) -> None:
    made = begin(hub, {"die": "KILL"})
    ended(hub, made["task"])
    waiting = begin(hub, {"say": "x"})
    ended(hub, waiting["task"])
    for name, status, code in (("nobody", 404, "not_found"), ("s", 409, "ambiguous")):
        refused(ask(hub, "POST", f"/api/sessions/{name}/resume", {"prompt": "more"}), status, code)
    for body in ({}, {"prompt": ""}, {"prompt": "x", "how": "maybe"}, {"prompt": "x", "time_limit_s": 0}):
        refused(ask(hub, "POST", f"/api/sessions/{made['session']}/resume", body), 400, "bad_input")
    refused(
        ask(hub, "POST", "/api/dispatch", {"prompt": "x", "agent": "demo", "cwd": "rel"}), 400, "bad_input"
    )
    refused(ask(hub, "POST", "/api/dispatch", {"prompt": "x"}), 400, "bad_input")


def test_a_permission_is_asked_for_and_answered(hub: RunningHub) -> None:
    made = begin(hub, {"tool": "touches", "run": "true", "ask": True}, permissions="ask")
    where = f"/api/sessions/{made['session']}/events"
    hub.terminal.until(lambda: b'"permission"' in ask(hub, "GET", where).body)
    answer = f"/api/tasks/{made['task']}/permission"
    refused(ask(hub, "POST", answer, {"answer": "allow", "call": "another"}), 404, "not_found")
    refused(ask(hub, "POST", answer, {"answer": "maybe"}), 400, "bad_input")
    said = ask(hub, "POST", answer, {"answer": "allow"}, **{"X-Holdfast-By": "ann"}).json["answered"]
    assert [(one["answer"], one["by"]) for one in said] == [("allow", "ann")]
    assert ended(hub, made["task"])["status"] == "succeeded"
    refused(ask(hub, "POST", answer, {"answer": "allow"}), 409, "illegal_change")


def test_what_is_being_said_is_heard_before_it_is_whole(hub: RunningHub) -> None:
    reading = Listening(hub, "/api/stream")
    text = "a long sentence that comes in pieces"
    made = begin(hub, {"say": text, "chunk": 4, "delay": 0.1}, {"tool": "ends", "run": "true"})
    heard = []
    while True:
        frame = reading.frame()
        data = json.loads(frame["data"]) if "data" in frame else {}
        if frame.get("event") == "partial":
            assert "id" not in frame
            assert (data["session"], data["task"], data["kind"]) == (
                made["session"],
                made["task"],
                "assistant",
            )
            heard.append(data["text"])
        elif data.get("event", {}).get("kind") == "assistant":
            break
    reading.close()
    assert data["event"]["body"]["text"] == text
    assert heard and all(text.startswith(part) for part in heard) and heard == sorted(heard, key=len)


def test_a_list_shows_a_change_at_once(any_hub: RunningHub) -> None:
    session = done(any_hub)

    def titles() -> list[str]:
        return [one["title"] for one in get(any_hub, "/api/sessions")["sessions"]]

    for number in range(20):
        patch = {"title": f"title {number}", "metadata": {"n": number}, "version": number + 1}
        assert ask(any_hub, "PATCH", f"/api/sessions/{session}", patch).json["title"] == f"title {number}"
        assert titles() == [f"title {number}"]
        assert titles() == [f"title {number}"]
    any_hub.terminal.give("archive", session, "--reason", "from another process")
    assert get(any_hub, "/api/sessions?state=live")["sessions"] == []
    refused(
        ask(any_hub, "PATCH", f"/api/sessions/{session}", {"title": "half", "metadata": {}, "version": 1}),
        409,
        "version_mismatch",
    )
    assert titles() == ["title 19"]


def test_the_rest_tells_what_the_commands_tell(hub: RunningHub) -> None:
    made = [done(hub, key="k"), done(hub, {"error": "no"})]
    terminal = hub.terminal
    assert get(hub, "/api/agents")["agents"] == terminal.asked("agents")
    assert get(hub, f"/api/sessions/{made[0]}/verdict") == terminal.asked("verdict", made[0])
    today = get(hub, "/api/overview?days=1")
    assert [(day["succeeded"], day["failed"]) for day in today["days"]] == [(1, 1)]
    assert today["agents"] == [{"agent": "demo", "sessions": 2, "running": 0}]
    assert today["sessions"] == {"live": 2, "archived": 0, "deleted": 0}
    assert len(get(hub, f"/api/tasks?day={today['days'][0]['day']}")["tasks"]) == 2
    assert get(hub, "/api/tasks?day=2001-01-01")["tasks"] == []
    found = get(hub, "/api/doctor")
    assert found == terminal.asked("doctor", "self")
    done_so = ask(hub, "POST", "/api/doctor/apply", {"fingerprint": found["fingerprint"]}).json
    assert done_so["problems"] == [] and done_so["done"] == []
    refused(ask(hub, "POST", "/api/doctor/apply", {"fingerprint": "0" * 16}), 409, "plan_changed")
    refused(ask(hub, "POST", "/api/doctor/apply", {"fingerprint": "--undo"}), 400, "bad_input")
    refused(ask(hub, "GET", "/api/doctor?target=hapi"), 400, "bad_input")
    refused(ask(hub, "GET", "/api/doctor?target=hapi&path=--apply"), 400, "bad_input")
    numbers = ask(hub, "GET", "/metrics").body.decode()
    assert 'holdfast_tasks{status="succeeded",agent="demo"} 1\n' in numbers
    assert "holdfast_store_up 1\n" in numbers


def test_sessions_that_an_agent_had_without_us_are_adopted(hub: RunningHub, tmp_path: Path) -> None:
    ours = done(hub)
    other = Terminal(Home(str(tmp_path / "other")), hub.terminal.cwd)
    other.env["HOLDFAST_DEMO_HOME"] = hub.terminal.env["HOLDFAST_DEMO_HOME"]
    other.run({"say": "elsewhere"})
    refused(ask(hub, "POST", "/api/adopt", {"agent": "nobody"}), 404, "not_found")
    assert get(hub, "/api/adopt")["running"] is False
    listening = Listening(hub, "/api/stream")
    begun = ask(hub, "POST", "/api/adopt", {"agent": "demo"})
    assert begun.status == 202 and begun.json["job"]
    ended = hub.terminal.until(lambda: not (now := get(hub, "/api/adopt"))["running"] and now)
    assert ended == {"agent": "demo", "done": 1, "of": 1, "problems": [], "running": False}
    (new,) = [one["id"] for one in get(hub, "/api/sessions")["sessions"] if one["id"] != ours]
    events = get(hub, f"/api/sessions/{new}/events")["events"]
    assert [e["body"]["text"] for e in events if e["kind"] == "assistant"] == ["elsewhere"]
    assert all(e["replayed"] for e in events if e["kind"] in ("user", "assistant"))
    heard: list[dict[str, Any]] = []
    while len(heard) < len(events):
        heard.append(json.loads(listening.event()["data"])["event"])
    listening.close()
    assert heard == events, "a live reader gets the same, with the mark of a replay"
    assert "demo" not in [one["agent"] for one in get(hub, "/api/adoptable")["agents"]]
