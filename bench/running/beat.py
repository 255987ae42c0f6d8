"""An ACP agent that tells of tool calls at a steady rate, each line with the moment it was written.

Its prompt is «COUNT RATE».
"""

from __future__ import annotations

import json
import os
import sys
import time


def send(**message: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def beat(session: str, count: int, rate: float) -> None:
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        moment = str(time.monotonic_ns())
        update: dict[str, object] = {
            "sessionUpdate": "tool_call",
            "toolCallId": f"call-{number // 2}",
            "status": "in_progress",
        }
        if number % 2 == 0:
            update |= {"title": "beat", "rawInput": moment}
        else:
            text = {"type": "content", "content": {"type": "text", "text": moment}}
            update |= {"sessionUpdate": "tool_call_update", "status": "completed", "content": [text]}
        send(method="session/update", params={"sessionId": session, "update": update})


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        match asked["method"]:
            case "initialize":
                send(id=asked["id"], result={"protocolVersion": 1})
            case "session/new":
                send(id=asked["id"], result={"sessionId": f"beat-{os.getpid()}"})
            case "session/prompt":
                count, rate = asked["params"]["prompt"][0]["text"].split()
                beat(asked["params"]["sessionId"], int(count), float(rate))
                send(id=asked["id"], result={"stopReason": "end_turn"})


if __name__ == "__main__":
    main()
