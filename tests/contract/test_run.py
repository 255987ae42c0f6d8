"""`holdfast run` and what goes with it, with the demo agent, as a person sees it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.process import identity
from holdfast.spool.task_dir import Spool
from holdfast.store.location import Location
from holdfast.store.open import open_store
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Terminal:
    where = tmp_path / "work"
    where.mkdir()
    return Terminal(home, str(where))


GATE = "while [ ! -e gate ]; do sleep 0.05; done"  # a tool that waits until the test lets it go


def open_gate(terminal: Terminal) -> None:
    with open(os.path.join(terminal.cwd, "gate"), "w"):
        pass


def bodies(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in events if event["kind"] == kind]


def alive(pid: int) -> bool:
    return identity.started(pid) is not None


# --- a run


def test_text_tools_and_an_answer_once_each_in_order(terminal: Terminal) -> None:
    steps: list[dict[str, Any]] = [
        {"think": "hm"},
        {"say": "First, in pieces.", "chunk": 3},
        {"tool": "shell", "run": "echo one"},
        {"tool": "shell", "run": "echo two >&2; exit 4"},
        {"say": "Done."},
    ]
    task = terminal.run(*steps)
    assert (task["status"], task["delivery"], task["outcome"]["exit"]) == ("succeeded", "accepted", 0)
    assert task["outcome"]["answer"] == "Done."
    events = [e for e in terminal.log(task["session"]) if e["kind"] not in ("session", "task", "token")]
    kinds = [e["kind"] for e in events]
    assert kinds == ["user", "thinking", "assistant", *["tool_progress", "tool_summary"] * 2, "assistant"]
    assert [b["outcome"] for b in bodies(events, "tool_summary")] == ["ok", "error"]
    assert all(isinstance(b["duration_ms"], int) for b in bodies(events, "tool_summary"))
    assert [b["text"] for b in bodies(events, "assistant")] == ["First, in pieces.", "Done."]
    shown = terminal.asked("show", task["session"])
    assert [t["status"] for t in shown["tokens"]] == ["current"]
    assert shown["tokens"][0]["native_id"] == task["outcome"]["native_id"]


def test_the_token_is_in_the_log_before_the_prompt_is_taken(terminal: Terminal) -> None:
    task = terminal.run({"say": "x"})
    kinds = [e["kind"] for e in terminal.log(task["session"])]
    assert kinds.index("token") < kinds.index("user")


def test_the_terminal_shows_it_and_json_gives_the_events(terminal: Terminal) -> None:
    prompt = '<<[{"say":"hello there"},{"tool":"shell","run":"echo out"},{"say":"bye"}]>>'
    done = terminal.give("run", "-a", "demo", prompt)
    for word in ("hello there", "echo out", "out", "bye"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout, "colours only on a terminal"
    lines = terminal.give("run", "-a", "demo", prompt, "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("assistant") == 2
    stdin = terminal.give("run", "-a", "demo", "-", stdin='<<[{"say":"from stdin"}]>>')
    assert "from stdin" in stdin.stdout


def test_the_next_prompt_goes_on_in_the_same_conversation(terminal: Terminal) -> None:
    first = terminal.run({"say": "one"})
    terminal.give("run", "--session", first["session"], '<<[{"say":"two"}]>>')
    second = terminal.last()
    assert (second["session"], second["status"]) == (first["session"], "succeeded")
    assert second["outcome"]["native_id"] == first["outcome"]["native_id"]
    texts = [b["text"] for b in bodies(terminal.log(first["session"]), "assistant")]
    assert texts == ["one", "two"], "what the agent replays is not doubled"
    terminal.give("run", "-a", "demo", "--key", "k", '<<[{"say":"a"}]>>')
    terminal.give("run", "--key", "k", '<<[{"say":"b"}]>>')
    tasks = terminal.tasks()
    assert tasks[0]["session"] == tasks[1]["session"] != first["session"]


# --- what the agent may do


def test_permissions_asked_answered_and_logged(terminal: Terminal) -> None:
    ask = {"tool": "shell", "run": "echo ran", "ask": True}
    made = terminal.detached(ask, {"say": "after"})
    asked = terminal.until_event(made["session"], "permission", answer=None)["body"]
    time.sleep(0.3)
    told = terminal.task(made["task"])
    assert told["status"] == "running" and told["asks"] == [asked]
    assert "waiting for permission: shell echo ran" in (shown := terminal.give("tasks").stdout)
    assert "1 wait for your answer: holdfast answer TASK allow|deny" in shown
    assert [(s["id"], s["asks"]) for s in terminal.asked("ls")] == [(made["session"], True)]
    assert " waiting for permission " in terminal.give("ls").stdout
    assert terminal.give("answer", made["task"], "allow").stdout == "allow: shell echo ran\n"
    assert terminal.task(made["task"])["asks"] == []
    assert terminal.ended(made["task"])["status"] == "succeeded"
    given = bodies(terminal.log(made["session"]), "permission")
    assert [b["answer"] for b in given] == [None, "allow"] and given[1]["by"]
    assert given[1]["call"] == asked["call"]
    terminal.give("answer", made["task"], "allow", status=4)


@pytest.mark.parametrize(("policy", "outcome"), [("allow", "ok"), ("deny", "error")])
def test_permissions_by_policy(terminal: Terminal, policy: str, outcome: str) -> None:
    ask = {"tool": "shell", "run": "echo ran", "ask": True}
    by_option = terminal.run(ask, {"say": "after"}, words=["--permissions", policy])
    terminal.config(f'[agents.demo]\npermissions = "{policy}"\n')
    by_config = terminal.run(ask, {"say": "after"})
    for task in (by_option, by_config):
        events = terminal.log(task["session"])
        assert [(b["answer"], b["by"]) for b in bodies(events, "permission")] == [(policy, "policy")]
        assert [b["outcome"] for b in bodies(events, "tool_summary")] == [outcome]


def test_a_permission_waits_across_a_crash(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "echo ran", "ask": True}, {"say": "after"})
    terminal.until_event(made["session"], "permission", answer=None)
    os.kill(terminal.task(made["task"])["owner"]["pid"], signal.SIGKILL)
    terminal.give("answer", made["task"], "allow")  # starts a worker that passes it on
    assert terminal.ended(made["task"])["status"] == "succeeded"
    assert len(bodies(terminal.log(made["session"]), "permission")) == 2


# --- ends


def test_a_final_word_is_needed_and_an_error_is_none(terminal: Terminal) -> None:
    zero = terminal.run({"say": "I leave"}, {"die": 0}, status=13)
    assert (zero["status"], zero["outcome"]["exit"]) == ("interrupted", 0)
    refused = terminal.run({"say": "no"}, {"stop": "refusal"}, status=11)
    assert (refused["status"], refused["reason"]) == ("failed", "the agent stopped: refusal")
    error = terminal.run({"stderr": "a word\n"}, {"error": "the model is away"}, status=11)
    assert error["status"] == "failed" and "the model is away" in error["reason"]
    assert "a word" in error["outcome"]["stderr"]


def test_a_killed_agents_open_call_is_marked_and_its_tool_named(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "sleep 30.125"})
    call = terminal.until_event(made["session"], "tool_progress")["body"]["call"]
    agent = terminal.until(lambda: Spool(terminal.home.task(made["task"])).agent())
    time.sleep(0.3)
    os.kill(agent.pid, signal.SIGKILL)
    task = terminal.ended(made["task"])
    assert task["status"] == "interrupted"
    (summary,) = bodies(terminal.log(made["session"]), "tool_summary")
    assert (summary["call"], summary["outcome"]) == (call, "interrupted")
    named = [s for s in task["outcome"]["survivors"] if "30.125" in s["command"]]
    assert named and all(alive(s["pid"]) for s in named)
    assert any(b["code"] == "survivors" for b in bodies(terminal.log(made["session"]), "notice"))
    for survivor in task["outcome"]["survivors"]:
        os.kill(survivor["pid"], signal.SIGKILL)


def test_cancelling_a_dead_task_ends_what_it_left_running(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "sleep 30.375"}, words=("--key", "k"))
    terminal.until_event(made["session"], "tool_progress")
    agent = Spool(terminal.home.task(made["task"])).agent()
    assert agent is not None
    os.kill(agent.pid, signal.SIGKILL)
    task = terminal.ended(made["task"])
    survivors = {survivor["pid"] for survivor in task["outcome"]["survivors"]}
    assert survivors and terminal.asked("verdict", "k")["action"] == "wait"
    said = terminal.give("cancel", made["task"]).stdout
    assert "leftover processes are ended" in said
    assert not any(alive(pid) for pid in survivors)
    (noted,) = [b for b in bodies(terminal.log(made["session"]), "notice") if b["code"] == "leftovers_ended"]
    assert survivors & {ended["pid"] for ended in noted["ended"]}
    assert terminal.task(made["task"])["status"] == "interrupted"
    assert terminal.asked("verdict", "k")["action"] == "fresh"
    assert "already" in terminal.asked_to_fail("cancel", made["task"])["message"]


def test_cancel_asks_first_and_ends_what_was_started(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "sleep 30.25"}, {"say": "never"})
    terminal.until_event(made["session"], "tool_progress")
    terminal.give("cancel", made["task"])
    task = terminal.ended(made["task"])
    assert (task["status"], task["outcome"]["exit"]) == ("cancelled", 0), "it stopped by itself"
    assert not _running("sleep 30.25")
    terminal.give("cancel", made["task"], status=4)


def test_cancel_of_one_that_does_not_listen(terminal: Terminal) -> None:
    terminal.config("[run]\ngrace_s = 0.5\n")
    made = terminal.detached({"tool": "shell", "run": "setsid sleep 30.5 & echo"}, {"hang": True})
    terminal.until_event(made["session"], "tool_summary")
    terminal.give("cancel", made["task"])
    assert terminal.ended(made["task"])["status"] == "cancelled"
    assert not _running("sleep 30.5"), "what it had started was ended with it"


def test_cancel_when_nobody_drives_it(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": "sleep 30.75"})
    terminal.until_event(made["session"], "tool_progress")
    os.kill(terminal.task(made["task"])["owner"]["pid"], signal.SIGKILL)
    terminal.give("cancel", made["task"])
    assert terminal.ended(made["task"])["status"] == "cancelled"
    assert not _running("sleep 30.75")


def test_a_time_limit(terminal: Terminal) -> None:
    terminal.config("[run]\ngrace_s = 0.5\n")
    task = terminal.run({"sleep": 30}, words=["--time-limit", "0.5"], status=12)
    assert task["status"] == "cancelled" and "0.5 s" in task["reason"]


def _running(command: str) -> bool:
    found = subprocess.run(["pgrep", "-f", f"^{command}$"], capture_output=True, check=False)
    return found.returncode == 0


# --- what odd output does


def test_odd_lines_become_notices_and_stop_nothing(terminal: Terminal) -> None:
    task = terminal.run(
        {"garbage": "notjson"}, {"garbage": "notutf8"}, {"garbage": "long", "bytes": 50_000_000}, {"say": "x"}
    )
    assert task["status"] == "succeeded"
    notices = {b["code"]: b for b in bodies(terminal.log(task["session"]), "notice")}
    assert {"not_json", "not_utf8", "too_long"} <= notices.keys()
    assert notices["too_long"]["bytes"] >= 50_000_000
    assert os.path.exists(Spool(terminal.home.task(task["id"])).keep), "its bytes are kept in the spool"


def test_links_of_pull_requests_are_noted_on_the_task(terminal: Terminal) -> None:
    url = "https://git.example.org/team/repo/pulls/12"
    task = terminal.run({"tool": "shell", "run": f"echo see {url}"}, {"say": f"Opened {url}."})
    assert task["outcome"]["links"] == [url]
    noted = [b for b in bodies(terminal.log(task["session"]), "notice") if b["code"] == "pull_request"]
    assert len(noted) == 1


# --- errors


@pytest.mark.parametrize(
    ("words", "config", "status", "said"),
    [
        (["-a", "nobody", "x"], "", 3, "no agent named"),
        (["-a", "codex", "x"], "", 10, "not installed"),
        (["-a", "hermes", "x"], "", 10, "cannot be run"),
        (["x"], "", 2, "which agent"),
        (["-a", "demo", " "], "", 2, "empty"),
        (["-a", "demo", "--cwd", "/nowhere/at/all", "x"], "", 2, "no folder"),
        (["-a", "demo", "--worktree", "x"], "", 2, "git"),
        (["-a", "demo", "x"], "[run]\nat_onec = 1\n", 2, "at_onec"),
        (["-a", "demo", "x"], "run = [", 2, "TOML"),
        (["--session", "s0", "x"], "", 3, "no session"),
        (["-a", "demo", "--time-limit", "-1", "x"], "", 2, "time limit"),
    ],
)
def test_what_cannot_be_run_is_one_clear_line(
    terminal: Terminal, words: list[str], config: str, status: int, said: str
) -> None:
    terminal.config(config)
    terminal.env["PATH"] = "/usr/bin:/bin"
    done = terminal.give("run", *words, status=status)
    assert said in done.stderr and done.stderr.count("\n") == 1 and done.stderr.startswith("holdfast: ")
    if not config:
        assert terminal.give("tasks").stdout == "no tasks\n"


# --- the queue


def test_queued_tasks_start_in_order_and_not_too_many_at_once(terminal: Terminal) -> None:
    terminal.config("[run]\nat_once = 2\n")
    marks = os.path.join(terminal.cwd, "marks")
    made = [
        terminal.detached({"tool": "s", "run": f"echo +{i} >>{marks}; {GATE}; echo -{i} >>{marks}"})
        for i in range(5)
    ]
    time.sleep(1.0)
    open_gate(terminal)
    for one in made:
        assert terminal.ended(one["task"])["status"] == "succeeded"
    with open(marks) as file:
        lines = file.read().split()
    begun = [terminal.task(one["task"])["started_at"] for one in made]
    assert all(a <= b for a, b in zip(begun, begun[2:], strict=False)), (
        "two whose turn it is begin in any order"
    )
    running = most = 0
    for line in lines:
        running += 1 if line[0] == "+" else -1
        most = max(most, running)
    assert most == 2


def test_one_at_a_time_per_session(terminal: Terminal) -> None:
    first = terminal.detached({"tool": "s", "run": GATE}, {"say": "a"})
    second = terminal.asked("run", "--detach", "--session", first["session"], '<<[{"say":"b"}]>>')
    open_gate(terminal)
    assert terminal.ended(second["task"])["status"] == "succeeded"
    done, then = terminal.task(first["task"]), terminal.task(second["task"])
    assert done["ended_at"] <= then["started_at"]


def test_prompts_of_an_archived_session_wait(terminal: Terminal) -> None:
    terminal.config("[run]\nat_once = 1\n")
    busy = terminal.detached({"tool": "s", "run": GATE})
    waits = terminal.detached({"say": "later"})
    terminal.give("archive", waits["session"])
    open_gate(terminal)
    terminal.ended(busy["task"])
    time.sleep(0.3)
    assert terminal.task(waits["task"])["status"] == "queued"
    terminal.give("unarchive", waits["session"])
    terminal.give("tasks", "--settle")
    assert terminal.ended(waits["task"])["status"] == "succeeded"


def test_a_queued_task_is_cancelled_at_once(terminal: Terminal) -> None:
    terminal.config("[run]\nat_once = 1\n")
    busy = terminal.detached({"tool": "s", "run": GATE})
    waits = terminal.detached({"say": "later"})
    terminal.give("cancel", waits["task"])
    assert terminal.task(waits["task"])["status"] == "cancelled"
    open_gate(terminal)
    terminal.ended(busy["task"])


# --- coming and going


def test_ctrl_c_detaches_and_a_second_one_cancels(terminal: Terminal) -> None:
    gate = json.dumps({"tool": "s", "run": GATE})
    prompt = f'<<[{{"say":"begun"}},{gate},{{"say":"after"}}]>>'
    followed = terminal.start("run", "-a", "demo", prompt)
    assert followed.stdout is not None
    while "begun" not in followed.stdout.readline():
        pass
    followed.send_signal(signal.SIGINT)
    _, said = followed.communicate(timeout=30)
    assert followed.returncode == 130 and "log -f" in said
    open_gate(terminal)
    assert terminal.ended(terminal.last()["id"])["status"] == "succeeded"
    followed = terminal.start("run", "-a", "demo", '<<[{"say":"begun"},{"sleep":30}]>>')
    assert followed.stdout is not None
    while "begun" not in followed.stdout.readline():
        pass
    followed.send_signal(signal.SIGINT)
    time.sleep(0.5)
    followed.send_signal(signal.SIGINT)
    followed.communicate(timeout=30)
    assert terminal.ended(terminal.last()["id"])["status"] == "cancelled"


def test_log_f_comes_back_to_what_nobody_drives(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "s", "run": GATE}, {"say": "at last"})
    terminal.until_event(made["session"], "tool_progress")
    os.kill(terminal.task(made["task"])["owner"]["pid"], signal.SIGKILL)
    followed = terminal.start("log", "-f", made["session"])
    open_gate(terminal)
    assert followed.stdout is not None
    while "at last" not in followed.stdout.readline():
        pass
    followed.kill()
    followed.communicate()
    assert terminal.ended(made["task"])["status"] == "succeeded"


def test_a_worker_that_is_told_to_stop_leaves_its_agents_running(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "s", "run": GATE}, {"say": "done"})
    terminal.until_event(made["session"], "tool_progress")
    owner = terminal.task(made["task"])["owner"]["pid"]
    os.kill(owner, signal.SIGTERM)
    terminal.until(lambda: not alive(owner))
    agent = Spool(terminal.home.task(made["task"])).agent()
    assert agent is not None and identity.is_alive(*agent)
    terminal.give("tasks", "--settle")
    open_gate(terminal)
    assert terminal.ended(made["task"])["status"] == "succeeded"


def test_an_agent_gone_before_it_took_the_prompt_is_started_again(terminal: Terminal) -> None:
    count = os.path.join(terminal.cwd, "count")
    script = f'#!/bin/sh\necho x >>{count}\nif [ $(wc -l <{count}) -lt 2 ]; then kill -9 $$; fi\nexec "$@"\n'
    wrapper = os.path.join(terminal.cwd, "wrapper")
    with open(wrapper, "w") as file:
        file.write(script)
    os.chmod(wrapper, 0o700)
    from holdfast.agents.demo import PROGRAM

    command = json.dumps([wrapper, *PROGRAM])
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    terminal.config(f"[agents.mine]\ncommand = {command}\nenv = {{ PYTHONPATH = {json.dumps(source)} }}\n")
    done = terminal.give("run", "-a", "mine", '<<[{"say":"hello"}]>>')
    assert "hello" in done.stdout
    events = terminal.log(terminal.last()["session"])
    assert [b["code"] for b in bodies(events, "notice")] == ["given_back"]
    assert len(bodies(events, "user")) == 1


def test_cursor_is_driven_over_acp(terminal: Terminal) -> None:
    from holdfast.agents.demo import PROGRAM

    wrapper = os.path.join(terminal.cwd, "cursor-agent")
    with open(wrapper, "w") as file:
        file.write(f'#!/bin/sh\necho "$@" >words\nexec {" ".join(PROGRAM)}\n')
    os.chmod(wrapper, 0o700)
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    terminal.config(
        f'[agents.cursor]\npath = "{wrapper}"\nargs = ["--model", "m"]\n'
        f"env = {{ PYTHONPATH = {json.dumps(source)} }}\n"
    )
    terminal.give("run", "-a", "cursor", '<<[{"say":"hello"}]>>')
    with open(os.path.join(terminal.cwd, "words")) as file:
        assert file.read() == "--model m acp\n"
    (token,) = [b for b in bodies(terminal.log(terminal.last()["session"]), "token") if b["op"] == "seen"]
    assert (token["agent"], token["protocol"]) == ("cursor", "acp")


def test_a_conversation_of_another_mode_of_its_agent_is_not_gone_on_with(terminal: Terminal) -> None:
    wrapper = os.path.join(terminal.cwd, "cursor-agent")
    with open(wrapper, "w") as file:
        file.write("#!/bin/sh\ntouch started\n")
    os.chmod(wrapper, 0o700)
    terminal.config(f'[agents.cursor]\npath = "{wrapper}"\n')

    async def adopted() -> str:
        location = Location("sqlite", os.path.join(terminal.home.path, "state.db"))
        store = await open_store(location, terminal.home, AgentRegistry().token_rules())
        made = await store.create_session("cursor", cwd=terminal.cwd)
        await store.see_token(made.id, "cursor", "an-id", protocol="stream-json", seen_in="import")
        await store.close()
        return made.id

    session = asyncio.run(adopted())
    done = terminal.give("run", "--session", session, "go on", status=4)
    assert "stream-json mode" in done.stderr and not os.path.exists(os.path.join(terminal.cwd, "started"))
    anyway = terminal.give("resume", "--anyway", session, "go on", status=11)
    assert "stream-json mode" in anyway.stderr


# --- git


def _git(cwd: str, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": cwd}
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _repository(cwd: str) -> None:
    _git(cwd, "init", "-q", "-b", "main")
    with open(os.path.join(cwd, "a.txt"), "w") as file:
        file.write("a\n")
    _git(cwd, "add", ".")
    _git(cwd, "commit", "-qm", "first")


def test_a_worktree_of_its_own(terminal: Terminal) -> None:
    _repository(terminal.cwd)
    task = terminal.run({"tool": "s", "run": "pwd; touch new.txt"}, words=["--worktree"])
    session = terminal.asked("show", task["session"])["session"]
    tree = session["worktree"]
    assert os.path.exists(os.path.join(tree["path"], "new.txt"))
    assert not os.path.exists(os.path.join(terminal.cwd, "new.txt"))
    done = terminal.give("rm", task["session"])
    assert "new.txt" in done.stdout + done.stderr, "it says why the worktree stays"
    assert os.path.isdir(tree["path"])
    clean = terminal.run({"tool": "s", "run": "pwd"}, words=["--worktree"])
    tree = terminal.asked("show", clean["session"])["session"]["worktree"]
    terminal.give("rm", clean["session"])
    assert not os.path.exists(tree["path"])


def test_a_warning_of_what_an_earlier_task_left(terminal: Terminal) -> None:
    _repository(terminal.cwd)
    first = terminal.run({"tool": "s", "run": "echo b >>a.txt"})
    assert first["outcome"]["left"] == ["a.txt"]
    second = terminal.run({"say": "x"})
    (warning,) = [b for b in bodies(terminal.log(second["session"]), "notice") if b["code"] == "left_behind"]
    assert warning["task"] == first["id"] and "a.txt" in warning["text"]
    _git(terminal.cwd, "commit", "-qam", "second")
    third = terminal.run({"say": "x"})
    assert not [b for b in bodies(terminal.log(third["session"]), "notice") if b["code"] == "left_behind"]


# --- agents


def test_agents_are_listed(terminal: Terminal) -> None:
    terminal.config('[agents.mine]\ncommand = ["/bin/true"]\n[agents.lost]\ncommand = ["/no/such/thing"]\n')
    found = {agent["name"]: agent for agent in terminal.asked("agents")}
    assert found["demo"]["path"] and found["mine"]["path"] == "/bin/true"
    assert found["lost"]["path"] is None and "/no/such/thing" in found["lost"]["problems"][0]
    assert "demo" in terminal.give("agents").stdout


def test_config_says_what_is_in_force_and_from_where(terminal: Terminal) -> None:
    terminal.config(
        "[hub]\nport = 9999\n[run]\nat_once = 2\n"
        '[agents.claude]\nenv = { ANTHROPIC_API_KEY = "sk-1" }\nargs = ["-x"]\n'
    )
    told = {row["name"]: (row["value"], row["source"]) for row in terminal.asked("config")}
    assert told["home"] == (terminal.home.path, "$HOLDFAST_HOME")
    assert told["store"] == (terminal.home.database, "default")
    assert told["run.at_once"] == (2, terminal.home.config)
    assert told["run.permissions"] == ("ask", "default")
    assert told["hub.port"] == (9999, terminal.home.config)
    assert told["agents.claude.args"] == (["-x"], terminal.home.config)
    assert "sk-1" not in terminal.give("config").stdout, "a key is not shown"


@pytest.mark.parametrize(
    "written, said",
    [
        ("[run]\nat_onec = 2", "[run] has no setting 'at_onec' (did you mean 'at_once'?)"),
        ("[run]\nat_once = 'x'", "run.at_once must be a whole number, not text in quotes"),
        ("[agents.claude]\nargs = ['a', 3]", "agents.claude.args[1] must be text in quotes"),
        ("[hub]\nprot = 1", "[hub] has no setting 'prot' (did you mean 'port'?)"),
        ("[runn]\nat_once = 2", "there is nothing called 'runn' (did you mean 'run'?)"),
        ("run = 3", "run must be a table"),
        ("[run", "is not valid TOML"),
    ],
)
def test_a_wrong_config_is_one_line_that_says_what_is_wrong(
    terminal: Terminal, written: str, said: str
) -> None:
    terminal.config(written)
    reader = ("up",) if "[hub]" in written else ("run", "-a", "demo", "x")
    for words in (("config",), reader):
        problem = terminal.give(*words, status=2).stderr
        assert said in problem and len(problem.splitlines()) == 1
