"""`holdfast service`: start the hub with the machine, by systemd or launchd."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import suppress

from holdfast.cli import common, output, service_unit
from holdfast.errors import BadInput, HoldfastError, NotFound

MACOS = "darwin"


def parser(name: str) -> argparse.ArgumentParser:
    """What to do."""
    parser = common.parser(
        name, "Start the hub with your login: a systemd user unit on Linux, a launchd agent on macOS."
    )
    parser.add_argument("action", choices=("install", "uninstall", "status"))
    parser.add_argument("--no-start", action="store_true", help="install: only write the file")
    return parser


def run(options: argparse.Namespace) -> int:
    """Write, remove or show the service."""
    path = service_unit.plist_path() if sys.platform == MACOS else service_unit.unit_path(os.environ)
    match options.action:
        case "install":
            return _install(options, path)
        case "uninstall":
            return _uninstall(options, path)
    return _status(options, path)


def _install(options: argparse.Namespace, path: str) -> int:
    from holdfast import durable_io

    home, _ = common.home_and_location(options)
    command = [sys.executable, "-m", "holdfast", "up"]
    env = {
        name: os.environ[name] for name in ("HOLDFAST_HOME", "HOLDFAST_STORE", "PATH") if name in os.environ
    }
    if options.store:
        env["HOLDFAST_STORE"] = options.store
    if any("\n" in value for value in env.values()):
        raise BadInput("the service cannot be written: a setting of its environment has a line break")
    if sys.platform == MACOS:
        content = service_unit.plist(command, env, os.path.join(home.path, "hub.log"))
        durable_io.make_folder(home.path)
    else:
        content = service_unit.unit(command, env).encode()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(path)
    durable_io.create(path, [content])
    _print(options, "installed", path, f"wrote {path}")
    if options.no_start:
        return 0
    if sys.platform == MACOS:
        _call("launchctl", "bootstrap", f"gui/{os.getuid()}", path)
    else:
        _call("systemctl", "--user", "daemon-reload")
        _call("systemctl", "--user", "enable", "--now", service_unit.UNIT)
    if not options.json:
        output.text("the hub runs and starts with your login; `holdfast open` shows its page")
        if sys.platform != MACOS:
            output.text("to start it with the machine, before you log in: loginctl enable-linger")
    return 0


def _uninstall(options: argparse.Namespace, path: str) -> int:
    if not os.path.exists(path):
        raise NotFound(f"there is no service at {path}", hint="`holdfast service install` makes one")
    if not options.no_start:
        if sys.platform == MACOS:
            _call("launchctl", "bootout", f"gui/{os.getuid()}/{service_unit.LABEL}")
        else:
            _call("systemctl", "--user", "disable", "--now", service_unit.UNIT)
    os.unlink(path)
    _print(options, "removed", path, f"removed {path}; the agents keep running")
    return 0


def _status(options: argparse.Namespace, path: str) -> int:
    from holdfast.client.discovery import running_hub

    home, _ = common.home_and_location(options)
    hub = running_hub(home)
    installed = os.path.exists(path)
    if options.json:
        output.json_line(
            {
                "installed": installed,
                "path": path,
                "running": hub is not None,
                "pid": hub.pid if hub else None,
            }
        )
        return 0
    output.text(f"service  {path}" if installed else "service  not installed; `holdfast service install`")
    output.text(f"hub      {hub.url}, process {hub.pid}" if hub else "hub      not running")
    return 0


def _call(*words: str) -> None:
    """Run the service manager; what it complains about is the error."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise HoldfastError(
            f"{words[0]} is not on this machine, so the service is written but not started",
            hint="start it by hand with `holdfast up`, or see docs/operations.md",
        ) from None
    if done.returncode != 0:
        raise HoldfastError(
            f"`{' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip() or done.returncode}"
        )


def _print(options: argparse.Namespace, what: str, path: str, text: str) -> None:
    if options.json:
        output.json_line({what: path})
    else:
        output.text(text)
