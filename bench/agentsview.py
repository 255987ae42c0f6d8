"""agentsview, which people use to gather their transcripts: installed from PyPI, run without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

VERSION = "0.46.1"
PIN = f"agentsview=={VERSION}"


class CannotHave(SystemExit):
    """There is nothing to measure beside."""

    def __init__(self, why: str):
        super().__init__(f"bench: {PIN} cannot be had, so nothing can be measured beside it: {why}")


def program() -> str:
    """The program itself, not the script that starts it; installed into a cache at the first call."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = os.path.join(cache, "holdfast-bench", f"agentsview-{VERSION}")
    if not os.path.isdir(place):
        _install(place)
    found = os.path.join(place, "agentsview", "bin", "agentsview")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if VERSION not in said:
        raise CannotHave(f"{found} --version says {said!r}")
    return found


def sync(program: str, home: str, data: str) -> str:
    """Let it take all transcripts below a home into a database of its own; what it says at the end."""
    unshare = shutil.which("unshare")
    if unshare is None:
        raise CannotHave("unshare, which keeps it from the network, is missing (on Debian: util-linux)")
    words = [unshare, "-n" if os.geteuid() == 0 else "-rn", "--", program, "sync"]
    env = {
        "HOME": home,
        "PATH": os.environ["PATH"],
        "AGENTSVIEW_DATA_DIR": data,
        "AGENTSVIEW_NO_DAEMON": "1",
        "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
        "AGENTSVIEW_TELEMETRY_ENABLED": "0",
        "DO_NOT_TRACK": "1",
    }
    done = subprocess.run(words, env=env, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotHave(f"it ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _install(place: str) -> None:
    made = f"{place}.making-{os.getpid()}"
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*words, "--target", made, PIN], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(made, ignore_errors=True)
        raise CannotHave(f"pip ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    os.rename(made, place)
