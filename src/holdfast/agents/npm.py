"""From what npm puts on PATH to the native program behind it."""

from __future__ import annotations

import os
import platform
import sys

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
