"""Which process is meant, whatever has its pid."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.process import identity, psutil_backend
from tests.crash.spool_support import child, content, until


def test_we_are_alive_on_our_node() -> None:
    owner = identity.me("node-1")
    assert (owner.host, owner.pid) == ("node-1", os.getpid())
    assert identity.is_alive(owner.pid, owner.started, owner.boot)


@pytest.mark.parametrize("change", [{"started": 1.0}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_another_start_boot_or_pid_is_another_process(change: dict[str, float]) -> None:
    me = identity.me("node-1")
    facts = {"pid": me.pid, "started": me.started, "boot": me.boot} | change
    assert identity.is_alive(**facts) is False  # type: ignore[arg-type]


@pytest.mark.parametrize("started", [identity.started, psutil_backend.started])
def test_a_zombie_is_gone(started: object) -> None:
    assert callable(started)
    with child(["true"]) as process:
        until(lambda: state(process.pid) == "Z", "a zombie")
        assert started(process.pid) is None
    assert started(process.pid) is None


def test_a_process_whose_first_thread_has_ended_is_alive() -> None:
    """Its stat line says Z, and its other threads go on."""
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with child([sys.executable, "-c", program]) as process:
        until(lambda: state(process.pid) == "Z", "the first thread to end")
        assert identity.started(process.pid) is not None


def test_a_start_does_not_change_while_it_runs() -> None:
    with child(["sleep", "60"]) as process:
        first = identity.started(process.pid)
        until(lambda: b"sleep" in content(f"/proc/{process.pid}/cmdline"))
        assert first is not None
        assert identity.started(process.pid) == first
        assert psutil_backend.started(process.pid) is not None


@given(st.text(alphabet=st.characters(exclude_characters="\n\0", codec="utf-8"), max_size=20))
def test_a_stat_line_is_read_whatever_the_name(name: str) -> None:
    rest = " ".join(str(n) for n in range(4, 53))
    line = f"77 ({name}) S {rest}\n".encode()
    found = identity.read_stat(line)
    assert found == identity.Stat(77, name, 4, 6, 22.0, False)


@settings(deadline=None)
@given(st.integers(0, 300))
def test_a_torn_stat_line_gives_no_wrong_start(cut: int) -> None:
    line = content("/proc/self/stat")
    whole = identity.read_stat(line)
    torn = identity.read_stat(line[:cut])
    assert whole is not None
    assert torn is None or (torn.pid, torn.started) == (whole.pid, whole.started)


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0]
