"""Installs the pinned agents with npm, and the Cursor SDK with pip: `python -m tests.agents.install`.

Each package has a folder of its own below HOLDFAST_AGENTS (default: `.agents` in the project). It is made
beside its place and renamed into it, so a folder that is there is whole; a second call finds all of them and
needs no network. Install scripts never run: where a package is a wrapper, the true program is in its
platform package (Claude Code's postinstall only links it, and npm 11 holds such scripts back anyway).
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAMP = "installed.json"
PIP = (sys.executable, "-m", "pip")
# What npm and Rust call this machine.
ARCH, TRIPLE = {
    "x86_64": ("x64", "x86_64-unknown-linux-musl"),
    "aarch64": ("arm64", "aarch64-unknown-linux-musl"),
}.get(platform.machine(), ("", ""))


class Package(NamedTuple):
    """One thing from npm, at one version."""

    label: str
    name: str
    version: str
    program: str  # below node_modules: the true program, or a script for Node 22
    link: str = ""  # the name that a user finds on PATH

    @property
    def pin(self) -> str:
        """As npm takes it."""
        return f"{self.name}@{self.version}"


CLAUDE_PROGRAM = f"@anthropic-ai/claude-code-linux-{ARCH}/claude"
PACKAGES = (
    Package("node", f"node-linux-{ARCH}", "22.23.3", f"node-linux-{ARCH}/bin/node", "node"),
    Package("claude-2.1.197", "@anthropic-ai/claude-code", "2.1.197", CLAUDE_PROGRAM, "claude"),
    Package("claude-2.1.325", "@anthropic-ai/claude-code", "2.1.325", CLAUDE_PROGRAM, "claude"),
    Package(
        "codex", "@openai/codex", "0.166.0", f"@openai/codex-linux-{ARCH}/vendor/{TRIPLE}/bin/codex", "codex"
    ),
    Package("gemini", "@google/gemini-cli", "0.61.0", "@google/gemini-cli/bundle/gemini.js", "gemini"),
    Package("opencode", "opencode-ai", "1.18.33", f"opencode-linux-{ARCH}/bin/opencode", "opencode"),
    Package("hapi", "@twsxtd/hapi", "0.30.7", f"@twsxtd/hapi-linux-{ARCH}/bin/hapi", "hapi"),
    Package("kimi", "@moonshot-ai/kimi-code", "2.1.0", "@moonshot-ai/kimi-code/dist/main.mjs", "kimi"),
)


class CannotInstall(Exception):
    """Why, in one line."""


def cache() -> str:
    """The folder that holds all packages."""
    return os.path.abspath(os.environ.get("HOLDFAST_AGENTS") or os.path.join(PROJECT, ".agents"))


def package(label: str) -> Package:
    """The pinned package of that label."""
    return next(found for found in PACKAGES if found.label == label)


def folder(of: Package) -> str:
    """Where it is, or would be."""
    return os.path.join(cache(), f"{of.label}-{of.version}" if of.version not in of.label else of.label)


def program(label: str) -> str:
    """The path of an installed program; CannotInstall if it is not there."""
    of = package(label)
    path = os.path.join(folder(of), "node_modules", of.program)
    if not os.path.exists(os.path.join(folder(of), STAMP)):
        raise CannotInstall(f"{of.pin} is not installed: run `python -m tests.agents.install`")
    return path


def link(label: str) -> str:
    """The same program by the name that npm gives a user."""
    of = package(label)
    return os.path.join(folder(of), "node_modules", ".bin", of.link)


def cursor_sdk() -> str:
    """The folder to import `cursor_sdk` from; CannotInstall if it is not there."""
    place = _cursor_folder()
    if not os.path.exists(os.path.join(place, STAMP)):
        raise CannotInstall(f"{_cursor_pin()} is not installed: run `python -m tests.agents.install`")
    return place


def install_all() -> list[tuple[str, str, bool]]:
    """Each pin, its place, and whether it was new; CannotInstall at the first that fails."""
    if not ARCH or sys.platform != "linux":
        raise CannotInstall(
            f"the agents are pinned for Linux on x86_64 and aarch64, not {platform.platform()}"
        )
    os.makedirs(cache(), exist_ok=True)
    with _lock():
        found = [
            (of.pin, _install(folder(of), of.pin, partial(_npm, of)), program(of.label)) for of in PACKAGES
        ]
        pin = _cursor_pin()
        found.append((pin, _install(_cursor_folder(), pin, partial(_pip, pin)), cursor_sdk()))
    return [(pin, place, new) for pin, new, place in found]


def _install(place: str, pin: str, fill: Callable[[str], None]) -> bool:
    if os.path.exists(os.path.join(place, STAMP)):
        return False
    made = f"{place}.making"
    shutil.rmtree(made, ignore_errors=True)
    os.mkdir(made)
    fill(made)
    with open(os.path.join(made, STAMP), "w") as file:
        json.dump({"pin": pin}, file)
    os.rename(made, place)
    return True


def _npm(of: Package, made: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is missing: install it (on Debian: apt install npm)")
    with open(os.path.join(made, "package.json"), "w") as file:  # else npm looks for one further up
        json.dump({"private": True, "dependencies": {of.name: of.version}}, file)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error")
    _run(of.pin, [npm, "install", *quiet], made)
    _check(of, made)


def _pip(pin: str, made: str) -> None:
    _run(pin, [*PIP, "install", "--quiet", "--only-binary=:all:", "--target", made, pin], made)


def _run(pin: str, words: list[str], cwd: str) -> None:
    done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        tool = words[2] if words[1] == "-m" else os.path.basename(words[0])
        said = _tail(done.stderr or done.stdout)
        raise CannotInstall(f"{pin}: {tool} ended with {done.returncode}: {said}")


def _cursor_pin() -> str:
    """As the extra `cursor` has it."""
    with open(os.path.join(PROJECT, "pyproject.toml"), "rb") as file:
        (pin,) = tomllib.load(file)["project"]["optional-dependencies"]["cursor"]
    return str(pin)


def _cursor_folder() -> str:
    return os.path.join(cache(), _cursor_pin().replace("==", "-"))


def _check(of: Package, made: str) -> None:
    modules = os.path.join(made, "node_modules")
    with open(os.path.join(modules, of.name, "package.json")) as file:
        version = json.load(file)["version"]
    if version != of.version:
        raise CannotInstall(f"{of.pin}: npm brought {version}")
    if not os.path.isfile(os.path.join(modules, of.program)):
        raise CannotInstall(f"{of.pin}: it has no {of.program} (an optional package that npm left out?)")


@contextmanager
def _lock() -> Iterator[None]:
    with open(os.path.join(cache(), "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _tail(text: str) -> str:
    return " ".join(text.split())[-600:]


def main() -> int:
    """Install, and print what is there."""
    try:
        found = install_all()
    except CannotInstall as problem:
        print(f"cannot install the agents: {problem}", file=sys.stderr)
        return 1
    for pin, place, new in found:
        print(f"{'installed' if new else 'there    '}  {pin:<40} {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
