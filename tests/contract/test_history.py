"""`history`, `inspect`, `import` and replay, with the demo agent's own store, as a person sees them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.spool.task_dir import Spool
from tests.support.terminal import Terminal

SCRIPT: list[dict[str, Any]] = [
    {"think": "hm"},
    {"say": "One."},
    {"tool": "shell", "run": "echo https://git.example.org/o/r/pulls/7"},
    {"say": "Done."},
]
CONVERSATION = ("user", "assistant", "thinking", "tool_progress", "tool_summary")


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Terminal:
    where = tmp_path / "work"
    where.mkdir()
    return Terminal(home, str(where))


@pytest.fixture
def other(terminal: Terminal, tmp_path: Path) -> Terminal:
    """Another home of the same user, in which nothing is known of what the agent did."""
    home = Home(str(tmp_path / "other"))
    home.make()
    made = Terminal(home, terminal.cwd)
    made.env["HOLDFAST_DEMO_HOME"] = terminal.env["HOLDFAST_DEMO_HOME"]
    return made


def gist(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    shown = ("text", "name", "input", "outcome", "output")
    return [(e["kind"], *[e["body"].get(n) for n in shown]) for e in events if e["kind"] in CONVERSATION]


def history(terminal: Terminal, native_id: str) -> list[dict[str, Any]]:
    told = terminal.give("history", "demo", native_id, "--json").stdout
    return [json.loads(line) for line in told.splitlines()]


def test_a_live_log_and_the_agents_own_history_are_the_same(terminal: Terminal) -> None:
    task = terminal.run(*SCRIPT)
    told = history(terminal, task["outcome"]["native_id"])
    assert gist(told) == gist(terminal.log(task["session"]))
    assert [e["seq"] for e in told] == list(range(1, len(told) + 1))
    found = terminal.asked("inspect", "demo", task["outcome"]["native_id"])
    assert (found["sound"], found["turns"], found["last_complete"], found["problems"]) == (True, 1, 1, [])
    by_path = terminal.asked("inspect", "demo", found["path"])
    assert by_path == found
    assert "Done." in terminal.give("history", "demo", found["path"]).stdout


def test_reading_changes_nothing(terminal: Terminal) -> None:
    task = terminal.run(*SCRIPT)
    folder = terminal.env["HOLDFAST_DEMO_HOME"]

    def state() -> dict[str, tuple[int, int]]:
        return {e.name: (e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(folder)}

    before = state()
    native_id = task["outcome"]["native_id"]
    history(terminal, native_id)
    terminal.give("inspect", "demo", native_id)
    terminal.give("import", "demo")
    assert state() == before


def test_what_is_not_there_is_said(terminal: Terminal) -> None:
    assert "no session" in terminal.give("history", "demo", "nobody", status=3).stderr
    found = terminal.asked("inspect", "demo", "nobody")
    assert not found["sound"] and [p["code"] for p in found["problems"]] == ["no_transcript"]
    assert "nothing at" in terminal.give("history", "demo", "x", "--in", "/no/such/place", status=3).stderr


def test_a_killed_agent_is_not_sound(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "sleep 30.375"})
    terminal.until_event(made["session"], "tool_progress")
    agent = terminal.until(lambda: Spool(terminal.home.task(made["task"])).agent())
    native_id = terminal.asked("show", made["session"])["tokens"][0]["native_id"]
    live = [p["code"] for p in terminal.asked("inspect", "demo", native_id)["problems"]]
    assert "live_owner" in live and "dangling_call" in live
    os.kill(agent.pid, signal.SIGKILL)
    task = terminal.ended(made["task"])
    found = terminal.asked("inspect", "demo", native_id)
    codes = [p["code"] for p in found["problems"]]
    assert not found["sound"] and "dangling_call" in codes and "tools_running" in codes
    assert "live_owner" not in codes and [c["name"] for c in found["dangling"]] == ["shell"]
    for survivor in task["outcome"]["survivors"]:
        os.kill(survivor["pid"], signal.SIGKILL)


def test_import_adopts_once_and_completes_what_was_cut_short(terminal: Terminal, other: Terminal) -> None:
    tasks = [terminal.run(*SCRIPT), terminal.run({"say": "Two."})]
    done = other.asked("import", "demo")
    assert [a["new"] for a in done["adopted"]] == [True, True] and not done["failed"]
    again = other.asked("import", "demo")
    assert [(a["new"], a["events"]) for a in again["adopted"]] == [(False, 0), (False, 0)]
    assert len(other.asked("ls")) == 2
    session = next(
        a["session"] for a in done["adopted"] if a["native_id"] == tasks[0]["outcome"]["native_id"]
    )
    log = other.log(session)
    assert gist(log) == gist(terminal.log(tasks[0]["session"]))
    assert all(e["replayed"] for e in log if e["kind"] in CONVERSATION)
    assert [e["body"]["code"] for e in log if e["kind"] == "notice"] == ["replayed"]
    # Dated by what happened in it, not by the import; a second import changes nothing of that.
    listed = {one["id"]: one for one in other.asked("ls")}
    said = [e["at"] for e in log if e["kind"] in CONVERSATION]
    assert (listed[session]["created_at"], listed[session]["updated_at"]) == (said[0], max(said))
    assert [one["id"] for one in other.asked("ls")][-1] == session, "the other one was active later"
    shown = other.asked("show", session)
    assert shown["tokens"][0]["native_id"] == tasks[0]["outcome"]["native_id"]
    assert terminal.asked("import", "demo")["adopted"][0]["new"] is False, "a run of ours is here already"


def test_a_past_that_we_did_not_see_comes_first_and_has_no_effects(
    terminal: Terminal, other: Terminal
) -> None:
    first = terminal.run(*SCRIPT)
    adopted = other.asked("import", "demo")["adopted"][0]
    terminal.give("run", "--session", first["session"], '<<[{"say":"Meanwhile, without you."}]>>')
    other.give("run", "--session", adopted["session"], '<<[{"say":"Here I am."}]>>')
    task = other.last()
    assert task["status"] == "succeeded" and "links" not in task["outcome"]
    log = other.log(adopted["session"])
    texts = [(e["body"]["text"], e["replayed"]) for e in log if e["kind"] == "assistant"]
    assert texts == [
        ("One.", True),
        ("Done.", True),
        ("Meanwhile, without you.", True),
        ("Here I am.", False),
    ]
    borders = [e["seq"] for e in log if e["kind"] == "notice" and e["body"]["code"] == "replayed"]
    assert len(borders) == 2, "one where it was imported, one at the head of the run"
    live = [e["seq"] for e in log if e["kind"] == "user" and not e["replayed"]]
    assert borders[1] < live[0]
    assert not [e for e in log if e["kind"] == "notice" and e["body"]["code"] == "pull_request"]
    assert len(other.asked("show", adopted["session"])["tokens"]) == 1
    other.give("run", "--session", adopted["session"], '<<[{"say":"Again."}]>>')
    again = other.log(adopted["session"])
    assert [e["body"]["text"] for e in again if e["kind"] == "assistant"][-2:] == ["Here I am.", "Again."]
    assert len([e for e in again if e["kind"] == "notice" and e["body"]["code"] == "replayed"]) == 2


def test_what_was_done_while_the_spool_was_lost_is_filled_in(terminal: Terminal) -> None:
    gate = "while [ ! -e gate ]; do sleep 0.05; done; echo opened"
    made = terminal.detached({"say": "Before."}, {"tool": "s", "run": gate}, {"say": "After."})
    terminal.until_event(made["session"], "tool_progress")
    os.kill(terminal.task(made["task"])["owner"]["pid"], signal.SIGKILL)
    native_id = terminal.asked("show", made["session"])["tokens"][0]["native_id"]
    shutil.rmtree(terminal.home.task(made["task"]))
    with open(os.path.join(terminal.cwd, "gate"), "w"):
        pass
    terminal.until(lambda: terminal.asked("inspect", "demo", native_id)["last_complete"] == 1)
    terminal.give("tasks", "--settle")
    assert terminal.ended(made["task"])["status"] == "interrupted"
    terminal.give("resume", made["session"], "--anyway", '<<[{"say":"Again."}]>>')
    texts = [e["body"]["text"] for e in terminal.log(made["session"]) if e["kind"] == "assistant"]
    assert texts == ["Before.", "After.", "Again."]


def test_a_transcript_that_its_tool_cut_is_put_back(terminal: Terminal) -> None:
    task = terminal.run(*SCRIPT)
    native_id = task["outcome"]["native_id"]
    path = terminal.asked("inspect", "demo", native_id)["path"]
    with open(path, "rb") as file:
        whole = file.read()
    assert terminal.asked("restore", task["session"], "--native") == []
    with open(path, "wb") as file:
        file.write(whole[:200])
    codes = [p["code"] for p in terminal.asked("inspect", "demo", native_id)["problems"]]
    assert "shrunk" in codes
    shown = terminal.give("restore", task["session"], "--native", "--dry-run").stdout
    assert path in shown and os.path.getsize(path) == 200
    (done,) = terminal.asked("restore", task["session"], "--native")
    assert done["was"] == "shrunk" and os.path.getsize(done["kept"]) == 200
    with open(path, "rb") as file:
        assert file.read() == whole
    os.unlink(path)
    terminal.give("restore", task["session"], "--native")
    with open(path, "rb") as file:
        assert file.read() == whole
    assert terminal.asked("inspect", "demo", native_id)["sound"]


def test_where_no_copy_is_made_that_is_said(terminal: Terminal) -> None:
    store = os.path.join(
        os.path.dirname(os.path.dirname(__file__)), "fixtures", "history", "cursor", "sdk-jsonl"
    )
    (adopted,) = terminal.asked("import", "cursor", "--in", store)["adopted"]
    said = terminal.give("restore", adopted["session"], "--native", status=3).stderr
    assert "no copy of this transcript" in said and "only transcripts are copied" in said
