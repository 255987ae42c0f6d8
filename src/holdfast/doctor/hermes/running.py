"""Whether the web UI or its agent is at work on an install, and how that is known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from holdfast.doctor import holders
from holdfast.doctor.hermes.census import Census
from holdfast.history.hermes import journal
from holdfast.process import identity

_WORDS = ("hermes", "server.py")


def signs(layout: Census) -> list[str]:
    """One sentence for each process that was found."""
    found = [sign for path in layout.databases() for sign in holders.database_open_in(path)]
    journals = [path for paths in layout.shards.values() for path in paths]
    journals += [path for own in sorted(layout.with_runs) for path in layout.run_journals(own)]
    found += holders.open_in(journals)
    found += _writers(layout)
    found += _servers(layout)
    return list(dict.fromkeys(found))


def _writers(layout: Census) -> list[str]:
    """Processes that began a turn, did not end it, and live; a journal's name has its writer's pid."""
    found = []
    for own, paths in layout.shards.items():
        for path in paths:
            pid = os.path.basename(path)[: -len(".jsonl")].rpartition("~")[2]
            if not pid.isdigit() or len(pid) > 9 or identity.started(int(pid)) is None:
                continue
            command = holders.command(int(pid))
            if any(word in command for word in _WORDS) and any(
                not turn.ended for turn in journal.turns([path])[0]
            ):
                found.append(f"process {pid} ({command}) is answering in session {own}")
    return found


def _servers(layout: Census) -> list[str]:
    """Servers of the web UI whose state folder is this one, as far as we may look at them."""
    if layout.folder is None or not os.path.isdir("/proc/self"):
        return []
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):  # gone meanwhile, or not ours to look at
            if not _is_server(name):
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                told = file.read().decode(errors="replace")
            env = dict(pair.partition("=")[::2] for pair in told.split("\0") if "=" in pair)
            if os.path.realpath(_sessions(env)) == os.path.realpath(layout.folder):
                found.append(f"process {name} ({holders.command(int(name))}) serves this folder")
    return found


def _is_server(pid: str) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(65536).decode(errors="replace").split("\0")
    script = next((word for word in words if os.path.basename(word) in ("server.py", "bootstrap.py")), None)
    if script is None:
        return False
    folder = os.path.dirname(os.path.join(os.readlink(f"/proc/{pid}/cwd"), script))
    return os.path.exists(os.path.join(folder, "api", "session_recovery.py"))


def _sessions(env: Mapping[str, str]) -> str:
    home = env.get("HERMES_HOME") or os.path.join(env.get("HOME", ""), ".hermes")
    return os.path.join(env.get("HERMES_WEBUI_STATE_DIR") or os.path.join(home, "webui"), "sessions")
