"""`python -m tests.browser.install`: installs Debian's Chromium where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

CHROMIUM = "/usr/bin/chromium"
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-noto-color-emoji")
# Nothing may wait for a person; another apt is waited for, but not for ever.
APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
LIMIT_S = 1800


def main() -> int:
    """Install it, through sudo where that is needed; what apt complains of is shown."""
    if os.path.exists(CHROMIUM):
        return 0
    if shutil.which("apt-get") is None:
        return _refuse("there is no apt-get to install it")
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            return _refuse("to install it takes root or sudo")
        prefix = ["sudo", "-n"]
    _run([*prefix, *APT, "update"])  # lists that are old, or all but one, may do
    status = _run([*prefix, *APT, "install", "-y", "--no-install-recommends", *PACKAGES])
    if status:
        return _refuse(f"apt-get could not install it (exit status {status})")
    return 0 if os.path.exists(CHROMIUM) else _refuse("the package of that name did not bring it")


def _run(command: list[str]) -> int:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 124
    return done.returncode


def _refuse(why: str) -> int:
    by_hand = " ".join(("apt-get install --no-install-recommends", *PACKAGES))
    print(f"the browser tests need {CHROMIUM}: {why}; by hand, as root: {by_hand}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
