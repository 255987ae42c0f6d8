"""The real Cursor SDK as a program of its own, to be run where there is nothing but loopback.

`… conversations sqlite|jsonl ROOT CWD AGENT`: what `Run.conversation()` tells of each run that has ended,
from a store that nothing else has open. A run that has not ended is never asked: that call would not return.

`… live sqlite|jsonl ROOT CWD PROMPT …`: prompts to a new agent against the fake backend. Prints a line of
JSON for each thing that the SDK streams.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import tempfile
from typing import Any

from tests.agents import namespace
from tests.agents.fake_cursor.backend import serving

MODEL = "composer-2"
SDK: Any = importlib.import_module("cursor_sdk")  # optional, and not typed here
ENDED = ("finished", "error", "cancelled", "expired")


def main(words: list[str]) -> int:
    """Do what is asked."""
    if not namespace.has_only_loopback():
        print("there is more than loopback here", file=sys.stderr)
        return 1
    what, form, root, cwd, *rest = words
    if what == "conversations":
        conversations(form, root, cwd, rest[0])
    else:
        with serving() as backend:
            os.environ["CURSOR_BACKEND_URL"] = backend.url
            live(form, root, cwd, rest)
    return 0


def conversations(form: str, root: str, cwd: str, agent: str) -> None:
    """One line with every run's status, and its conversation if it has ended."""
    local = options(form, root, cwd)
    with (
        tempfile.TemporaryDirectory() as workspace,
        SDK.Client.launch_bridge(workspace=workspace, local=local) as client,
    ):
        SDK.Agent.resume(agent, {"local": local.to_json()}, client=client)
        runs = SDK.Agent.list_runs(agent, client=client, cwd=cwd).items
        told = [
            {"id": run.id, "status": run.status, "turns": turns(run) if run.status in ENDED else None}
            for run in runs
        ]
    print(json.dumps(told))


def live(form: str, root: str, cwd: str, prompts: list[str]) -> None:
    """One line for the agent, each run, each message it streams, and what it says of itself in the end."""
    local = options(form, root, cwd)
    with SDK.Client.launch_bridge(workspace=cwd, local=local) as client:
        agent = SDK.Agent.create(model=MODEL, api_key="dummy", name="live", local=local, client=client)
        tell(agent=agent.agent_id)
        for prompt in prompts:
            run = agent.send(prompt)
            tell(run=run.id)
            for event in run.events():
                if event.kind == "sdk_message":
                    tell(message=plain(event.sdk_message))
            tell(ended=run.status, turns=turns(run))


def options(form: str, root: str, cwd: str) -> Any:
    """Where the store is: SQLite is below HOME, where the SDK puts it by itself."""
    store = {"store": SDK.LocalAgentStoreConfig(type="jsonl", root_dir=root)} if form == "jsonl" else {}
    return SDK.LocalAgentOptions(cwd=cwd, **store)


def turns(run: Any) -> list[Any]:
    """A run's conversation as JSON."""
    found: list[Any] = plain(run.conversation())
    return found


def plain(value: Any) -> Any:
    """The SDK's values as JSON, without what is not set."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return plain({name: inner for name, inner in fields.items() if inner is not None})
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def tell(**facts: Any) -> None:
    """One line on stdout."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
