"""Whether the web UI or its agent is using an install, and which process shows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from holdfast.peers.hermes import journal
from holdfast.peers.hermes.sessions_folder import SessionsFolder
from holdfast.process import identity, open_files

_WORDS = ("hermes", "server.py")


def running_signs(layout: SessionsFolder) -> list[str]:
    """One sentence for each process that uses the install."""
    signs = [sign for path in layout.databases() for sign in open_files.database_open_in(path)]
    journals = [path for paths in layout.shards.values() for path in paths]
    journals += [path for own in sorted(layout.with_runs) for path in layout.run_journals(own)]
    signs += open_files.open_in(journals)
    signs += _writers(layout)
    signs += _servers(layout)
    return list(dict.fromkeys(signs))


def _writers(layout: SessionsFolder) -> list[str]:
    """Live processes that started a turn and did not end it; a journal's name has its writer's pid."""
    signs = []
    for own, paths in layout.shards.items():
        for path in paths:
            pid = os.path.basename(path)[: -len(".jsonl")].rpartition("~")[2]
            if not pid.isdigit() or len(pid) > 9 or identity.started(int(pid)) is None:
                continue
            command = open_files.command(int(pid))
            if any(word in command for word in _WORDS) and any(
                not turn.ended for turn in journal.read_turns([path])[0]
            ):
                signs.append(f"process {pid} ({command}) is answering in session {own}")
    return signs


def _servers(layout: SessionsFolder) -> list[str]:
    """Servers of the web UI whose state folder is this one, as far as we may inspect them."""
    if layout.folder is None or not os.path.isdir("/proc/self"):
        return []
    signs = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        with suppress(OSError):  # it ended meanwhile, or we may not read it
            if not _is_server(pid):
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read().decode(errors="replace")
            env = dict(pair.partition("=")[::2] for pair in environ.split("\0") if "=" in pair)
            if os.path.realpath(_sessions_folder(env)) == os.path.realpath(layout.folder):
                signs.append(f"process {pid} ({open_files.command(int(pid))}) serves this folder")
    return signs


def _is_server(pid: str) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(65536).decode(errors="replace").split("\0")
    script = next((word for word in words if os.path.basename(word) in ("server.py", "bootstrap.py")), None)
    if script is None:
        return False
    folder = os.path.dirname(os.path.join(os.readlink(f"/proc/{pid}/cwd"), script))
    return os.path.exists(os.path.join(folder, "api", "session_recovery.py"))


def _sessions_folder(env: Mapping[str, str]) -> str:
    home = env.get("HERMES_HOME") or os.path.join(env.get("HOME", ""), ".hermes")
    return os.path.join(env.get("HERMES_WEBUI_STATE_DIR") or os.path.join(home, "webui"), "sessions")
