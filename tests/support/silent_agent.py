"""The demo agent, of whose stdout nothing is shown after a line with WORD: `python silent_agent.py WORD`.

It dies as the demo agent does, so what it did unseen is only in its own store.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def main(word: str) -> None:
    """Relay until that word was said, then swallow."""
    demo = subprocess.Popen([sys.executable, "-P", "-m", "holdfast.demo"], stdout=subprocess.PIPE)
    assert demo.stdout is not None
    hushed = False
    for line in demo.stdout:
        if not hushed:
            os.write(1, line)
        hushed = hushed or word.encode() in line
    if demo.wait() == -signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
