"""A passing shortage costs no prompt, and the hub says what is lacking."""

from __future__ import annotations

import http.client
import os
import resource
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.home import Home
from tests.crash.small_disk import mounted
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, odd, running, started
from tests.support.terminal import HOLDFAST, Terminal

SAY = {"say": "done"}
QUEUED = 3


def until_short(hub: RunningHub, what: str) -> None:
    found = hub.terminal.until(lambda: (told := get(hub, "/healthz"))["status"] == "short" and told)
    assert found["shortage"]["what"] == what


def test_no_prompt_is_lost_while_no_process_can_be_started(home: Home, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.touch()
    with running(home, str(tmp_path / "work"), program=odd("short", str(short))) as hub:
        made = [hub.terminal.detached(SAY) for _ in range(QUEUED)]
        until_short(hub, "processes")
        # More tries than a run that fails in itself is given.
        first = made[0]["session"]
        hub.terminal.until(lambda: len(given_back(hub, first)) > 3)
        assert {task["status"] for task in hub.terminal.tasks()} <= {"queued", "running"}
        short.unlink()
        for one in made:
            ended = hub.terminal.ended(one["task"])
            assert (ended["status"], ended["delivery"]) == ("succeeded", "accepted")
        assert get(hub, "/healthz")["status"] == "ok"


USER = "54321"  # no process of its own runs here; root's processes have no limit


def test_no_prompt_is_lost_while_fork_fails(tmp_path: Path) -> None:
    """The real thing: the kernel refuses every fork and thread of the hub's user, then allows them again."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can start a hub as another user")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(os.path.join(folder, "home"))
        home.make()
        work = os.path.join(folder, "work")
        os.mkdir(work)
        for top, _, names in os.walk(folder):
            for path in (top, *(os.path.join(top, name) for name in names)):
                os.chown(path, int(USER), int(USER))
        user = ("--reuid", USER, "--regid", USER, "--clear-groups")
        # The interpreter may be in root's own folder; this capability lifts no limit on processes.
        reads_all = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
        as_user = ("setpriv", *user, *reads_all, "--")
        terminal = Terminal(home, work, as_user)
        with started(terminal, (*as_user, *HOLDFAST, "up", "--json", "--port", "0")) as hub:
            terminal.run(SAY)
            limit = (*as_user, "prlimit", f"--pid={hub.pid}")  # as the hub's user: root may lack the right
            soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]  # the hub has it from here
            subprocess.run([*limit, "--nproc=0:"], check=True)
            try:
                made = [terminal.detached(SAY) for _ in range(QUEUED)]
                until_short(hub, "processes")
                assert {task["status"] for task in terminal.tasks()} <= {"queued", "running", "succeeded"}
            finally:
                subprocess.run([*limit, f"--nproc={'unlimited' if soft < 0 else soft}:"], check=True)
            for one in made:
                assert terminal.ended(one["task"])["status"] == "succeeded"


def test_a_full_disk_is_told_and_costs_no_prompt(tmp_path: Path) -> None:
    with mounted(str(tmp_path / "disk"), "24m") as disk:
        disk.home.make()
        with running(disk.home, str(tmp_path / "work")) as hub:
            hub.terminal.run(SAY)
            assert get(hub, "/healthz")["status"] == "ok"
            disk.fill()
            until_short(hub, "disk")
            disk.make_room()
            assert hub.terminal.run(SAY)["status"] == "succeeded"
            assert get(hub, "/healthz")["status"] == "ok"


def given_back(hub: RunningHub, session: str) -> list[object]:
    return [e for e in hub.terminal.log(session) if e["body"].get("code") == "not_launched"]


def test_no_prompt_is_lost_while_no_file_can_be_opened(hub: RunningHub) -> None:
    """The real thing: the limit of the running hub is taken down to what it has open, then given back."""
    hub.terminal.run(SAY)
    before = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
    # A connection for each question, and nothing for a launch.
    scarce = len(os.listdir(f"/proc/{hub.pid}/fd")) + 2
    resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (scarce, before[1]))
    try:
        made = hub.terminal.detached(SAY)
        until_short(hub, "files")
        assert hub.terminal.task(made["task"])["status"] in ("queued", "running")
    finally:
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, before)
    assert hub.terminal.ended(made["task"])["status"] == "succeeded"


def test_the_limit_of_open_files_is_raised_at_start(home: Home, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        with running(home, str(tmp_path / "work")) as hub:
            soft, hard = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
            assert soft == hard == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_connections_without_a_token_are_closed_first(hub: RunningHub) -> None:
    place = urlsplit(hub.url)
    assert place.hostname is not None and place.port is not None
    with_token = http.client.HTTPConnection(place.hostname, place.port)
    assert overview(with_token, hub.token) == 200
    kept = with_token.sock
    idle = [socket.create_connection((place.hostname, place.port)) for _ in range(200)]
    try:
        hub.terminal.until(lambda: sum(map(is_closed, idle)) >= 200 - 64)
        assert not is_closed(idle[-1]), "the oldest are closed, the newest stay"
        assert overview(with_token, hub.token) == 200 and with_token.sock is kept
        assert hub.terminal.run(SAY)["status"] == "succeeded"
    finally:
        with_token.close()
        for one in idle:
            one.close()


def overview(connection: http.client.HTTPConnection, token: str) -> int:
    connection.request("GET", "/api/overview", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has closed it."""
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
