"""Commands that operate a hub: status, open, down, service; and the agent that is meant by default."""

from __future__ import annotations

import os
import plistlib
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli import service_unit
from holdfast.home import Home
from tests.contract.test_doctor import on_a_screen
from tests.support import system_packages
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(home: Home, tmp_path: Path) -> Iterator[Terminal]:
    work = tmp_path / "work"
    work.mkdir()
    made = Terminal(home, str(work))
    made.env |= {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    made.env.pop("XDG_CONFIG_HOME", None)
    (tmp_path / "bin").mkdir()
    yield made
    made.end_all()


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """A process that does not outlive a test that fails."""
    with process:
        try:
            yield
        finally:
            process.kill()


def program(terminal: Terminal, name: str, script: str) -> Path:
    path = Path(terminal.env["HOME"]) / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_status_open_and_down_of_a_hub(terminal: Terminal) -> None:
    told = terminal.give("status").stdout
    assert "not running; `holdfast up` starts it" in told and "needs you  nothing" in told
    assert terminal.asked_to_fail("open", status=9)["code"] == "hub_gone"
    assert terminal.asked("down") == {"stopped": None}
    hub = terminal.start("up", "--port", "0")
    assert hub.stdout is not None
    with ending(hub):
        address = hub.stdout.readline().strip()
        made = terminal.detached({"tool": "shell", "run": "true", "ask": True}, words=["--key", "k"])
        terminal.until_event(made["session"], "permission", answer=None)
        found = terminal.asked("status")
        assert found["hub"]["pid"] == hub.pid and found["hub"]["url"] in address
        assert found["tasks"] == {"running": 1}
        (need,) = found["needs_you"]
        assert (need["what"], need["task"]) == ("asks", made["task"])
        assert need["command"] == f"holdfast answer {made['task']} allow|deny"
        assert all(len(line) <= 80 or str(terminal.home.path) in line for line in told.splitlines())
        assert terminal.give("open").stdout.strip() == address, "no screen: the address is printed"
        opened = program(terminal, "browser", 'echo "$1" > "$HOME/opened"')
        terminal.env["BROWSER"] = f"{opened} %s"
        assert "in your browser" in terminal.give("open").stdout
        url = terminal.until(lambda: (p := Path(terminal.env["HOME"], "opened")).exists() and p.read_text())
        assert "?code=" in url and found["hub"]["url"].rpartition(":")[2] in url
        assert address.partition("token=")[2] not in url, "the token is on no command line"
        assert terminal.asked("down") == {"stopped": hub.pid}
        assert hub.wait(60) == 0
    assert terminal.task(made["task"])["status"] == "running", "the agent keeps running"
    terminal.give("cancel", "k", "--now")


def test_a_service_is_installed_shown_and_removed(terminal: Terminal) -> None:
    program(terminal, "systemctl", 'echo "$@" >> "$HOME/calls"')
    unit = Path(terminal.env["HOME"]) / ".config/systemd/user/holdfast.service"
    assert terminal.asked("service", "status")["installed"] is False
    terminal.give("service", "uninstall", status=3)
    told = terminal.give("service", "install").stdout
    assert str(unit) in told and "holdfast open" in told
    text = unit.read_text()
    assert "KillMode=process" in text and f"Environment=HOLDFAST_HOME={terminal.home.path}" in text
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    path = f"{os.environ['PATH']}:{system_packages.FOLDER / 'bin'}"
    env = {**os.environ, "PATH": path, "HOME": terminal.env["HOME"], "XDG_RUNTIME_DIR": terminal.env["HOME"]}
    words = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert terminal.asked("service", "status")["installed"] is True
    terminal.give("service", "install", "--no-start")
    terminal.give("service", "uninstall")
    assert not unit.exists()
    assert (Path(terminal.env["HOME"]) / "calls").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now holdfast.service",
        "--user disable --now holdfast.service",
    ]


def test_a_service_manager_that_is_missing_or_refuses_is_one_line(terminal: Terminal) -> None:
    program(terminal, "systemctl", "echo 'no bus' >&2; exit 1")
    told = terminal.give("service", "install", status=1).stderr
    assert "`systemctl --user daemon-reload` failed: no bus" in told and told.count("\n") == 1


def test_the_launchd_agent_keeps_agents_alive() -> None:
    found = plistlib.loads(service_unit.plist(["python", "-m", "holdfast", "up"], {"PATH": "/bin"}, "/log"))
    assert found["AbandonProcessGroup"] is True and found["ProgramArguments"][-1] == "up"


@pytest.mark.parametrize(
    ("word", "quoted"),
    [("/usr/bin/python3", "/usr/bin/python3"), ("a b", '"a b"'), ("50%", '"50%%"'), ('a"$b', '"a\\"$$b"')],
)
def test_words_of_a_unit_are_taken_literally(word: str, quoted: str) -> None:
    assert f"ExecStart={quoted}\n" in service_unit.unit([word], {})


def test_the_default_agent_is_the_configured_or_the_only_one(terminal: Terminal) -> None:
    assert "which agent?" in terminal.give("run", "x", status=2).stderr
    terminal.config('[run]\nagent = "demo"\n')
    done = terminal.give("run", 'x <<[{"say":"hello"}]>>')
    assert "hello" in done.stdout and "nothing left running" in done.stderr.splitlines()[-1]
    terminal.config('[agents.mine]\ncommand = ["/bin/false"]\n')
    terminal.give("run", "x", status=11)
    assert terminal.asked("ls")[0]["agent"] == "mine"
    terminal.config('[agents.mine]\ncommand = ["/bin/false"]\n[agents.yours]\ncommand = ["/bin/true"]\n')
    assert "installed: mine, yours" in terminal.give("run", "x", status=2).stderr


def test_lists_fit_80_columns_and_cut_no_word(terminal: Terminal) -> None:
    prompt = "Investigate the intermittent failure of the upload test on slow machines"
    key = "forgejo:dev:somebody/some-repository:1104"
    terminal.give("run", "-a", "demo", "--key", key, f'{prompt} <<[{{"say":"ok"}}]>>')
    session, task = terminal.asked("ls")[0]["id"], terminal.last()["id"]
    for command, name in (("ls", session), ("tasks", task)):
        screen, status = on_a_screen(terminal, command, columns=80)
        assert status == 0 and all(len(line) <= 80 for line in screen.replace("\r", "").split("\n"))
        assert name in screen
        for word in ("Investigate", "intermittent", "failure"):
            assert word in screen, screen
