"""Logs as tests compare them: what was said and done, without times, durations and ids."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.agents.fake_model.script import Step

Json = dict[str, Any]

SPOKEN = ("user", "assistant", "thinking", "tool_progress", "tool_summary")
TOLD = (*SPOKEN, "permission", "notice", "error")


class Event(NamedTuple):
    """One event without what differs from run to run."""

    kind: str
    body: str  # JSON


def plain(log: Iterable[Json], *, hide: dict[str, str]) -> list[Event]:
    """The conversation in a log; ids are numbered as they come, `hide` gives words a stand-in."""
    names: dict[str, str] = {}
    found = []
    for event in log:
        if event["kind"] in TOLD:
            body = {key: _named(names, key, event["body"][key]) for key in event["body"]}
            text = json.dumps(body, sort_keys=True, ensure_ascii=False)
            for word, stand_in in hide.items():
                text = text.replace(word, stand_in)
            found.append(Event(event["kind"], text))
    return found


def _named(names: dict[str, str], key: str, value: Any) -> Any:
    if key in ("call", "ask") and value is not None:
        return names.setdefault(str(value), f"{key} {len(names) + 1}")
    return None if key == "duration_ms" else value


def spoken(log: Iterable[Json]) -> list[Json]:
    """What was said and done."""
    return [event for event in log if event["kind"] in SPOKEN]


def expected(prompt: str, steps: Iterable[Step]) -> list[tuple[str, str]]:
    """What a script must come to: (kind, the words that identify it), in order."""
    found = [("user", prompt)]
    for step in steps:
        if step.think:
            found.append(("thinking", step.think))
        if text := step.text or step.say:
            found.append(("assistant", text))
        for call in step.all_calls():
            found.append(("tool_progress", call.shell or ""))
            found.append(("tool_summary", "ok"))
    return found


def gist(log: Iterable[Json]) -> list[tuple[str, str]]:
    """The same of a log; of a tool's input the command, wherever the agent puts it."""
    return [(event["kind"], _gist(event["kind"], event["body"])) for event in spoken(log)]


def _gist(kind: str, body: Json) -> str:
    if kind == "tool_progress":
        given = body["input"]
        return _command(given) if isinstance(given, dict) else str(given)
    return str(body["outcome"] if kind == "tool_summary" else body["text"])


def _command(given: Json) -> str:
    keys = ("command", "cmd", "title")  # of Gemini there is only a title
    found = next((given[key] for key in keys if key in given), json.dumps(given))
    text = found[-1] if isinstance(found, list) else str(found)
    for shell in ("/bin/bash -lc ", "/usr/bin/bash -lc ", "bash -lc "):  # Codex
        if text.startswith(shell):
            text = text[len(shell) :]
            return text[1:-1] if text[:1] in "'\"" and text[:1] == text[-1:] else text
    return text
