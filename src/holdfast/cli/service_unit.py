"""The files that start the hub with the machine: a systemd user unit and a launchd agent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

UNIT = "holdfast.service"
LABEL = "dev.holdfast.hub"


def unit_path(env: Mapping[str, str]) -> str:
    """Where systemd looks for a user's own units."""
    base = env.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "systemd", "user", UNIT)


def plist_path() -> str:
    """Where launchd looks for a user's own agents."""
    return os.path.join(os.path.expanduser("~"), "Library", "LaunchAgents", f"{LABEL}.plist")


def unit(command: Sequence[str], env: Mapping[str, str]) -> str:
    """A systemd unit; KillMode=process, because agents must outlive a restart of the hub."""
    settings = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in env.items())
    return f"""\
# Written by `holdfast service install`; `holdfast service uninstall` removes it.
[Unit]
Description=Holdfast, a hub for coding agents

[Service]
ExecStart={" ".join(map(_quoted, command))}
# Only the hub itself. Without this, systemd would end every agent with it.
KillMode=process
Restart=on-failure
RestartSec=1
{settings}

[Install]
WantedBy=default.target
"""


def plist(command: Sequence[str], env: Mapping[str, str], log: str) -> bytes:
    """A launchd agent; AbandonProcessGroup, because agents must outlive a restart of the hub."""
    import plistlib

    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(env),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "AbandonProcessGroup": True,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it: quoted, with % and $ taken literally."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = all(letter.isalnum() or letter in "/._-=:,+@" for letter in word)
    return word if plain else f'"{escaped}"'
