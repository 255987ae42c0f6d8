"""One folder, one agent: what it is given, what is recorded, and who is first."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import durable_io
from holdfast.process import identity, table
from holdfast.spool import task_dir
from holdfast.spool.outbox import Outbox, close_input
from holdfast.spool.task_dir import Spool
from tests.crash.children import environment
from tests.crash.spool_support import SYSTEM_PATH, content, gone, running, until

SHELLS = [path for path in ("/bin/sh", "/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(path)]


@pytest.fixture(params=[path for path in SHELLS if not path.endswith("busybox")])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every shell here that may be somebody's sh runs the shim."""
    monkeypatch.setattr(task_dir, "SHELL", request.param)
    return str(request.param)


def test_a_new_folder_is_for_us_alone_and_whole(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "tasks" / "t"))
    spool.make({"argv": ["a", "ü"]})
    assert stat.S_IMODE(os.stat(spool.path).st_mode) == 0o700
    for name in os.listdir(spool.path):
        assert stat.S_IMODE(os.stat(os.path.join(spool.path, name)).st_mode) == 0o600, name
    assert stat.S_ISFIFO(os.stat(spool.stdin).st_mode)
    assert [content(path) for path in (spool.sent, spool.stdout, spool.stderr)] == [b"", b"", b""]
    assert spool.launch() == {"argv": ["a", "ü"], "boot": identity.boot_id()}
    assert (spool.shim(), spool.agent(), spool.relay(), spool.exit_status()) == (None, None, None, None)
    with pytest.raises(FileExistsError):
        spool.make({"argv": ["b"]})
    assert spool.launch()["argv"] == ["a", "ü"]


@pytest.mark.parametrize("made", range(6))
def test_a_making_that_was_cut_short_is_done_again(
    tmp_path: Path, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(str(tmp_path / "t"))
    assert spool.launch() == {}

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(durable_io, "create", cut)
        with pytest.raises(KeyboardInterrupt):
            spool.make({"n": 1})
    for path in [spool.exit_part, spool.stderr, spool.stdout, spool.sent, spool.stdin][: 5 - made]:
        os.unlink(path)
    assert spool.launch() == {}
    spool.make({"n": 2})
    assert spool.launch()["n"] == 2
    assert stat.S_ISFIFO(os.stat(spool.stdin).st_mode)


def test_the_agent_gets_its_words_and_nothing_else(tmp_path: Path, shell: str) -> None:
    """Arguments byte for byte, the environment given, its cwd, three descriptors, a session of its own."""
    words = ["", "a b", "'\"`$(x)\\", "*", "-n", "new\nline", "ü", "--", "$HOME", "\t"]
    program = (
        "import json, os, sys\n"
        "fds = [f for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]\n"
        "print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sorted(fds), os.getpid(),"
        " os.getsid(0), os.getppid()]))"
    )
    place = tmp_path / "a 'place'"
    place.mkdir()
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        with running(str(tmp_path / "with space")) as run:
            spool = run.start(sys.executable, "-c", program, *words, cwd=str(place))
            assert run.ended() == 0, content(spool.stderr)
            got = json.loads(content(spool.stdout))
            shim, agent = spool.shim(), spool.agent()
            assert shim is not None
            assert agent is not None
            assert got[0] == words
            shells_own = {"_", "SHLVL", "LC_CTYPE"}  # of bash; of Python
            expected = {**run.env(), "PWD": str(place)}
            assert {k: v for k, v in got[1].items() if k not in shells_own} == expected
            assert got[2] == str(place)
            assert got[3] == ["0", "1", "2"]
            assert (got[4], got[5], got[6]) == (agent.pid, shim.pid, shim.pid)
            assert content(spool.stderr) == b""
    finally:
        os.close(extra)


@pytest.mark.parametrize("listens", [True, False])
def test_what_cannot_be_started_ends_with_127_and_a_reason(tmp_path: Path, shell: str, listens: bool) -> None:
    with running(str(tmp_path)) as run:
        spool = run.start("/none/such-agent", listens=listens)
        assert run.ended() == 127
        assert "such-agent" in spool.stderr_tail(500)
        until(lambda: not run.left(), "the shim to go")


def test_a_cwd_that_is_gone_ends_with_127_and_a_reason(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        spool = run.start("true", cwd=str(tmp_path / "gone"))
        assert run.ended() == 127
        assert "gone" in spool.stderr_tail(500)


@pytest.mark.parametrize(
    "script, status", [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("kill -INT $$", 130)]
)
def test_the_exit_status_is_recorded_with_nothing_of_ours_on_stderr(
    tmp_path: Path, shell: str, script: str, status: int
) -> None:
    with running(str(tmp_path)) as run:
        spool = run.start("sh", "-c", script)
        assert run.ended() == status
        assert content(spool.stderr) == b""
        assert not os.path.exists(spool.exit_part)
        until(lambda: not run.left(), "the relay to go")


def test_an_agent_that_does_not_listen_has_an_empty_stdin(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        spool = run.start("sh", "-c", "cat; readlink /proc/self/fd/0", listens=False)
        assert run.ended() == 0
        assert content(spool.stdout) == b"/dev/null\n"
        assert spool.relay() is None


def test_the_whole_stdin_of_an_agent_that_does_not_listen_comes_from_a_file_and_ends(
    tmp_path: Path, shell: str
) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({}, b"the prompt\nin two lines")
        run.shim = run.spool.start(
            ("sh", "-c", "cat; echo; tr '\\0' ' ' </proc/$PPID/cmdline"), run.env(), "/", False
        )
        assert run.ended() == 0
        said = content(run.spool.stdout)
        assert said.startswith(b"the prompt\nin two lines\n") and said.count(b"the prompt") == 1


def test_lines_sent_before_and_after_the_start_arrive_and_the_end_too(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({})
        box = Outbox(run.spool.sent)
        box.send(b"before\n")
        run.shim = run.spool.start(["cat"], run.env(), "/", True)
        until(lambda: content(run.spool.stdout) == b"before\n", "the first line")
        box.send(b"after\n")
        until(lambda: content(run.spool.stdout) == b"before\nafter\n", "the second line")
        relay = run.spool.relay()
        assert relay is not None
        assert close_input(run.spool) == relay
        close_input(run.spool)
        assert run.ended() == 0
        assert gone(relay)
        assert close_input(run.spool) is None


def test_a_relay_that_cannot_start_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_dir, "_python", lambda: "/none/python")
    with running(str(tmp_path)) as run:
        spool = run.start("cat")
        assert run.ended() == 0
        assert content(spool.stdout) == b""


def test_input_closed_before_the_relay_is_there_is_closed(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({})
        assert close_input(run.spool) is None
        assert close_input(run.spool) is None
        run.shim = run.spool.start(["cat"], run.env(), "/", True)
        assert run.ended() == 0


def test_a_relay_that_is_gone_is_not_killed_again_by_the_shim(tmp_path: Path, shell: str) -> None:
    """The agent goes on after its input was ended; the relay's pid may be another's by then."""
    with running(str(tmp_path)) as run:
        spool = run.start("sh", "-c", "cat; echo on; sleep 0.1; exit 4")
        until(lambda: spool.relay() is not None)
        close_input(spool)
        assert run.ended() == 4
        assert content(spool.stdout) == b"on\n"


def test_where_there_is_no_proc_the_pid_alone_is_recorded(tmp_path: Path) -> None:
    """What has the pid now is meant only if it is older than the record."""
    spool = Spool(str(tmp_path / "t"))
    spool.make({})
    with open(spool.agent_file, "w") as file:
        file.write(f"{os.getpid()}\n")
    me = identity.me("here")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(identity, "started", lambda _: os.stat(spool.agent_file).st_mtime - 5)
        found = spool.agent()
        assert found is not None
        assert found.pid == me.pid
        assert found.started == os.stat(spool.agent_file).st_mtime - 5
        patch.setattr(identity, "started", lambda _: os.stat(spool.agent_file).st_mtime + 5)
        found = spool.agent()
        assert found is not None
        assert found.started == -1.0


@pytest.mark.parametrize("line", [b"", b"12 (sh) S 1", b"prevented\n", b"x\n"])
def test_a_record_that_was_cut_short_names_nobody(tmp_path: Path, line: bytes) -> None:
    spool = Spool(str(tmp_path / "t"))
    spool.make({})
    for path in (spool.shim_file, spool.agent_file, spool.relay_file):
        with open(path, "wb") as file:
            file.write(line)
    assert (spool.shim(), spool.agent(), spool.relay()) == (None, None, None)


def test_a_prevented_shim_ends_at_once(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({})
        assert run.spool.prevent()
        assert not run.spool.prevent()
        run.shim = run.spool.start(["sh", "-c", "echo ran"], run.env(), "/", True)
        assert run.shim.wait(20) == 125
        assert content(run.spool.stdout) == content(run.spool.stderr) == b""
        assert run.spool.exit_status() is None
        assert run.spool.shim() is None
        assert not run.left()


def test_a_prevented_agent_does_not_run(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        run.spool.make({})
        assert run.spool.prevent_agent()
        run.shim = run.spool.start(["sh", "-c", "echo ran"], run.env(), "/", True)
        assert run.ended() == 125
        assert content(run.spool.stdout) == b""
        assert not run.spool.prevent()
        until(lambda: not run.left(), "the relay to go")


def test_a_shim_of_a_folder_that_was_put_away_does_not_take_the_next_ones_place(
    tmp_path: Path, shell: str
) -> None:
    """It was forked before and wakes when another folder has the name; its files are the old ones."""
    with running(str(tmp_path)) as run:
        run.spool.make({})
        old = os.open(run.spool.stdout, os.O_WRONLY | os.O_APPEND)
        os.rename(run.spool.path, run.spool.path + "~1")
        run.spool.make({})
        command = [shell, task_dir.SHIM, "/", "mv", "", "", "", "sh", "-c", "echo ran"]
        done = subprocess.run(command, cwd=run.spool.path, env=run.env(), stdout=old, check=False)
        os.close(old)
        assert done.returncode == 125
        assert run.spool.prevent()


def test_nobody_can_be_prevented_who_was_there(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        run.start("cat")
        run.agent()
        assert not run.spool.prevent()
        assert not run.spool.prevent_agent()


def test_sigint_reaches_the_agent_and_not_the_shim(tmp_path: Path, shell: str) -> None:
    with running(str(tmp_path)) as run:
        spool = run.start(
            "sh", "-c", 'trap "echo interrupted; exit 5" INT; echo 1; while :; do sleep 0.02; done'
        )
        until(lambda: content(spool.stdout) == b"1\n")
        os.kill(run.agent().pid, signal.SIGINT)
        assert run.ended() == 5
        assert content(spool.stdout) == b"1\ninterrupted\n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_the_shim_outlives_what_its_whole_group_is_told(tmp_path: Path, shell: str, number: int) -> None:
    """A signal to all of the session ends the agent, and its status is still recorded."""
    with running(str(tmp_path)) as run:
        spool = run.start("sh", "-c", "echo 1; exec sleep 60")
        until(lambda: content(spool.stdout) == b"1\n")
        shim = spool.shim()
        assert shim is not None
        os.killpg(shim.pid, number)
        assert run.ended() == 128 + number


def test_an_agent_hears_sigint_though_we_ignore_it(tmp_path: Path) -> None:
    """So we do when we run in the background of a script; a shell could not undo that for its child."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "from holdfast.spool.task_dir import Spool\n"
        "spool = Spool(sys.argv[1])\n"
        "spool.make({})\n"
        f"env = {{'PATH': {SYSTEM_PATH!r}, {table.MARK!r}: sys.argv[2]}}\n"
        "spool.start(['sleep', '60'], env, '/', False)\n"
        "import os; os._exit(0)\n"
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        with running(str(tmp_path)) as run:
            command = [sys.executable, "-c", program, run.spool.path, run.task]
            subprocess.run(command, env=environment(), check=True)
            os.kill(run.agent().pid, number)
            assert run.ended() == 128 + number


def test_the_exit_status_is_recorded_on_a_full_disk(tmp_path: Path) -> None:
    from tests.crash.small_disk import mounted

    with mounted(str(tmp_path / "disk")) as disk, running(disk.home.path) as run:
        spool = run.start("sh", "-c", "read x; exit 6")
        run.agent()
        until(lambda: spool.relay() is not None, "the relay")
        disk.fill()
        close_input(spool)
        assert run.ended() == 6


def test_the_end_of_stderr_is_told_from_the_beginning_of_a_line(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "t"))
    spool.make({})
    with open(spool.stderr, "wb") as file:
        file.write(b"first\nsecond \xff\nthird\n")
    assert spool.stderr_tail(1000) == "first\nsecond \ufffd\nthird\n"
    assert spool.stderr_tail(15) == "second \ufffd\nthird\n"
    assert spool.stderr_tail(14) == "third\n"
    assert spool.stderr_tail(4) == "ird\n"


def test_the_shim_is_part_of_the_package() -> None:
    assert os.path.dirname(task_dir.SHIM) == os.path.dirname(os.path.abspath(task_dir.__file__))
    for path in SHELLS[:-1] if SHELLS[-1].endswith("busybox") else SHELLS:
        for script in (task_dir.SHIM, task_dir.RELAY_KEEPER):
            subprocess.run([path, "-n", script], check=True)
    assert os.path.isfile(task_dir.RELAY_PROGRAM)


@pytest.mark.parametrize(
    ("exit_words", "killed"),
    [
        (b"3\n", False),
        (b"3 137\n", True),
        (b"3 1\n", False),
        (b"3 %d\n" % (128 + signal.SIGUSR1), False),  # by the shim, before the keeper had set its trap
    ],
)
def test_a_keeper_that_the_shim_ended_was_not_killed(tmp_path: Path, exit_words: bytes, killed: bool) -> None:
    spool = Spool(str(tmp_path / "t"))
    spool.make({})
    Path(spool.exit).write_bytes(exit_words)
    assert spool.keeper_was_killed() == killed
    assert spool.exit_status() == 3
