"""Where an agent is on this machine, and which version it is."""

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

PATIENCE = 10.0  # seconds for a program to tell its version
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+\.\d+")


class InstalledAgent(msgspec.Struct, frozen=True):
    """An agent that can be run here."""

    agent: str
    path: str  # what the config names or PATH holds
    command: tuple[str, ...]  # the beginning of the command line: the true program
    version_args: tuple[str, ...] = ("--version",)
    env: dict[str, str] = {}  # PATH and HOME, as they were when it was found


def find(agent: Agent, settings: Mapping[str, Any], env: Mapping[str, str]) -> InstalledAgent | None:
    """The agent as its config table (`path`, `command`) or PATH says; None if it is not here.

    A config that names something that is not there is refused, so that nothing else is run instead.
    """
    command, path = settings.get("command"), settings.get("path")
    if command is not None:
        return _found(agent, env, *_configured(agent, command, env))
    if path is not None:
        return _found(agent, env, *_at(agent, path, env))
    if agent.command:
        return _found(agent, env, agent.command[0], agent.command)
    for program in agent.programs:
        for place in _on_path(program, env):
            true = _true_program(agent, place)
            if true:
                return _found(agent, env, place, true)
    return None


def version(found: InstalledAgent) -> str | None:
    """The first x.y.z that the program says of itself; None if it does not say one."""
    try:
        process = subprocess.Popen(
            (*found.command, *found.version_args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=found.env,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    seen = _VERSION.search(said.decode(errors="replace"))
    return seen.group() if seen else None


def traps(agent: Agent, version: str | None) -> list[str]:
    """What is known not to work with that version; of an unknown version, everything that may be so."""
    if version is None:
        return [trap.text for trap in agent.traps]
    at = tuple(int(number) for number in version.split("."))
    return [
        trap.text
        for trap in agent.traps
        if (trap.before is None or at < trap.before) and (trap.since is None or at >= trap.since)
    ]


def _found(agent: Agent, env: Mapping[str, str], path: str, command: tuple[str, ...]) -> InstalledAgent:
    kept = {name: env[name] for name in ("PATH", "HOME") if name in env}
    return InstalledAgent(agent.name, path, command, agent.version_args, kept)


def _configured(agent: Agent, command: Any, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """A whole command line is run as it is written."""
    words = command if isinstance(command, list) else None
    if not words or not all(isinstance(word, str) and word for word in words):
        raise BadInput(f"config.toml: agents.{agent.name}.command must be a list of words")
    program = _expanded(words[0], env)
    place = program if os.path.isabs(program) else next(_on_path(program, env), None)
    if place is None or not _can_run(place):
        raise BadInput(f"config.toml: agents.{agent.name}.command: there is no program {words[0]!r}")
    return place, (place, *words[1:])


def _at(agent: Agent, path: Any, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    if not isinstance(path, str) or not path:
        raise BadInput(f"config.toml: agents.{agent.name}.path must be the path of a program")
    place = _expanded(path, env)
    if not os.path.isabs(place) or not _can_run(place):
        raise BadInput(f"config.toml: agents.{agent.name}.path: there is no program at {path!r}")
    true = _true_program(agent, place)
    if not true:
        raise BadInput(
            f"config.toml: agents.{agent.name}.path: {path!r} only starts a program that is not there",
            hint=f"install it again: {agent.install}" if agent.install else "",
        )
    return place, true


def _true_program(agent: Agent, place: str) -> tuple[str, ...]:
    """The command line behind what was found; empty if that is only a wrapper of nothing."""
    # The path itself, not the real one: some version managers look at the name they are called by.
    behind = agent.behind(os.path.realpath(place)) if agent.behind is not None else None
    return (place,) if behind is None else behind


def _on_path(program: str, env: Mapping[str, str]) -> Iterator[str]:
    for folder in env.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder):  # a relative one would depend on where we were started
            place = shutil.which(os.path.join(folder, program))
            if place is not None:
                yield place


def _expanded(path: str, env: Mapping[str, str]) -> str:
    if path.startswith("~/") and env.get("HOME"):
        return os.path.join(env["HOME"], path[2:])
    return path


def _can_run(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


# --- From what npm puts on PATH to the native program behind it.

_ARCH = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def system() -> str:
    """This machine as npm's platform packages name it: `linux-x64`, `darwin-arm64`."""
    machine = platform.machine().lower()
    return f"{sys.platform}-{_ARCH.get(machine, machine)}"


def is_native(path: str) -> bool:
    """Whether a file is a program of the machine rather than a script or a stub."""
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
    """Whether a file is run by node."""
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"node" in first


def packages(name: str, script: str) -> list[str]:
    """Where a package may lie that the package of `script` requires: node's own way of looking."""
    found = []
    folder = os.path.dirname(script)
    while True:
        found.append(os.path.join(folder, "node_modules", *name.split("/")))
        above = os.path.dirname(folder)
        if above == folder:
            return [path for path in found if os.path.isdir(path)]
        folder = above
