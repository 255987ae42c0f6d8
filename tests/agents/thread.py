"""One key of a laboratory: prompts that are dispatched to it, and what is judged of its session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from tests.agents.fake_model.script import Step, prompt
from tests.agents.holdfast import Task
from tests.agents.lab import Lab
from tests.agents.waiting import until

Json = dict[str, Any]


def dispatch(lab: Lab, steps: Sequence[Step], *words: str) -> tuple[str, Task]:
    """A prompt for the one thread; its words and its task."""
    said = lab.words()
    given = words or ("run", "-a", lab.agent.name, "--key", "k", "--cwd", lab.agent.cwd)
    made = json.loads(
        lab.holdfast.call(*given, "--permissions", "allow", "--detach", "--json", prompt(said, steps))
    )
    return said, Task(lab.holdfast, made["task"], cast(Any, None))  # nobody looks at it


def judged(lab: Lab, name: str = "k") -> Json:
    """The whole verdict."""
    found: Json = json.loads(lab.holdfast.call("verdict", name, "--json"))
    return found


def verdict(lab: Lab, name: str = "k") -> tuple[str, list[str]]:
    """What may be done, and the codes of the reasons."""
    found = judged(lab, name)
    return found["action"], [reason["code"] for reason in found["reasons"]]


def settled(lab: Lab) -> tuple[str, list[str]]:
    """The verdict once nothing has to be waited for."""
    until(lambda: verdict(lab)[0] != "wait", "nothing has to be waited for", 90, every_s=0.3)
    return verdict(lab)


def history(lab: Lab, words: str) -> list[str]:
    """The prompts that the model was shown with the last request of a run."""
    return list(lab.model.journal.scripted(words)[-1].prompts)


def tokens(lab: Lab, session: str, status: str = "current") -> list[str]:
    """The native ids of a session that stand so in its lineage."""
    shown = json.loads(lab.holdfast.call("show", session, "--json"))
    return [token["native_id"] for token in shown["tokens"] if token["status"] == status]


def transcript(lab: Lab, task: Json) -> str:
    """Where the agent keeps the conversation of a task."""
    native_id = task["outcome"]["native_id"]
    found = json.loads(lab.holdfast.call("inspect", lab.agent.name, native_id, "--json"))
    path: str = found["path"]
    return path
