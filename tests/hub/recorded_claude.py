"""A recorded Claude Code: `python recorded_claude.py RECORDING WORD GATE [OPTION OF CLAUDE …]`.

It says what was recorded, in the conversation that it is asked for. Behind the first piece with WORD in it
it waits until there is a file GATE.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

LIMIT_S = 180  # for all of it: a test that fails may leave it alone


def main(recording: str, word: str, gate: str, options: list[str]) -> None:
    """Play it to its end, then wait to be left."""
    signal.alarm(LIMIT_S)
    with open(recording, encoding="utf-8") as file:
        rows = file.read().split("\n")[:-1]
    now = {json.loads(rows[0][2:])["native_id"]: _value(options, "--session-id")}
    held = False
    for row in rows[1:]:
        if row[0] == ">":
            told = json.loads(sys.stdin.buffer.readline())
            if "uuid" in told:
                now[json.loads(row[2:])["uuid"]] = told["uuid"]
        elif row[0] == "<":
            said = row[2:]
            for was, name in now.items():
                said = said.replace(was, name)
            os.write(1, said.encode() + b"\n")
            if not held and '"content_block_delta"' in row and word in row:
                held = True
                while not os.path.exists(gate):
                    time.sleep(0.05)
    sys.stdin.buffer.read()


def _value(options: list[str], name: str) -> str:
    """The value of an option that is given as NAME=VALUE."""
    return next(option.partition("=")[2] for option in options if option.startswith(f"{name}="))


if __name__ == "__main__":
    if sys.argv[-1] == "--version":
        print("2.1.325 (Claude Code)")
    else:
        main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
