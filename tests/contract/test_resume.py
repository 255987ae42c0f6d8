"""Verdicts, dispatch by key and what follows a crash, with the demo agent, as a person sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.spool.task_dir import Spool
from tests.support.terminal import Terminal

GATE = "while [ ! -e gate ]; do sleep 0.05; done"
SAY: dict[str, Any] = {"say": "done"}
DIES: tuple[dict[str, Any], ...] = ({"tool": "shell", "run": "echo half"}, {"die": "KILL"})


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Iterator[Terminal]:
    where = tmp_path / "work"
    where.mkdir()
    made = Terminal(home, str(where))
    yield made
    made.end_all()


def keyed(
    terminal: Terminal, *steps: dict[str, Any], words: tuple[str, ...] = (), status: int = 0
) -> dict[str, Any]:
    return terminal.run(*steps, words=["--key", "k", *words], status=status)


def verdict(terminal: Terminal, name: str = "k") -> tuple[str, list[str]]:
    found = terminal.asked("verdict", name)
    assert set(found) == {"action", "reasons", "session", "token"}
    assert all(set(reason) == {"code", "text", "evidence"} for reason in found["reasons"])
    return found["action"], [reason["code"] for reason in found["reasons"]]


def bodies(terminal: Terminal, session: str, kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in terminal.log(session) if event["kind"] == kind]


def notices(terminal: Terminal, session: str) -> list[str]:
    return [body["code"] for body in bodies(terminal, session, "notice")]


def native(task: dict[str, Any]) -> str:
    return str(task["outcome"]["native_id"])


def transcript(terminal: Terminal, task: dict[str, Any]) -> Path:
    return Path(terminal.home.path) / "demo" / f"{native(task)}.jsonl"


def kill_agent(terminal: Terminal, task: str) -> None:
    ident = terminal.until(lambda: Spool(terminal.home.task(task)).agent())
    os.kill(ident.pid, signal.SIGKILL)


# --- success and interruption


def test_after_a_success_the_same_conversation_is_gone_on_with(terminal: Terminal) -> None:
    first = keyed(terminal, {"tool": "shell", "run": "echo 1"}, SAY)
    assert verdict(terminal) == ("resume", ["sound"])
    second = keyed(terminal, SAY)
    assert (second["session"], native(second)) == (first["session"], native(first))
    assert second["outcome"]["resumed"] is True
    assert notices(terminal, first["session"]) == ["resume_attempt", "resumed"]
    assert verdict(terminal) == ("resume", ["sound"])


def test_after_an_interruption_a_fresh_session_is_told_of_it(terminal: Terminal) -> None:
    keyed(terminal, SAY)
    cut = keyed(terminal, *DIES, status=13)
    action, codes = verdict(terminal)
    assert action == "fresh" and codes[0] == "last_interrupted"
    after = keyed(terminal, {"say": "anew"})
    assert after["session"] != cut["session"] and native(after) != native(cut)
    (warning,) = [b for b in bodies(terminal, after["session"], "notice") if b["code"] == "not_resumed"]
    assert warning["text"].startswith("resume=<none>: ") and cut["id"] in warning["text"]
    (said,) = bodies(terminal, after["session"], "user")
    for word in ("cut short", cut["id"], "echo half: ok", "Check first", after["prompt"]):
        assert word in said["text"], word
    new, old = (terminal.asked("show", one["session"]) for one in (after, cut))
    assert new["session"]["link"] == {"session": cut["session"], "relation": "fresh"}
    assert (old["session"]["state"], old["session"]["key"]) == ("archived", "k")
    assert after["session"] in old["session"]["archive"]["reason"]
    assert [(t["native_id"], t["status"]) for t in old["tokens"]] == [(native(cut), "current")]
    assert verdict(terminal) == ("resume", ["sound"]), "the brief is in the agent's memory as it is in ours"
    assert native(keyed(terminal, SAY)) == native(after)


def test_a_brief_that_never_came_to_an_agent_is_for_the_next_one(terminal: Terminal) -> None:
    cut = keyed(terminal, *DIES, status=13)
    terminal.config('[agents.demo]\ncommand = ["false"]\n')
    failed = keyed(terminal, SAY, status=11)
    terminal.config("")
    assert failed["session"] != cut["session"] and failed["delivery"] == "sent"
    after = keyed(terminal, SAY)
    assert after["session"] == failed["session"], "nothing has happened there yet"
    assert cut["id"] in bodies(terminal, after["session"], "user")[0]["text"]


def test_what_was_asked_first_is_told_also_after_the_second_crash(terminal: Terminal) -> None:
    first = keyed(terminal, *DIES, status=13)
    second = keyed(terminal, {"say": "on"}, *DIES, status=13)
    third = keyed(terminal, SAY)
    (said,) = bodies(terminal, third["session"], "user")
    assert second["prompt"] in said["text"] and f"Asked before that:\n- {first['prompt']}" in said["text"]


def test_a_brief_can_be_left_out(terminal: Terminal) -> None:
    keyed(terminal, *DIES, status=13)
    after = keyed(terminal, SAY, words=("--no-brief",))
    assert [b["text"] for b in bodies(terminal, after["session"], "user")] == [after["prompt"]]
    assert "not_resumed" in notices(terminal, after["session"])


def test_killed_with_holdfast_and_dispatched_again(terminal: Terminal) -> None:
    made = terminal.detached({"tool": "shell", "run": GATE}, words=["--key", "k"])
    terminal.until_event(made["session"], "tool_progress")
    os.kill(terminal.task(made["task"])["owner"]["pid"], signal.SIGKILL)
    kill_agent(terminal, made["task"])
    found = terminal.give("run", "--key", "k", '<<[{"say":"x"}]>>', status=4)
    assert f"while no worker ran, task {made['task']}" in found.stderr and "still runs" in found.stderr
    assert terminal.task(made["task"])["status"] == "interrupted", "settled before it was judged"
    action, codes = verdict(terminal)
    assert action == "wait" and codes[0] == "tools_running"
    (Path(terminal.cwd) / "gate").touch()
    terminal.until(lambda: verdict(terminal)[0] == "fresh")
    after = keyed(terminal, SAY)
    (said,) = bodies(terminal, after["session"], "user")
    assert "What may be half done" in said["text"] and "no process of it runs any more" in said["text"]


def test_a_cancelled_task_makes_the_next_one_fresh_until_it_is_trusted(terminal: Terminal) -> None:
    made = terminal.detached(SAY, {"tool": "shell", "run": GATE}, words=["--key", "k"])
    terminal.until_event(made["session"], "tool_progress")
    terminal.give("cancel", made["task"])
    assert terminal.ended(made["task"])["status"] == "cancelled"
    assert verdict(terminal)[1][0] == "last_cancelled"
    assert "last_cancelled" in terminal.asked_to_fail("resume", "k", "x")["reasons"][0]["code"]
    told = terminal.asked("trust", "k", "--reason", "looked at it")
    assert told["task"] == made["task"]
    assert verdict(terminal) == ("resume", ["trusted"])
    assert keyed(terminal, SAY)["session"] == made["session"]
    terminal.give("trust", "k", status=4)


def test_an_interrupted_session_is_not_trusted_by_hand(terminal: Terminal) -> None:
    keyed(terminal, *DIES, status=13)
    assert "--anyway" in terminal.give("trust", "k", status=4).stderr
    terminal.run(SAY)
    terminal.give("trust", terminal.last()["session"], status=4)


def test_a_prompt_that_was_cancelled_in_the_queue_changed_nothing(terminal: Terminal) -> None:
    first = keyed(terminal, SAY)
    terminal.config("[run]\nat_once = 1\n")
    busy = terminal.detached({"tool": "shell", "run": GATE})
    waits = terminal.detached(SAY, words=["--key", "k"])
    terminal.give("cancel", waits["task"])
    (Path(terminal.cwd) / "gate").touch()
    terminal.ended(busy["task"])
    assert verdict(terminal) == ("resume", ["sound"])
    assert native(keyed(terminal, SAY)) == native(first)


# --- one at a time


def test_while_a_task_of_the_key_runs_another_is_refused_or_queued(terminal: Terminal) -> None:
    first = terminal.detached({"tool": "shell", "run": GATE}, SAY, words=["--key", "k"])
    terminal.until_event(first["session"], "tool_progress")
    assert verdict(terminal) == ("wait", ["task_running"])
    refused = terminal.asked_to_fail("run", "-a", "demo", "--key", "k", "x")
    assert (refused["code"], refused["task"]) == ("session_running", first["task"])
    for how in ((), ("--fresh",), ("--fork",), ("--anyway",)):
        assert terminal.asked_to_fail("resume", "k", "x", *how)["task"] == first["task"]
    second = terminal.detached(SAY, words=["--key", "k", "--queue"])
    assert second["session"] == first["session"]
    (Path(terminal.cwd) / "gate").touch()
    assert terminal.ended(second["task"])["outcome"]["resumed"] is True


def test_what_waits_behind_an_interrupted_task_goes_on_in_a_fresh_session(terminal: Terminal) -> None:
    first = terminal.detached({"tool": "shell", "run": GATE}, words=["--key", "k"])
    terminal.until_event(first["session"], "tool_progress")
    followed = terminal.start("run", "--key", "k", "--queue", '<<[{"say":"first of two"}]>>')
    terminal.until(lambda: len(terminal.tasks()) == 2)
    terminal.detached({"say": "second of two"}, words=["--key", "k", "--queue"])
    kill_agent(terminal, first["task"])
    terminal.until_event(first["session"], "notice", code="waiting")  # for the tool of the dead run
    (Path(terminal.cwd) / "gate").touch()
    out, _ = followed.communicate(timeout=60)
    assert followed.returncode == 0 and "first of two" in out, "who follows it is led there"
    terminal.until(lambda: all(t["status"] not in ("queued", "running") for t in terminal.tasks()))
    fresh = terminal.asked("show", "k")
    assert fresh["session"]["id"] != first["session"]
    assert [t["status"] for t in fresh["tasks"]] == ["succeeded", "succeeded"]
    left = terminal.asked("show", first["session"])["tasks"][1:]
    assert [t["outcome"]["moved_to"]["task"] for t in left] == [t["id"] for t in fresh["tasks"]]
    assert [t["retry_of"] for t in fresh["tasks"]] == [t["id"] for t in left]
    users = bodies(terminal, fresh["session"]["id"], "user")
    assert "cut short" in users[0]["text"] and "cut short" not in users[1]["text"]


def test_who_named_the_session_is_not_led_elsewhere(terminal: Terminal) -> None:
    first = terminal.detached({"tool": "shell", "run": GATE}, words=["--key", "k"])
    terminal.until_event(first["session"], "tool_progress")
    behind = terminal.asked("run", "--session", first["session"], "--detach", '<<[{"say":"x"}]>>')
    (Path(terminal.cwd) / "gate").touch()
    kill_agent(terminal, first["task"])
    refused = terminal.ended(behind["task"])
    assert (refused["status"], refused["delivery"]) == ("failed", "waiting")
    assert refused["outcome"]["code"] == "resume_unsafe" and "interrupted" in refused["reason"]
    assert verdict(terminal)[1][0] == "last_interrupted", "a prompt that was refused changed nothing"


def test_the_same_key_at_once_is_dispatched_once(terminal: Terminal) -> None:
    keyed(terminal, *DIES, status=13)
    words = ["run", "--key", "k", "--detach", "--json", f"<<[{json.dumps({'tool': 's', 'run': GATE})}]>>"]
    started = [terminal.start(*words) for _ in range(4)]
    codes = sorted(one.wait(timeout=60) for one in started)
    for one in started:
        one.communicate()
    (Path(terminal.cwd) / "gate").touch()
    assert codes == [0, 4, 4, 4]
    live = [s for s in terminal.asked("ls") if s["state"] == "live"]
    assert len(live) == 1 and live[0]["key"] == "k"


# --- the agent's store


def cut_in_two(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def tear(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:10]
    path.write_bytes(b"\n".join(lines))


def forget(path: Path) -> None:
    """The last turn, as if it had never been flushed."""
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if b'"type":"prompt"' in line)
    path.write_bytes(b"".join(lines[:last]))


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (Path.unlink, "no_transcript"),
        (lambda path: path.write_bytes(b""), "no_transcript"),
        (cut_in_two, "shrunk"),
        (tear, "bad_line"),
        (forget, "prompt_not_in_history"),
    ],
)
def test_a_store_that_was_spoilt_is_not_gone_on_with(terminal: Terminal, spoil: Any, code: str) -> None:
    keyed(terminal, {"tool": "shell", "run": "echo 1"}, SAY)
    task = keyed(terminal, {"tool": "shell", "run": "echo 2"}, SAY)
    spoil(transcript(terminal, task))
    action, codes = verdict(terminal)
    assert action == "fresh" and code in codes
    after = keyed(terminal, SAY)
    assert native(after) != native(task)
    tokens = terminal.asked("show", task["session"])["tokens"]
    assert [(t["native_id"], t["status"]) for t in tokens] == [(native(task), "current")]


def test_what_the_stream_showed_and_the_store_never_had_is_a_gap(terminal: Terminal) -> None:
    """Without a copy of ours to compare with: only the log knows better."""
    task = keyed(terminal, {"tool": "shell", "run": "echo 1"}, SAY)
    path = transcript(terminal, task)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [line for line in lines if line["type"] not in ("call", "result")]
    for number, line in enumerate(kept):
        line.update({"n": number} if number else {})
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
    subprocess.run(["rm", "-r", os.path.join(terminal.home.path, "native")], check=True)
    assert terminal.asked("inspect", "demo", native(task))["sound"], "by itself it looks sound"
    found = terminal.asked("verdict", "k")
    assert (found["action"], [r["code"] for r in found["reasons"]]) == ("fresh", ["effect_not_in_history"])
    missing = found["reasons"][0]["evidence"]["missing"]
    assert [one["kind"] for one in missing] == ["tool_progress"]


def test_a_conversation_that_is_open_elsewhere_is_waited_for(terminal: Terminal) -> None:
    task = keyed(terminal, SAY)
    with open(transcript(terminal, task), "a") as file:
        holder = subprocess.Popen(["sleep", "60"], stdout=file)
    try:
        found = terminal.asked("verdict", "k")
        assert found["action"] == "wait" and found["reasons"][0]["code"] == "live_owner"
        assert found["reasons"][0]["evidence"]["processes"][0]["pid"] == holder.pid
        refused = terminal.asked_to_fail("run", "--key", "k", "x")
        assert refused["code"] == "session_running" and str(holder.pid) in refused["message"]
    finally:
        holder.kill()
        holder.wait()
    with open(transcript(terminal, task)):
        assert verdict(terminal) == ("resume", ["sound"]), "who only reads it does not hold it"


def test_a_verdict_is_shown_where_a_session_is(terminal: Terminal) -> None:
    task = keyed(terminal, SAY)
    assert "verdict       resume: the last task ended well" in terminal.give("show", "k").stdout
    transcript(terminal, task).unlink()
    assert "verdict       fresh: the agent has no history" in terminal.give("show", "k").stdout


def test_looking_changes_nothing(terminal: Terminal) -> None:
    task = keyed(terminal, *DIES, status=13)
    before = terminal.log(task["session"]), sorted(os.listdir(terminal.home.path))
    for _ in range(2):
        verdict(terminal)
    assert (terminal.log(task["session"]), sorted(os.listdir(terminal.home.path))) == before


# --- the folder


def test_a_folder_that_is_gone_or_on_another_branch(terminal: Terminal) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", terminal.cwd]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    task = keyed(terminal, SAY)
    assert task["outcome"]["branch"] == "main"
    subprocess.run([*git, "switch", "-q", "-c", "topic"], check=True)
    assert verdict(terminal) == ("fresh", ["other_branch"])
    subprocess.run([*git, "switch", "-q", "main"], check=True)
    assert verdict(terminal) == ("resume", ["sound"])
    elsewhere = Path(terminal.cwd).parent / "elsewhere"
    elsewhere.mkdir()
    after = keyed(terminal, SAY, words=("--cwd", str(elsewhere)))
    assert after["session"] != task["session"]
    assert terminal.asked("show", "k")["session"]["cwd"] == str(elsewhere)
    elsewhere.rmdir()
    assert verdict(terminal) == ("fresh", ["folder_gone"])
    assert "--cwd" in terminal.give("run", "--key", "k", "x", status=2).stderr
    assert keyed(terminal, SAY, words=("--cwd", terminal.cwd))["status"] == "succeeded"


def test_the_half_done_work_in_a_worktree_goes_along(terminal: Terminal) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", terminal.cwd]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    where = ("--worktree", "--cwd", terminal.cwd)
    first = keyed(terminal, SAY, words=where)
    assert keyed(terminal, SAY, words=where)["session"] == first["session"], "the same words, the same thread"
    cut = keyed(
        terminal, {"tool": "shell", "run": "echo x > half.txt"}, {"die": "KILL"}, words=where, status=13
    )
    after = keyed(terminal, SAY, words=where)
    old, new = (terminal.asked("show", one["session"])["session"] for one in (cut, after))
    assert old["id"] != new["id"] and old["worktree"] == new["worktree"]
    assert "Untracked: half.txt" in bodies(terminal, new["id"], "user")[0]["text"]
    subprocess.run(["rm", os.path.join(new["worktree"]["path"], "half.txt")], check=True)
    terminal.give("rm", old["id"])
    assert os.path.isdir(new["worktree"]["path"]), "another session works there"
    subprocess.run(["git", "-C", new["worktree"]["path"], "switch", "-q", "-c", "topic"], check=True)
    assert verdict(terminal) == ("fresh", ["other_branch"])
    subprocess.run([*git, "worktree", "remove", "--force", new["worktree"]["path"]], check=True)
    assert verdict(terminal) == ("fresh", ["worktree_gone"])


# --- resume, its ways and its proof


def test_resume_without_a_token_and_against_the_verdict(terminal: Terminal) -> None:
    cut = terminal.run(SAY, *DIES, status=13)
    refused = terminal.asked_to_fail("resume", cut["session"], "x")
    assert refused["code"] == "resume_unsafe" and refused["reasons"][0]["code"] == "last_interrupted"
    assert terminal.asked_to_fail("run", "--session", cut["session"], "x")["code"] == "resume_unsafe"
    terminal.give("resume", cut["session"], "--anyway", '<<[{"say":"all the same"}]>>')
    task = terminal.last()
    assert (task["session"], native(task), task["outcome"]["resumed"]) == (cut["session"], native(cut), True)
    (said,) = [b for b in bodies(terminal, cut["session"], "notice") if b["code"] == "overruled"]
    assert said["by"] and said["action"] == "fresh" and said["reasons"][0]["code"] == "last_interrupted"
    assert verdict(terminal, cut["session"])[0] == "resume", "what had been forgotten by then was accepted"
    terminal.config('[agents.demo]\ncommand = ["false"]\n')
    failed = terminal.run(SAY, status=11)
    terminal.config("")
    assert terminal.asked_to_fail("resume", failed["session"], "x")["code"] == "resume_unavailable"
    assert (
        terminal.asked_to_fail("resume", failed["session"], "x", "--anyway")["code"] == "resume_unavailable"
    )
    assert verdict(terminal, failed["session"]) == ("fresh", ["no_token"])


def test_resume_as_a_copy_and_anew(terminal: Terminal) -> None:
    first = keyed(terminal, {"say": "one"})
    terminal.give("resume", "k", "--fork", '<<[{"say":"on the side"}]>>')
    side = terminal.last()
    shown = terminal.asked("show", side["session"])
    assert native(side) != native(first) and shown["session"]["key"] is None
    assert shown["session"]["link"] == {"session": first["session"], "relation": "fork"}
    assert terminal.asked("show", "k")["session"]["id"] == first["session"], "a branch, for it was sound"
    assert verdict(terminal, side["session"]) == ("resume", ["sound"])
    cut = keyed(terminal, *DIES, status=13)
    assert terminal.asked("verdict", "k", "--fork")["action"] == "fork"
    terminal.give("resume", "k", "--fork", '<<[{"say":"from the last whole turn"}]>>')
    copy = terminal.last()
    assert terminal.asked("show", "k")["session"]["id"] == copy["session"] != cut["session"]
    kept = [json.loads(line) for line in transcript(terminal, copy).read_text().splitlines()]
    asked = [line["text"] for line in kept if line["type"] == "prompt"]
    assert len(asked) == 2 and asked[0] == first["prompt"], "the turn that was cut short is not in it"
    assert "cut short" in asked[1] and asked[1].endswith(copy["prompt"]), "but it is told of it"
    terminal.give("resume", "k", "--fresh", '<<[{"say":"anew"}]>>')
    assert native(terminal.last()) not in (native(copy), native(cut))
    assert notices(terminal, terminal.last()["session"])[0] == "not_resumed"


def test_run_prefers_a_copy_where_it_is_told_to(terminal: Terminal) -> None:
    first = keyed(terminal, {"say": "one"})
    keyed(terminal, *DIES, status=13)
    copy = keyed(terminal, SAY, words=("--fork",))
    assert terminal.asked("show", "k")["session"]["link"] == {"session": first["session"], "relation": "fork"}
    assert "echo half: ok" in bodies(terminal, copy["session"], "user")[0]["text"], "of what it does not have"


def break_loading(terminal: Terminal) -> None:
    """An agent that dies while it loads, and one that begins anew instead."""
    terminal.config('[agents.demo]\ncommand = ["sh", "-c", "read x; exit 7"]\n')


def test_a_death_while_loading_is_an_attempt_and_twice_is_enough(terminal: Terminal) -> None:
    first = keyed(terminal, SAY)
    break_loading(terminal)
    for code in ("sound", "last_not_started"):
        assert verdict(terminal) == ("resume", [code]), "until then nothing else has changed"
        failed = keyed(terminal, SAY, status=11)
        assert failed["session"] == first["session"] and failed["outcome"]["resumed"] is False
        tokens = terminal.asked("show", "k")["tokens"]
        assert [(t["native_id"], t["status"]) for t in tokens] == [(native(first), "current")]
    terminal.config("")
    found = terminal.asked("verdict", "k")
    assert (found["action"], found["reasons"][0]["code"]) == ("fresh", "resume_failed")
    assert len(found["reasons"][0]["evidence"]["failures"]) == 2
    assert keyed(terminal, SAY)["session"] != first["session"]


def test_killed_again_and_again_while_loading(terminal: Terminal) -> None:
    first = keyed(terminal, SAY)
    flag = Path(terminal.cwd) / "well"
    script = f'if [ -e {flag} ]; then exec "$0" -P -m holdfast.demo; fi; read x; kill -9 $$'
    python = json.dumps(os.path.realpath("/proc/self/exe"))
    terminal.config(f'[agents.demo]\ncommand = ["sh", "-c", {json.dumps(script)}, {python}]\n')
    made = terminal.detached(SAY, words=["--key", "k"])
    moved = terminal.ended(made["task"])
    assert made["session"] == first["session"] and "moved_to" in moved["outcome"]
    assert notices(terminal, first["session"]).count("given_back") == 2, "the third begins anew"
    tokens = terminal.asked("show", first["session"])["tokens"]
    assert [(t["native_id"], t["status"]) for t in tokens] == [(native(first), "current")]


# --- after a crash


def test_interrupted_tasks_are_run_once_more_each_by_its_verdict(terminal: Terminal) -> None:
    assert terminal.asked("redispatch", "--interrupted", status=16) == {"redispatched": [], "skipped": []}
    gate = {"tool": "shell", "run": GATE}
    cut = [
        terminal.detached(gate, SAY, words=["--key", "a"]),
        terminal.detached(gate, SAY, words=["--key", "b"]),
        terminal.detached(gate, SAY),
    ]
    for one in cut:
        terminal.until_event(one["session"], "tool_progress")
        kill_agent(terminal, one["task"])
        assert terminal.ended(one["task"])["status"] == "interrupted"
    skipped = terminal.asked("redispatch", "--interrupted", "--key", "a", status=16)["skipped"]
    assert [one["task"] for one in skipped] == [cut[0]["task"]] and "still runs" in skipped[0]["message"]
    (Path(terminal.cwd) / "gate").touch()
    terminal.until(lambda: verdict(terminal, "a")[0] == "fresh" and verdict(terminal, "b")[0] == "fresh")
    only = terminal.asked("redispatch", "--interrupted", "--key", "a")["redispatched"]
    assert [one["of"] for one in only] == [cut[0]["task"]]
    terminal.until(lambda: verdict(terminal, cut[2]["session"])[0] == "fresh")
    rest = terminal.asked("redispatch", "--interrupted")
    assert [one["of"] for one in rest["redispatched"]] == [cut[1]["task"], cut[2]["task"]]
    assert terminal.asked("redispatch", "--interrupted", status=16) == {"redispatched": [], "skipped": []}
    for one in (*only, *rest["redispatched"]):
        task = terminal.ended(one["task"])
        assert (task["status"], task["retry_of"]) == ("succeeded", one["of"])
        assert "cut short" in bodies(terminal, one["session"], "user")[0]["text"]


def test_a_task_that_must_wait_is_run_again_when_its_session_is_free(terminal: Terminal) -> None:
    gate = {"tool": "shell", "run": GATE}
    keyed_, other = terminal.detached(gate, SAY, words=["--key", "a"]), terminal.detached(gate, SAY)
    for one in (keyed_, other):
        terminal.until_event(one["session"], "tool_progress")
        kill_agent(terminal, one["task"])
        assert terminal.ended(one["task"])["status"] == "interrupted"
    refused = terminal.asked("redispatch", "--interrupted", status=16)
    assert (
        refused["redispatched"] == []
        and ["--wait" in one["hint"] for one in refused["skipped"]] == [True] * 2
    )
    made = terminal.asked("redispatch", "--interrupted", "--wait")
    assert (
        made["skipped"] == []
        and ["still runs" in one["waits_for"] for one in made["redispatched"]] == [True] * 2
    )
    nothing: dict[str, list[str]] = {"redispatched": [], "skipped": []}
    assert terminal.asked("redispatch", "--interrupted", "--wait", status=16) == nothing
    (Path(terminal.cwd) / "gate").touch()
    for one in made["redispatched"]:
        task = terminal.ended(one["task"])
        assert task["status"] == "cancelled" and "moved_to" in task["outcome"], task
        moved = terminal.ended(task["outcome"]["moved_to"]["task"])
        assert moved["status"] == "succeeded" and moved["session"] != one["session"]


def test_an_imported_session_is_gone_on_with_when_it_is_sound(terminal: Terminal, tmp_path: Path) -> None:
    task = terminal.run({"tool": "shell", "run": "echo 1"}, SAY)
    other = Terminal(Home(str(tmp_path / "other")), terminal.cwd)
    other.env["HOLDFAST_DEMO_HOME"] = terminal.env["HOLDFAST_DEMO_HOME"]
    (adopted,) = other.asked("import", "demo")["adopted"]
    assert verdict(other, adopted["session"]) == ("resume", ["adopted_sound"])
    other.give("resume", adopted["session"], '<<[{"say":"on"}]>>')
    assert native(other.last()) == native(task)
    assert verdict(terminal, task["session"]) == ("resume", ["sound"]), "what it did elsewhere is replayed"


# --- sessions that another program ran


def import_elsewhere(terminal: Terminal, tmp_path: Path) -> tuple[Terminal, str]:
    """Another home that imports the one conversation of this one."""
    other = Terminal(Home(str(tmp_path / "other")), terminal.cwd)
    other.env["HOLDFAST_DEMO_HOME"] = terminal.env["HOLDFAST_DEMO_HOME"]
    (adopted,) = other.asked("import", "demo")["adopted"]
    return other, adopted["session"]


def test_an_imported_session_that_was_cut_short_gets_a_brief(terminal: Terminal, tmp_path: Path) -> None:
    first = terminal.run(SAY)
    cut = terminal.run(*DIES, words=["--session", first["session"]], status=13)
    other, adopted = import_elsewhere(terminal, tmp_path)
    action, codes = verdict(other, adopted)
    assert action == "fresh" and "adopted_sound" not in codes
    other.give("resume", adopted, "--fresh", '<<[{"say":"again"}]>>')
    text = bodies(other, other.last()["session"], "user")[0]["text"]
    for words in ("cut short", adopted, "echo half: ok", "another program", f"> {cut['prompt']}"):
        assert words in text, (words, text)
    assert f"Asked before that:\n- {first['prompt']}" in text and text.endswith(other.last()["prompt"])
    assert other.last()["status"] == "succeeded"


def test_an_imported_session_that_a_person_stopped_is_not_resumed(terminal: Terminal, tmp_path: Path) -> None:
    made = terminal.detached(SAY, {"tool": "shell", "run": GATE})
    terminal.until_event(made["session"], "tool_progress")
    terminal.give("cancel", made["task"])
    assert terminal.ended(made["task"])["status"] == "cancelled"
    (Path(terminal.cwd) / "gate").touch()
    other, adopted = import_elsewhere(terminal, tmp_path)
    found = other.asked("verdict", adopted)
    assert found["action"] == "fresh" and "stopped by a person" in found["reasons"][0]["text"], found


# --- why it is safe


@pytest.mark.parametrize("stop", ["refusal", "max_tokens", "max_turn_requests"])
def test_a_turn_that_did_not_succeed_is_never_called_a_success(terminal: Terminal, stop: str) -> None:
    failed = keyed(terminal, SAY, {"stop": stop}, status=11)
    found = terminal.asked("verdict", "k")
    (reason,) = found["reasons"]
    assert (
        reason["code"] in ("failed_with_answer", "last_failed") and reason["evidence"]["task"] == failed["id"]
    )
    assert stop in reason["text"] and "ended well" not in reason["text"]
    assert found["action"] == ("resume" if reason["code"] == "failed_with_answer" else "fresh")
    if found["action"] == "resume":
        assert "It is safe to resume: the agent ended its turn with an answer" in reason["text"]


def test_a_launch_that_failed_is_told(terminal: Terminal) -> None:
    first = keyed(terminal, SAY)
    terminal.config('[agents.demo]\ncommand = ["false"]\n')
    failed = keyed(terminal, SAY, status=11)
    terminal.config("")
    found = terminal.asked("verdict", "k")
    (reason,) = found["reasons"]
    assert (found["action"], reason["code"]) == ("resume", "last_not_started")
    assert failed["id"] in reason["text"] and "It changed nothing" in reason["text"]
    assert reason["evidence"]["before"] == first["id"]


# --- the way back to an archived conversation


def fresh_start(terminal: Terminal) -> tuple[dict[str, Any], dict[str, Any]]:
    """An interrupted session that is archived, and the fresh one that has its key."""
    keyed(terminal, SAY)
    cut = keyed(terminal, *DIES, status=13)
    return cut, keyed(terminal, {"say": "anew"})


def test_an_archived_session_takes_its_key_back(terminal: Terminal) -> None:
    cut, after = fresh_start(terminal)
    old, new = cut["session"], after["session"]
    found = terminal.asked("verdict", old)
    assert found["action"] == "fresh" and found["reasons"][-1]["code"] == "archived"
    command = f"`holdfast resume {old} --anyway` brings it back and takes the key k back from session {new}"
    assert command in found["reasons"][-1]["text"] and found["reasons"][-1]["evidence"]["holder"] == new
    for words in (["resume", old, "x"], ["resume", old, "x", "--fresh"], ["run", "--session", old, "x"]):
        refused = terminal.asked_to_fail(*words)
        assert refused["code"] == "illegal_change" and command in refused["hint"], refused
    assert f"`holdfast resume {old} --anyway`" in terminal.asked_to_fail("unarchive", old)["hint"]
    terminal.give("resume", old, "--anyway", '<<[{"say":"back"}]>>')
    task = terminal.last()
    assert (task["session"], native(task), task["outcome"]["resumed"]) == (old, native(cut), True)
    back, away = (terminal.asked("show", session)["session"] for session in (old, new))
    assert (back["state"], back["key"], away["state"]) == ("live", "k", "archived")
    assert old in away["archive"]["reason"] and "took the key k back" in away["archive"]["reason"]
    (noted,) = [b for b in bodies(terminal, old, "notice") if b["code"] == "key_taken_back"]
    assert (noted["session"], noted["key"]) == (new, "k") and noted["by"] == away["archive"]["by"]
    assert keyed(terminal, SAY)["session"] == old, "the thread continues there"


def test_an_archived_session_is_forked_without_the_key(terminal: Terminal) -> None:
    cut, after = fresh_start(terminal)
    old = cut["session"]
    assert f"`holdfast resume {old} --fork`" in terminal.asked("verdict", old)["reasons"][-1]["text"]
    terminal.give("resume", old, "--fork", '<<[{"say":"a copy"}]>>')
    copy = terminal.asked("show", terminal.last()["session"])["session"]
    assert copy["link"] == {"session": old, "relation": "fork"} and copy["key"] is None
    assert terminal.asked("show", old)["session"]["state"] == "archived"
    assert terminal.asked("show", "k")["session"]["id"] == after["session"]


def test_a_key_is_not_taken_from_a_session_that_works(terminal: Terminal) -> None:
    cut, _ = fresh_start(terminal)
    running = terminal.detached({"tool": "shell", "run": GATE}, SAY, words=["--key", "k"])
    terminal.until_event(running["session"], "tool_progress")
    refused = terminal.asked_to_fail("resume", cut["session"], "--anyway", "x")
    assert refused["code"] == "session_running" and running["task"] in refused["hint"]
    assert terminal.asked("show", cut["session"])["session"]["state"] == "archived"
    (Path(terminal.cwd) / "gate").touch()
    assert terminal.ended(running["task"])["status"] == "succeeded"


def test_a_session_that_was_archived_by_hand_comes_back(terminal: Terminal) -> None:
    first = keyed(terminal, SAY)
    terminal.give("archive", "k", "--reason", "done")
    found = terminal.asked("verdict", first["session"])
    assert [reason["code"] for reason in found["reasons"]] == ["sound", "archived"]
    assert "takes the key" not in found["reasons"][-1]["text"]
    terminal.give("resume", first["session"], "--anyway", '<<[{"say":"on"}]>>')
    assert terminal.asked("show", "k")["session"]["id"] == first["session"]
    assert "overruled" not in notices(terminal, first["session"]), "nothing was against it"
