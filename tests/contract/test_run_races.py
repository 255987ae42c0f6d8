"""Several people, workers and commands at the same moment; commands that die; odd places and prompts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.process import identity
from holdfast.spool.task_dir import Spool
from tests.crash import run_support
from tests.support.terminal import HOLDFAST, Terminal


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Any:
    where = tmp_path / "work"
    where.mkdir()
    found = Terminal(home, str(where))
    yield found
    found.end_all()


GATE = "while [ ! -e gate ]; do sleep 0.05; done"


def open_gate(terminal: Terminal) -> None:
    with open(os.path.join(terminal.cwd, "gate"), "w"):
        pass


def at_once(terminal: Terminal, *commands: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Commands given at the same moment, and what each said."""
    started = [(words, terminal.start(*words)) for words in commands]
    ended = []
    for words, process in started:
        out, err = process.communicate(timeout=60)
        ended.append(subprocess.CompletedProcess(words, process.returncode, out, err))
    return ended


# --- people


def test_two_people_answer_at_once(terminal: Terminal) -> None:
    """One of them is told that he came too late, and the agent does as the other one said."""
    made = terminal.detached({"tool": "shell", "run": "echo ran", "ask": True}, {"say": "after"})
    terminal.until_event(made["session"], "permission", answer=None)
    ended = at_once(terminal, ["answer", made["task"], "allow"], ["answer", made["task"], "deny"])
    task = terminal.ended(made["task"])
    assert task["status"] == "succeeded"
    events = terminal.log(made["session"])
    (answer,) = [e["body"]["answer"] for e in events if e["kind"] == "permission" and e["body"]["answer"]]
    assert sorted(e.returncode for e in ended) in ([0, 3], [0, 4])
    winner = next(e for e in ended if e.returncode == 0)
    assert answer in winner.args
    (outcome,) = [e["body"]["outcome"] for e in events if e["kind"] == "tool_summary"]
    assert outcome == ("ok" if answer == "allow" else "error")


def test_an_answer_after_the_agent_died(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "echo ran", "ask": True})
    terminal.until_event(made["session"], "permission", answer=None)
    agent = Spool(terminal.home.task(made["task"])).agent()
    assert agent is not None
    os.kill(agent.pid, signal.SIGKILL)
    terminal.ended(made["task"])
    done = terminal.give("answer", made["task"], "allow", status=4)
    assert "interrupted" in done.stderr


def test_cancel_while_it_waits_for_a_permission(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "echo ran", "ask": True}, {"say": "after"})
    terminal.until_event(made["session"], "permission", answer=None)
    terminal.give("cancel", made["task"])
    assert terminal.ended(made["task"])["status"] == "cancelled"
    (summary,) = [e["body"] for e in terminal.log(made["session"]) if e["kind"] == "tool_summary"]
    assert summary["outcome"] == "interrupted"


def test_cancel_while_it_starts(terminal: Terminal) -> None:
    """Whatever the moment, the task is cancelled and no agent is left."""
    terminal.config("[run]\ngrace_s = 0.5\n")
    for _ in range(3):
        made = terminal.detached({"sleep": 30})
        terminal.give("cancel", made["task"])
        task = terminal.ended(made["task"])
        assert task["status"] == "cancelled", task
        agent = Spool(terminal.home.task(made["task"])).agent()
        assert agent is None or not identity.is_alive(*agent)


def test_archive_and_rm_around_a_task(terminal: Terminal) -> None:
    terminal.config("[run]\nat_once = 1\n")
    busy = terminal.detached({"tool": "s", "run": GATE}, {"say": "done"})
    waits = terminal.start("run", "-a", "demo", '<<[{"say":"later"}]>>')
    terminal.until(lambda: len(terminal.tasks()) == 2)
    queued = terminal.last()
    assert "cancel it first" in terminal.give("rm", busy["session"], status=4).stderr
    terminal.give("archive", busy["session"])
    terminal.give("rm", queued["session"])
    _, said = waits.communicate(timeout=30)
    assert waits.returncode == 4 and "deleted" in said, "its follower does not wait for ever"
    open_gate(terminal)
    assert terminal.ended(busy["task"])["status"] == "succeeded", "archived while it ran"
    terminal.give("restore", queued["session"])
    terminal.give("tasks", "--settle")
    assert terminal.ended(queued["id"])["status"] == "succeeded", "its prompt was still there"


def test_the_same_new_key_twice_at_once(terminal: Terminal) -> None:
    words = ["run", "-a", "demo", "--key", "k", "--queue", '<<[{"say":"x"}]>>']
    ended = at_once(terminal, *[words] * 3)
    assert [e.returncode for e in ended] == [0, 0, 0], [e.stderr for e in ended]
    assert len({task["session"] for task in terminal.tasks()}) == 1


# --- workers


def test_who_follows_a_run_sees_that_it_goes_on(terminal: Terminal) -> None:
    gate = json.dumps({"tool": "s", "run": GATE})
    followed = terminal.start("run", "-a", "demo", f'<<[{{"say":"begun"}},{gate},{{"say":"at last"}}]>>')
    assert followed.stdout is not None
    while "begun" not in followed.stdout.readline():
        pass
    os.kill(terminal.last()["owner"]["pid"], signal.SIGKILL)
    open_gate(terminal)
    out, _ = followed.communicate(timeout=30)
    assert followed.returncode == 0 and "at last" in out


def test_a_stopped_worker_does_not_stop_the_others(terminal: Terminal) -> None:
    stopped = terminal.detached({"tool": "s", "run": GATE})
    terminal.until_event(stopped["session"], "tool_progress")
    owner = terminal.task(stopped["task"])["owner"]["pid"]
    os.kill(owner, signal.SIGSTOP)
    try:
        assert terminal.run({"say": "x"})["status"] == "succeeded"
        assert terminal.task(stopped["task"])["owner"]["pid"] == owner
    finally:
        os.kill(owner, signal.SIGCONT)
    open_gate(terminal)
    assert terminal.ended(stopped["task"])["status"] == "succeeded"


def test_never_more_at_once_than_allowed_whoever_runs_them(terminal: Terminal) -> None:
    terminal.config("[run]\nat_once = 3\n[agents.demo]\nat_once = 2\n")
    marks = os.path.join(terminal.cwd, "marks")
    tool = {"tool": "s", "run": f"echo + >>{marks}; sleep 0.2; echo - >>{marks}"}
    words = ["run", "-a", "demo", "--detach", f"<<[{json.dumps(tool)}]>>"]
    for ended in at_once(terminal, *[words] * 8):
        assert ended.returncode == 0, ended.stderr
    for task in terminal.tasks():
        assert terminal.ended(task["id"])["status"] == "succeeded"
    running = most = 0
    with open(marks) as file:
        for mark in file.read().split():
            running += 1 if mark == "+" else -1
            most = max(most, running)
    assert running == 0 and most == 2


def test_an_agents_own_limit_holds_for_tasks_that_wait_together(home: Home) -> None:
    """They are one worker's, which sees them all at the same moment."""
    with open(home.config, "w") as file:
        file.write("[run]\nat_once = 5\n[agents.demo]\nat_once = 1\n")
    marks = os.path.join(home.path, "marks")
    tool = {"tool": "s", "run": f"echo + >>{marks}; sleep 0.2; echo - >>{marks}"}
    run_support.queue(home, [run_support.script(tool, {"say": str(n)}) for n in range(3)])
    run_support.undisturbed(home)
    with open(marks) as file:
        assert file.read().split() == ["+", "-"] * 3
    answers = [task.outcome["answer"] for task in run_support.tasks(home) if task.outcome]
    assert answers == ["0", "1", "2"]
    begun = [str(task.started_at) for task in run_support.tasks(home)]
    assert begun == sorted(begun), "in order"


# --- the command dies


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3, 0.5])
def test_the_command_is_killed_before_it_is_answered(terminal: Terminal, after_s: float) -> None:
    """The prompt was never queued, or it is run to its end, once."""
    command = terminal.start("run", "-a", "demo", '<<[{"say":"x"}]>>')
    time.sleep(after_s)
    command.kill()
    command.communicate()
    time.sleep(0.3)
    terminal.run({"say": "another"})
    for task in terminal.tasks():
        assert terminal.ended(task["id"])["status"] == "succeeded"
        kinds = [event["kind"] for event in terminal.log(task["session"])]
        assert kinds.count("user") == 1


# --- odd places and prompts


def test_a_home_and_a_folder_with_odd_names(tmp_path: Path) -> None:
    odd = 'it\'s "odd" $HOME `x` — ünï\tcode;&'
    home = Home(str(tmp_path / odd / "home"))
    home.make()
    where = tmp_path / f"{odd} too"
    where.mkdir()
    terminal = Terminal(home, str(where))
    task = terminal.run({"tool": "shell", "run": "pwd"}, {"say": "x"})
    (summary,) = [e["body"] for e in terminal.log(task["session"]) if e["kind"] == "tool_summary"]
    assert summary["output"] == f"{where}\n"


@pytest.mark.parametrize(
    "prompt",
    ["-x and so on", "--detach", "a\0b", "lone \ud83d surrogate", "x" * 1_000_000, "\u2028 \x07\x1b[31m"],
    ids=["dash", "option", "nul", "surrogate", "long", "control"],
)
def test_odd_prompts_come_to_the_agent_as_they_are(terminal: Terminal, prompt: str) -> None:
    whole = prompt + ' <<[{"say":"x"}]>>'
    words = [*HOLDFAST, "run", "-a", "demo"]
    if "\0" in whole or len(whole) > 100_000:
        words, stdin = [*words, "-"], whole.encode()
    else:
        words, stdin = [*words, "--", whole], b""
    given = [word.encode("utf-8", "surrogatepass") for word in words]  # as a shell would hand them over
    done = subprocess.run(
        given, env=terminal.env, cwd=terminal.cwd, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    task = terminal.last()
    read = os.fsdecode(given[-1]) if stdin == b"" else whole
    assert (task["status"], task["prompt"]) == ("succeeded", read)
    (user,) = [e["body"]["text"] for e in terminal.log(task["session"]) if e["kind"] == "user"]
    assert user == read


def test_without_a_home_folder(terminal: Terminal) -> None:
    del terminal.env["HOME"]
    assert terminal.run({"say": "x"})["status"] == "succeeded"


def test_from_a_folder_that_is_gone(terminal: Terminal) -> None:
    gone = os.path.join(terminal.cwd, "gone")
    os.mkdir(gone)
    words = f"cd {gone}; rmdir {gone}; exec {' '.join(HOLDFAST)} run -a demo x"
    done = subprocess.run(["sh", "-c", words], env=terminal.env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is gone" in done.stderr and done.stderr.count("\n") == 1


def test_a_home_that_cannot_be_made_or_written(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    terminal.env["HOLDFAST_HOME"] = str(tmp_path / "file" / "home")
    done = terminal.give("run", "-a", "demo", "x", status=1)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("holdfast: ")
    terminal.env["HOLDFAST_HOME"] = "/proc/self/task"
    done = terminal.give("run", "-a", "demo", "x", status=1)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("holdfast: ")


def test_a_worker_says_nothing_that_it_does_not_mean_to_say(terminal: Terminal) -> None:
    terminal.run({"tool": "s", "run": "echo x"}, {"say": "y"})
    said = terminal.worker_log()
    assert "Traceback" not in said and "never retrieved" not in said, said
