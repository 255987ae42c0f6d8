"""A machine whose /proc hides the processes of other users (`hidepid`), and names that are no UTF-8."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.home import Home
from tests.support.terminal import HOLDFAST, Terminal

# In a namespace of its own: /proc hides the process of another user from one who may not look at all of them.
HIDDEN = """
mount -t proc -o hidepid=$1,gid=54321 proc /proc || exit 77
setpriv --reuid=65534 --clear-groups sleep 300 &
other=$!
shift
setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace -- "$@"
status=$?
kill $other
exit $status
"""


def hidden(how: int, *words: str, terminal: Terminal) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", HIDDEN, "sh", str(how)]
    return subprocess.run(
        [*command, *words], env=terminal.env, cwd=terminal.cwd, capture_output=True, text=True, timeout=120
    )


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
@pytest.mark.parametrize("how", [1, 2])
def test_a_run_goes_well_where_proc_hides_other_users(home: Home, tmp_path: Path, how: int) -> None:
    terminal = Terminal(home, str(tmp_path))
    looked = hidden(
        how, "sh", "-c", "for p in $(ls /proc | grep ^[0-9]); do cat /proc/$p/stat; done", terminal=terminal
    )
    if looked.returncode == 77:
        pytest.skip("no /proc may be mounted here")
    assert how == 2 or "not permitted" in looked.stderr, looked
    prompt = 'go <<[{"tool": "shell", "run": "echo hi"}, {"say": "done"}]>>'
    done = hidden(how, *HOLDFAST, "run", "-a", "demo", prompt, terminal=terminal)
    assert done.returncode == 0 and "done" in done.stdout, (done, terminal.worker_log())


def test_a_name_that_is_no_utf8_is_one_clear_line(home: Home, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    terminal = Terminal(home, str(tmp_path))
    at_home = Terminal(Home(os.fsdecode(folder)), str(tmp_path))
    for words in (
        ("init",),
        ("ls",),
        ("run", "-a", "demo", "x"),
        ("up",),
        ("doctor", "self"),
        ("import", "claude"),
    ):
        said = at_home.give(*words, status=2).stderr
        assert said.count("\n") == 1 and "the name of the home is not UTF-8" in said and "xff" in said, said
    inside = Terminal(home, os.fsdecode(folder))
    for said in (
        inside.give("run", "-a", "demo", "x", status=2).stderr,
        terminal.give("run", "-a", "demo", "--cwd", os.fsdecode(folder), "x", status=2).stderr,
    ):
        assert said.count("\n") == 1 and "the name of the folder is not UTF-8" in said, said
    assert os.listdir(folder) == []
