"""An ACP agent that misbehaves in one way: `python odd_agent.py WAY`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

SESSION = os.environ.get("ODD_SESSION", "odd-0123456789abcdef")
PIECE = b"x" * (1 << 20)


def say(message: dict[str, Any]) -> None:
    """One message on stdout."""
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def tell(text: str, session: str = SESSION) -> None:
    """A piece of an answer."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    say({"method": "session/update", "params": {"sessionId": session, "update": update}})


def much(fd: int, megabytes: int) -> None:
    """Many bytes and no newline."""
    for _ in range(megabytes):
        view = memoryview(PIECE)
        while view:
            view = view[os.write(fd, view) :]


def turn(way: str, finish: Callable[[], None]) -> None:
    """What it does with its prompt."""
    if way == "flood":
        much(1, int(sys.argv[2]))
        os.write(1, b"\n")
    elif way == "stream":
        for _ in range(int(sys.argv[2]) * 16):
            tell("x" * (1 << 16))
        finish()
        return
    elif way == "cut":
        tell("half")
        much(1, int(sys.argv[2]))
        os._exit(0)
    elif way == "yes":
        tell("begun")
        while True:  # faster than any reader, but a test that fails must not fill the disk
            os.write(1, b"y\n" * 20)
            time.sleep(0.01)
    elif way == "grumble":
        much(2, int(sys.argv[2]))
        os.write(2, b"\nnul \0 and \xff, the last word\n")
        os._exit(3)
    elif way == "daemon":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(300)
            os._exit(0)
    elif way == "renamed":
        tell("mine")
        tell("not mine", "odd-another")
    elif way == "dumb":
        tell("I close")
        os.close(1)
        time.sleep(300)
    tell("done")
    finish()
    if way == "late":
        tell("one more thing")
        say(
            {"method": "session/update", "params": {"sessionId": SESSION, "update": {"sessionUpdate": "odd"}}}
        )
    elif way == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(300)


def main(way: str) -> None:
    """Serve until stdin ends."""
    if way == "silent":
        return
    if way == "mute":
        time.sleep(300)
    for line in sys.stdin:
        heard = json.loads(line)
        method, number = heard.get("method"), heard.get("id")
        if method == "initialize":
            say({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            say({"id": number, "result": {"sessionId": SESSION}})
        elif method == "session/prompt" and way == "wordy":
            reason = "no \0 such \ud83d thing " * 10_000
            say({"id": number, "error": {"code": -32000, "message": reason}})
        elif method == "session/prompt":
            turn(way, lambda n=number: say({"id": n, "result": {"stopReason": "end_turn"}}))  # type: ignore[misc]


if __name__ == "__main__":
    main(sys.argv[1])
