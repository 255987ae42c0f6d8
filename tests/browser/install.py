"""`python -m tests.browser.install`: installs Debian's Chromium where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

CHROMIUM = "/usr/bin/chromium"
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-noto-color-emoji")


def main() -> int:
    """Install it, through sudo where that is needed; what apt says is shown."""
    if os.path.exists(CHROMIUM):
        return 0
    if shutil.which("apt-get") is None:
        print(f"the browser tests need {CHROMIUM}, and there is no apt-get to install it", file=sys.stderr)
        return 1
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run([*prefix, "apt-get", *command], stdout=subprocess.DEVNULL)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
