"""A recorded Claude Code: `python recorded_claude.py RECORDING WORD GATE [OPTION OF CLAUDE …]`.

It says what was recorded, in the conversation that it is asked for. Behind the first piece with WORD in it
it waits until there is a file GATE.
"""

from __future__ import annotations

import json
import os
import sys
import time

LIMIT_S = 120.0


def main(recording: str, word: str, gate: str, options: list[str]) -> None:
    """Play it to its end, then wait to be left."""
    with open(recording, encoding="utf-8") as file:
        rows = file.read().split("\n")[:-1]
    was = json.loads(rows[0][2:])["native_id"]
    named = options[options.index("--session-id") + 1]
    held = False
    for row in rows[1:]:
        if row[0] == ">":
            assert sys.stdin.buffer.readline(), "it was left too early"
        elif row[0] == "<":
            os.write(1, row[2:].replace(was, named).encode() + b"\n")
            if not held and '"content_block_delta"' in row and word in row:
                held = True
                _wait_for(gate)
    sys.stdin.buffer.read()


def _wait_for(gate: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not os.path.exists(gate) and time.monotonic() < end:
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[-1] == "--version":
        print("2.1.325 (Claude Code)")
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
