"""`python -m tests.support.system_packages`: brings the Debian programs that the tests use.

Chromium is installed by apt. The proxies and copy tools are only unpacked into the virtual environment:
a web server that apt installs would start on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHROMIUM = "/usr/bin/chromium"
BROWSER = ("chromium", "fonts-dejavu-core", "fonts-noto-color-emoji")
UNPACKED = {
    "nginx": ("nginx",),
    "caddy": ("caddy",),
    "rsync": ("rsync", "libpopt0"),
    "sqlite3": ("sqlite3",),
    "systemd-analyze": ("systemd", "libsystemd-shared"),
}
FOLDER = Path(sys.prefix) / "debian"
# Nothing may wait for a person; another apt is waited for, but not for ever.
APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
DOWNLOAD = ("-o", "APT::Sandbox::User=root", "download")  # into a folder that only its owner can enter
LIMIT_S = 1800
WRAPPER = """#!/bin/sh
LD_LIBRARY_PATH={folder}/usr/lib/{triplet}:{folder}/usr/lib/{triplet}/systemd exec {program} "$@"
"""


class InstallFailed(Exception):
    """A package could not be brought here."""


def main() -> int:
    """Bring what is missing; show what apt complains about."""
    programs = [name for name in UNPACKED if find_program(name) is None]
    browser = not os.path.exists(CHROMIUM)
    if not programs and not browser:
        return 0
    try:
        as_root = _as_root()
        _run([*as_root, *APT, "update"])  # old lists, or all lists but one, may be enough
        if browser:
            _install_browser(as_root)
        for name in programs:
            _unpack(name, UNPACKED[name])
    except InstallFailed as problem:
        wanted = [*(BROWSER if browser else ()), *programs]
        print(f"the tests need {', '.join(wanted)}: {problem}", file=sys.stderr)
        return 1
    return 0


def find_program(name: str) -> str | None:
    """The path of a program, from this system or as unpacked here."""
    return shutil.which(name) or shutil.which(name, path=str(FOLDER / "bin"))


def _as_root() -> list[str]:
    if shutil.which("apt-get") is None:
        raise InstallFailed("there is no apt-get")
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise InstallFailed("apt-get needs root or sudo")
    return ["sudo", "-n"]


def _install_browser(as_root: list[str]) -> None:
    status = _run([*as_root, *APT, "install", "-y", "--no-install-recommends", *BROWSER])
    if status or not os.path.exists(CHROMIUM):
        raise InstallFailed(f"apt-get could not install {CHROMIUM} (exit status {status})")


def _unpack(name: str, packages: tuple[str, ...]) -> None:
    """Unpack the packages of a program and put a command of its name into the folder's `bin`."""
    with tempfile.TemporaryDirectory() as download:
        if _run([*APT, *DOWNLOAD, *packages], cwd=download):
            raise InstallFailed(f"apt-get could not download {' and '.join(packages)}")
        for package in Path(download).glob("*.deb"):
            if _run(["dpkg", "-x", str(package), str(FOLDER)]):
                raise InstallFailed(f"dpkg could not unpack {package.name}")
    program = next(
        FOLDER / part / name for part in ("usr/sbin", "usr/bin") if (FOLDER / part / name).exists()
    )
    triplet = next((path.name for path in (FOLDER / "usr/lib").glob("*-linux-gnu*")), "none")
    command = FOLDER / "bin" / name
    command.parent.mkdir(exist_ok=True)
    command.write_text(WRAPPER.format(folder=FOLDER, triplet=triplet, program=program))
    command.chmod(0o755)


def _run(command: list[str], cwd: str | None = None) -> int:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        return 124
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
