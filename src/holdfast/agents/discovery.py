"""Where is an agent installed on this machine, and which version is it?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.agents.base import Agent
from holdfast.errors import BadInput

PATIENCE = 10.0  # seconds for a program to print its version
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+\.\d+")


class InstalledAgent(msgspec.Struct, frozen=True):
    """An agent that can be run on this machine."""

    agent: str
    path: str  # the path from the config or from PATH
    command: tuple[str, ...]  # the beginning of the command line: the native program
    version_args: tuple[str, ...] = ("--version",)
    env: dict[str, str] = {}  # PATH and HOME at the time of the search


def find(agent: Agent, settings: Mapping[str, Any], env: Mapping[str, str]) -> InstalledAgent | None:
    """Find the agent by its config table (`path`, `command`) or on PATH; None if it is not installed.

    A configured program that does not exist is refused, so that no other program runs in its place.
    """
    command, path = settings.get("command"), settings.get("path")
    if command is not None:
        return _installed(agent, env, *_configured(agent, command, env))
    if path is not None:
        return _installed(agent, env, *_configured_path(agent, path, env))
    if agent.command:
        return _installed(agent, env, agent.command[0], agent.command)
    for program in agent.programs:
        for program_path in _on_path(program, env):
            true = _native_command(agent, program_path)
            if true:
                return _installed(agent, env, program_path, true)
    return None


def version(installed: InstalledAgent) -> str | None:
    """The first x.y.z that the program prints about itself; None if it prints none."""
    try:
        process = subprocess.Popen(
            (*installed.command, *installed.version_args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=installed.env,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    match = _VERSION.search(output.decode(errors="replace"))
    return match.group() if match else None


def traps(agent: Agent, version: str | None) -> list[str]:
    """What is known not to work in this version; for an unknown version, everything that may apply."""
    if version is None:
        return [trap.text for trap in agent.traps]
    at = tuple(int(number) for number in version.split("."))
    return [
        trap.text
        for trap in agent.traps
        if (trap.before is None or at < trap.before) and (trap.since is None or at >= trap.since)
    ]


def _installed(agent: Agent, env: Mapping[str, str], path: str, command: tuple[str, ...]) -> InstalledAgent:
    variables = {name: env[name] for name in ("PATH", "HOME") if name in env}
    return InstalledAgent(agent.name, path, command, agent.version_args, variables)


def _configured(agent: Agent, command: Any, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A configured command line runs exactly as written."""
    words = command if isinstance(command, list) else None
    if not words or not all(isinstance(word, str) and word for word in words):
        raise BadInput(f"config.toml: agents.{agent.name}.command must be a list of words")
    program = _expand_home(words[0], env)
    path = program if os.path.isabs(program) else next(_on_path(program, env), None)
    if path is None or not _can_run(path):
        raise BadInput(f"config.toml: agents.{agent.name}.command: program {words[0]!r} not found")
    return path, (path, *words[1:])


def _configured_path(agent: Agent, path: Any, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    if not isinstance(path, str) or not path:
        raise BadInput(f"config.toml: agents.{agent.name}.path must be the path of a program")
    expanded = _expand_home(path, env)
    if not os.path.isabs(expanded) or not _can_run(expanded):
        raise BadInput(f"config.toml: agents.{agent.name}.path: no program at {path!r}")
    true = _native_command(agent, expanded)
    if not true:
        raise BadInput(
            f"config.toml: agents.{agent.name}.path: {path!r} only starts a program that is not installed",
            hint=f"install it again: {agent.install}" if agent.install else "",
        )
    return expanded, true


def _native_command(agent: Agent, path: str) -> tuple[str, ...]:
    """The command line of the native program; empty if a wrapper starts a program that is missing."""
    # Keep the path itself, not the real path: some version managers depend on the name they are called by.
    native = agent.native_program(os.path.realpath(path)) if agent.native_program is not None else None
    return (path,) if native is None else native


def _on_path(program: str, env: Mapping[str, str]) -> Iterator[str]:
    for folder in env.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder):  # a relative folder would depend on our own working directory
            path = shutil.which(os.path.join(folder, program))
            if path is not None:
                yield path


def _expand_home(path: str, env: Mapping[str, str]) -> str:
    if path.startswith("~/") and env.get("HOME"):
        return os.path.join(env["HOME"], path[2:])
    return path


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


# --- From npm's wrapper on PATH to the native program

_ARCH = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def npm_platform() -> str:
    """This machine as npm's platform packages name it: `linux-x64`, `darwin-arm64`."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{_ARCH.get(machine, machine)}"


def is_native(path: str) -> bool:
    """Whether a file is a native program and not a script or a stub."""
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError:
        return False
    return head == b"\x7fELF" or head in (
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    )


def is_node_script(path: str) -> bool:
    """Whether a file is a node script."""
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"node" in first


def packages(name: str, script: str) -> list[str]:
    """Where node looks for a package that the package of `script` requires."""
    folders = []
    folder = os.path.dirname(script)
    while True:
        folders.append(os.path.join(folder, "node_modules", *name.split("/")))
        above = os.path.dirname(folder)
        if above == folder:
            return [path for path in folders if os.path.isdir(path)]
        folder = above
