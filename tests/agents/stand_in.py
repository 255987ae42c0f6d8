"""A program between Holdfast and an agent: `stand_in.py HOW FLAG AGENT…` is the agent while there is no FLAG.

While the file FLAG is there, `dies` hands the agent what loads a conversation and kills it with that,
`hesitates` kills it when it has loaded one and would get its prompt, and `renames` has it resume a name that
is no id. Each time, FLAG gets a line more.
"""

from __future__ import annotations

import os
import subprocess
import sys

LOADS = (b'"session/load"', b'"session/resume"')


def main(how: str, flag: str, argv: list[str]) -> None:
    if not os.path.exists(flag) or "--version" in argv:
        os.execv(argv[0], argv)
    if how == "renames" and "resume" in argv:
        note(flag)
        argv[argv.index("resume") + 1] = "no-such-thread"
        os.execv(argv[0], argv)
    if how == "renames":
        os.execv(argv[0], argv)
    agent = subprocess.Popen(argv, stdin=subprocess.PIPE)
    assert agent.stdin is not None
    loads = "resume" in argv or any(word.startswith("--resume=") for word in argv)
    for line in sys.stdin.buffer:
        if how == "hesitates" and loads and b'"session/prompt"' in line:
            break
        agent.stdin.write(line)
        agent.stdin.flush()
        loads |= any(word in line for word in LOADS)
        if how == "dies" and loads:
            break
    if not loads:
        agent.stdin.close()
        sys.exit(agent.wait())
    note(flag)
    agent.kill()
    agent.wait()
    os.kill(os.getpid(), 9)


def note(flag: str) -> None:
    with open(flag, "a") as file:
        file.write("once\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
