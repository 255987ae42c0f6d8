"""Commands on a home whose hub runs: it does what they ask; when it dies, they go on without it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.client import discovery
from holdfast.home import Home
from holdfast.process import identity
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, running, script
from tests.support.terminal import Terminal


@pytest.fixture
def hub(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    with running(home, str(tmp_path / "work")) as found:
        yield found


def owner(task: dict[str, Any]) -> int:
    found: int = task["options"]["worker"]["pid"]
    return found


def test_a_prompt_is_run_by_the_hub_where_the_person_is(hub: RunningHub) -> None:
    task = hub.terminal.run({"tool": "shell", "run": "pwd"}, {"say": "done"})
    assert task["status"] == "succeeded" and owner(task) == hub.pid
    assert hub.client().session(task["session"])["cwd"] == os.path.realpath(hub.terminal.cwd)
    alone = hub.terminal.run({"say": "here"}, words=["--no-hub"])
    assert owner(alone) != hub.pid


@pytest.mark.parametrize("is_up", [True, False])
def test_who_gives_no_reason_did_it_by_hand(hub: RunningHub, is_up: bool) -> None:
    session = hub.terminal.run({"say": "x"})["session"]
    if not is_up:
        hub.kill()
    assert hub.terminal.asked("archive", session)["archive"]["reason"] == "by hand"
    assert hub.terminal.asked("unarchive", session)["state"] == "live"
    assert hub.terminal.asked("archive", session, "--reason", "")["archive"]["reason"] == ""
    hub.terminal.asked("unarchive", session)
    assert hub.terminal.asked("rm", session)["deletion"]["reason"] == "by hand"
    assert hub.terminal.asked("restore", session)["state"] == "live"


def test_all_that_changes_something_goes_through_it(hub: RunningHub) -> None:
    terminal = hub.terminal
    made = terminal.detached({"tool": "shell", "run": "true", "ask": True}, words=["--key", "k"])
    terminal.until_event(made["session"], "permission", answer=None)
    (asked,) = get(hub, "/api/permissions")["permissions"]
    assert (asked["session"], asked["task"], asked["name"]) == (made["session"], made["task"], "shell")
    assert asked["input"] == {"command": "true"}
    refused = terminal.asked_to_fail("run", "-a", "demo", "--key", "k", "more")
    assert (refused["code"], refused["task"]) == ("session_running", made["task"])
    (answered,) = terminal.asked("answer", made["task"], "deny")
    assert answered["answer"] == "deny" and get(hub, "/api/permissions") == {"permissions": []}
    terminal.ended(made["task"])
    terminal.give("resume", "k", "go on", status=0)
    long = terminal.detached({"hang": True}, words=["--key", "k2"])
    terminal.until(lambda: terminal.task(long["task"])["status"] == "running")
    assert terminal.asked("cancel", long["task"], "--now")["task"] == long["task"]
    assert terminal.ended(long["task"])["status"] == "cancelled"
    trusted = terminal.asked("trust", "k2", "--reason", "seen")
    assert (trusted["task"], trusted["reason"]) == (long["task"], "seen")
    assert terminal.asked("redispatch", "--interrupted", status=16) == {"redispatched": [], "skipped": []}
    assert terminal.asked("archive", made["session"])["state"] == "archived"
    assert terminal.asked("unarchive", made["session"])["state"] == "live"
    assert terminal.asked("rm", made["session"])["state"] == "deleted"
    assert terminal.asked("restore", made["session"])["state"] == "live"
    assert terminal.asked_to_fail("archive", "nothing", status=3)["code"] == "not_found"
    assert terminal.worker_log() == ""  # nobody else has worked here


def test_the_client_speaks_the_whole_of_it(hub: RunningHub) -> None:
    client = hub.client()
    made = client.dispatch(script({"say": "hello"}), agent="demo", cwd=hub.terminal.cwd)
    seen = []
    for message in client.stream(made["session"]):
        if message.name == "event":
            seen.append(message.data["event"])
            if seen[-1]["kind"] == "task" and seen[-1]["body"].get("status") == "succeeded":
                break
    assert seen == list(client.events(made["session"]))[: len(seen)]
    assert client.verdict(made["session"])["action"] == "resume"
    assert client.task(made["task"])["status"] == "succeeded"
    header = client.session(made["session"])
    changed = client.patch(made["session"], header["version"], {"mine": 1})
    assert changed["metadata"] == {"mine": 1}
    with pytest.raises(errors.VersionMismatch):
        client.patch(made["session"], header["version"], {"mine": 2})
    with pytest.raises(errors.NotFound):
        client.session("s" + "0" * 15)
    again = client.dispatch(script({"say": "hello"}), agent="demo", task=made["task"])
    assert again == made


class Deaf:
    """A hub that hears a request, tells it to `heard`, and dies without an answer."""

    def __init__(self, home: Home, heard: Any):
        self._socket = socket.create_server(("127.0.0.1", 0))
        me = identity.me("here")
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        note = {"pid": me.pid, "started": me.started, "boot": me.boot, "url": url}
        with open(discovery.hub_file_path(home), "w") as file:
            json.dump(note, file)
        with open(discovery.token_path(home), "w") as file:
            file.write("x" * 32)
        self._home, self._heard = home, heard
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        line, _ = self._socket.accept()
        said = b""
        while b"\r\n\r\n" not in said or not said.rstrip().endswith(b"}"):
            said += line.recv(65536)
        os.unlink(discovery.hub_file_path(self._home))  # it is gone by now
        self._heard(json.loads(said.partition(b"\r\n\r\n")[2]))
        line.close()

    def close(self) -> None:
        self._thread.join(60)
        self._socket.close()


@pytest.mark.parametrize("took", [True, False])
def test_a_hub_that_dies_before_it_answers_doubles_nothing(home: Home, tmp_path: Path, took: bool) -> None:
    """Whether it has queued the prompt or not, there is one task, and the command follows it."""
    terminal = Terminal(home, str(tmp_path))
    terminal.give("init")
    heard: list[dict[str, Any]] = []

    def hear(body: dict[str, Any]) -> None:
        heard.append(body)
        if took:  # as the dead hub did: the same id, through the same store
            wish = {key: body[key] for key in ("prompt", "agent", "task")}
            code = (
                "import sys, json, os; from holdfast.cli import background; from holdfast.home import Home;"
                "from holdfast.store.location import locate; home = Home(os.environ['HOLDFAST_HOME']);"
                "background.start(home, locate(home), {'wish': 'prompt', **json.loads(sys.argv[1])}, 'x')"
            )
            subprocess.run(
                [sys.executable, "-c", code, json.dumps(wish)],
                env=terminal.env,
                cwd=str(tmp_path),
                check=True,
            )

    deaf = Deaf(home, hear)
    try:
        task = terminal.run({"say": "once"})
        assert task["id"] == heard[0]["task"] and task["status"] == "succeeded"
        assert len(terminal.tasks()) == 1
    finally:
        deaf.close()
        terminal.end_all()
