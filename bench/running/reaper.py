"""`… reaper COMMAND …`: runs it and prints its wall time and the CPU time of all that came of it.

A worker that `holdfast run` leaves behind is nobody's child; here it becomes ours, and we wait for it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> None:
    """The whole life of a command."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - begun
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"wall": wall, "cpu": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main(sys.argv[1:])
