"""An agent without Holdfast: the smallest ACP client that does the same, over pipes.

`python -m bench.running.bare PROMPT` runs one prompt; without a prompt it is a helper.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from bench.running.helper import serve
from holdfast.agents.demo import PROGRAM

INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


class Client:
    """One agent process and the conversation with it."""

    def __init__(self, process: asyncio.subprocess.Process):
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._asked = 0
        self.updates: list[dict[str, Any]] = []

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request and its answer; what is told meanwhile is kept."""
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._stdin.write(json.dumps(message).encode() + b"\n")
        async for line in self._stdout:
            heard = json.loads(line)
            if heard.get("id") == self._asked and "method" not in heard:
                result: dict[str, Any] = heard["result"]
                return result
            self.updates.append(heard)
        raise RuntimeError(f"the agent ended instead of an answer to {method}")

    async def leave(self) -> None:
        """Let it go."""
        self._stdin.close()
        await self._process.wait()


async def run(prompt: str, cwd: str) -> int:
    """One prompt from beginning to end; how much was told."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    client = Client(process)
    await client.ask("initialize", INITIALIZE)
    session = (await client.ask("session/new", {"cwd": cwd, "mcpServers": []}))["sessionId"]
    words = {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]}
    answer = await client.ask("session/prompt", words)
    if answer["stopReason"] != "end_turn":
        raise RuntimeError(f"the agent stopped: {answer}")
    await client.leave()
    return len(client.updates)


async def at_once(prompts: list[str], cwd: str) -> int:
    """Several at the same time."""
    return sum(await asyncio.gather(*(run(prompt, cwd) for prompt in prompts)))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], os.getcwd()) if len(sys.argv) > 1 else serve({"run": at_once}))
