"""Commands as people type them: names that help, refusals that say what to do, exit codes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.spool.task_dir import Spool
from tests.support.terminal import HOLDFAST, Terminal

GATE: dict[str, Any] = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done"}
ASK: dict[str, Any] = {"tool": "shell", "run": "true", "ask": True}
SAY: dict[str, Any] = {"say": "done"}


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Iterator[Terminal]:
    work = tmp_path / "work"
    work.mkdir()
    made = Terminal(home, str(work))
    yield made
    made.end_all()


def git(folder: str, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def kill_agent(terminal: Terminal, task: str) -> None:
    agent = terminal.until(lambda: Spool(terminal.home.task(task)).agent())
    os.kill(agent.pid, signal.SIGKILL)
    assert terminal.ended(task)["status"] == "interrupted"


def test_redispatch_that_sends_nothing_says_why_and_has_its_own_exit_code(terminal: Terminal) -> None:
    done = terminal.give("redispatch", "--interrupted", status=16)
    assert done.stdout == "no interrupted task can be run again\n"
    made = terminal.detached(GATE, SAY, words=["--key", "k"])
    terminal.until_event(made["session"], "tool_progress")
    kill_agent(terminal, made["task"])
    done = terminal.give("redispatch", "k", status=16)
    assert f"task {made['task']} is not run again" in done.stdout
    assert f"`holdfast cancel {made['task']}` ends its leftover processes" in done.stdout
    refused = terminal.asked_to_fail("run", "--key", "k", "more")
    assert f"`holdfast cancel {made['task']}` ends its leftover processes" in refused["hint"]
    terminal.give("cancel", "k")
    terminal.until(lambda: terminal.asked("verdict", "k")["action"] == "fresh")
    (Path(terminal.cwd) / "gate").touch()
    sent = terminal.asked("redispatch", made["task"][:8])["redispatched"]
    assert [one["of"] for one in sent] == [made["task"]]
    assert terminal.ended(sent[0]["task"])["status"] == "succeeded"
    again = terminal.asked("redispatch", made["task"], "nothing-like-it", status=16)["skipped"]
    assert [one["code"] for one in again] == ["illegal_change", "not_found"]


def test_redispatch_takes_failed_tasks_and_keys(terminal: Terminal) -> None:
    failed = terminal.run({"error": "no"}, words=["--key", "broken"], status=11)
    other = terminal.run({"error": "no"}, words=["--key", "other"], status=11)
    fine = terminal.run(SAY, words=["--key", "fine"])
    terminal.asked("redispatch", "--interrupted", status=16)
    refused = terminal.asked("redispatch", fine["id"], status=16)["skipped"][0]
    assert "succeeded" in refused["message"] and refused["hint"]
    named = terminal.asked("redispatch", "broken")["redispatched"]
    assert [one["of"] for one in named] == [failed["id"]]
    rest = terminal.asked("redispatch", "--failed")["redispatched"]
    again = [one["of"] for one in rest]  # the retry of the first may have failed again by now
    assert other["id"] in again and failed["id"] not in again, "each once"
    for one in (*named, *rest):
        terminal.ended(one["task"])
    terminal.give("redispatch", "broken", "--failed", status=2)


def test_answer_and_cancel_take_a_key_or_a_session(terminal: Terminal) -> None:
    made = terminal.detached(ASK, SAY, words=["--key", "team"])
    terminal.until_event(made["session"], "permission", answer=None)
    shown = terminal.give("tasks").stdout
    assert f"{made['task']}  {made['session']}  asking" in shown
    assert "asking" in terminal.give("show", "team").stdout
    assert f"holdfast answer {made['task']} allow" in terminal.give("show", "team").stdout
    assert terminal.asked("ls")[0]["activity"] == "asking"
    (answered,) = terminal.asked("answer", "team", "allow")
    assert answered["answer"] == "allow"
    assert terminal.ended(made["task"])["status"] == "succeeded"
    assert terminal.asked_to_fail("answer", "team", "allow", status=3)["code"] == "not_found"
    running = terminal.detached(GATE, words=["--key", "team"])
    terminal.until_event(running["session"], "tool_progress", name="shell")
    terminal.until(lambda: terminal.task(running["task"])["status"] == "running")
    queued = [terminal.detached(SAY, words=["--key", "team", "--queue"]) for _ in range(2)]
    (listed,) = terminal.asked("ls")
    assert (listed["activity"], listed["queued"]) == ("running", 2)
    assert "running +2 queued" in terminal.give("ls").stdout
    done = terminal.give("cancel", running["session"], "--now").stdout
    assert running["task"] in done and "2 prompts behind it" in done
    assert terminal.ended(running["task"])["status"] == "cancelled"
    for one in queued:
        terminal.ended(one["task"])


def test_a_key_that_is_not_the_session_s_is_refused(terminal: Terminal) -> None:
    made = terminal.run(SAY, words=["--key", "a"])
    refused = terminal.asked_to_fail("run", "--session", made["session"], "--key", "b", "more", status=2)
    assert "has the key a, not b" in refused["message"]
    terminal.give("run", "--session", made["session"], "--key", "a", 'more <<[{"say":"x"}]>>')
    assert terminal.last()["session"] == made["session"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--time-limit", "soon", "x"], "write 90, 90s, 45m, 1h30m or 2d"),
        (["run", "--time-limit", "nan", "x"], "is not a length of time"),
        (["ls", "-n", "many"], "'many' is not a whole number"),
        (["tasks", "--status", "odd"], "--status is one of"),
        (["show"], "missing: ID"),
        (["ls", "--key"], "--key needs a value"),
        (["ls", "--odd"], "unknown option or too many words: --odd"),
    ],
)
def test_a_wrong_word_is_explained_in_plain_words(terminal: Terminal, words: list[str], says: str) -> None:
    told = terminal.give(*words, status=2).stderr
    assert says in told and told.count("\n") == 1
    for library in ("invalid", "argument ", "float", "int value"):
        assert library not in told


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('[run]\nat_once = "four"\n', "run.at_once must be a whole number, not text in quotes"),
        ('[run]\npermissions = "maybe"\n', 'run.permissions must be one of "ask", "allow", "deny"'),
        ("[hub]\nhosts = 3\n", "hub.hosts must be a list, not a whole number"),
        ("[agents.claude]\nenv = { A = 3 }\n", "agents.claude.env"),
    ],
)
def test_a_wrong_setting_is_explained_in_plain_words(terminal: Terminal, config: str, says: str) -> None:
    terminal.config(config)
    told = terminal.give("config", status=2).stderr
    assert says in told and told.count("\n") == 1
    for library in ("Expected", "expected", "`int`", "`str`", "enum", "$"):
        assert library not in told


def test_a_time_limit_has_units(terminal: Terminal) -> None:
    made = terminal.run(SAY, words=["--time-limit", "1h30m"])
    assert made["options"]["time_limit_s"] == 5400


def test_a_worktree_is_named_and_uncommitted_changes_are_warned_of(terminal: Terminal) -> None:
    git(terminal.cwd, "init", "-q")
    (Path(terminal.cwd) / "a.txt").write_text("one")
    git(terminal.cwd, "add", ".")
    git(terminal.cwd, "commit", "-qm", "one")
    clean = terminal.give("run", "-a", "demo", "--worktree", 'x <<[{"say":"x"}]>>').stderr
    session = terminal.asked("ls")[0]
    assert f"worktree {session['worktree']['path']}, branch {session['worktree']['branch']}" in clean
    assert "warning" not in clean
    (Path(terminal.cwd) / "a.txt").write_text("two")
    dirty = terminal.give("run", "-a", "demo", "--worktree", 'x <<[{"say":"x"}]>>').stderr
    assert "warning: 1 uncommitted change in" in dirty and "(a.txt)" in dirty


def test_a_machine_without_a_home_has_empty_lists_and_says_how_to_begin(tmp_path: Path) -> None:
    home = tmp_path / "none"
    env = {**os.environ, "HOLDFAST_HOME": str(home)}
    for command, nothing in (("ls", "no sessions"), ("tasks", "no tasks")):
        done = subprocess.run([*HOLDFAST, command], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{nothing}\n"), done
        assert "holdfast demo" in done.stderr and str(home) in done.stderr
        words = [*HOLDFAST, command, "--json"]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert not home.exists()


def first_lines(terminal: Terminal, *words: str) -> tuple[str, str]:
    """What `up` prints: standard output's first line, and standard error."""
    log = Path(terminal.cwd) / "stderr"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*HOLDFAST, "up", *words],
            env=terminal.env,
            cwd=terminal.cwd,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    with process:
        line = process.stdout.readline()
        process.terminate()
    return line, log.read_text()


def test_a_taken_default_port_is_one_line(terminal: Terminal) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def bound() -> bool:
            """A hub of another test may have it for a moment."""
            try:
                taken.bind(("127.0.0.1", 8420))
            except OSError:
                return False
            return True

        terminal.until(bound)
        taken.listen()
        line, told = first_lines(terminal)
    port = line.split("/?token=")[0].rpartition(":")[2]
    assert f"port 8420 is taken by another program, so the hub listens on port {port}\n" in told


def test_a_hub_for_other_machines_prints_an_address_that_they_can_use(terminal: Terminal) -> None:
    line, told = first_lines(terminal, "--host", "0.0.0.0", "--port", "0")
    assert "0.0.0.0" not in line and line.startswith("http://")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            assert "there is no network now" in told
            return
    assert "127.0.0.1" not in line and "on this machine it is also at http://127.0.0.1:" in told


def test_replayed_events_are_marked_in_a_followed_run() -> None:
    from holdfast.cli.render import EventRenderer

    renderer = EventRenderer(colored=False)
    body = json.dumps({"text": "one\ntwo"})
    at = "2026-01-01T00:00:00.000000Z"
    row: Any = (1, "assistant", at, "t1", True, None, None, None, body)
    assert renderer.followed(row) == "replayed | one\nreplayed | two"
    assert renderer.followed((*row[:4], False, *row[5:])) == "one\ntwo"
