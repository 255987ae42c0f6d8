"""Scripts: what a prompt tells the demo agent to do."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
GARBAGE = ("notjson", "notutf8", "long")
SIGNALS = ("KILL", "TERM", "INT", "HUP", "ABRT", "SEGV", "QUIT")

# The key that names a step: the keys that it may have besides.
STEPS: dict[str, tuple[str, ...]] = {
    "say": ("chunk", "delay"),
    "think": ("chunk", "delay"),
    "tool": ("run", "ask"),
    "parallel": (),
    "sleep": (),
    "spew": (),
    "garbage": ("bytes",),
    "stderr": (),
    "usage": (),
    "sum": (),
    "stop": (),
    "error": (),
    "die": ("delay",),
    "hang": (),
}


class BadScript(Exception):
    """A script that cannot be followed, and why."""


def steps(prompt: str) -> list[dict[str, Any]]:
    """What to do for this prompt."""
    found = _last(prompt)
    if found is None:
        return friendly(prompt)
    for step in found:
        check(step)
    return found


def kind(step: dict[str, Any]) -> str:
    """The key that names the step."""
    return next(key for key in step if key in STEPS)


def check(step: Any, within: str | None = None) -> None:
    """Refuse a step that is not as the package's text says."""
    if type(step) is not dict:
        raise BadScript(f"a step is an object, not {step!r:.80}")
    kinds = [key for key in step if key in STEPS]
    if len(kinds) != 1:
        raise BadScript(f"a step needs one of {', '.join(STEPS)}: {step!r:.80}")
    name = kinds[0]
    odd = [key for key in step if key != name and key not in STEPS[name]]
    if odd:
        raise BadScript(f"a step «{name}» has no «{odd[0]}»")
    if within is not None and name not in ("tool", "die"):
        raise BadScript(f"«{within}» takes tools, and one «die»; not «{name}»")
    _check_value(name, step)
    if name == "parallel":
        for part in step["parallel"]:
            check(part, name)
        if sum("die" in part for part in step["parallel"]) > 1:
            raise BadScript("one can die only once")


def _check_value(name: str, step: dict[str, Any]) -> None:
    value = step[name]
    good = {
        "parallel": type(value) is list,
        "sleep": _is_number(value),
        "spew": type(value) is int and value >= 0,
        "garbage": value in GARBAGE,
        "usage": type(value) is dict,
        "sum": value is True,
        "stop": value in STOPS,
        "die": (type(value) is int and 0 <= value < 256) or value in SIGNALS,
        "hang": value is True or value == "deaf",
    }.get(name, type(value) is str)
    if name == "tool":
        good = good and type(step.get("run")) is str and type(step.get("ask", False)) is bool
    for key in ("chunk", "bytes"):
        good = good and (key not in step or (type(step[key]) is int and step[key] > 0))
    good = good and ("delay" not in step or _is_number(step["delay"]))
    if not good:
        raise BadScript(f"that is no step «{name}»: {step!r:.80}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9


def _last(prompt: str) -> list[Any] | None:
    """The last script in the prompt: an earlier one may be quoted from an earlier run."""
    found: list[Any] | None = None
    bad: str | None = None
    decode = json.JSONDecoder().raw_decode
    at = prompt.find("<<[")
    while at >= 0:
        end = at + 2
        try:
            value, end = decode(prompt, at + 2)
        except ValueError as problem:
            bad = str(problem)
        else:
            if prompt.startswith(">>", end):
                found = value
            else:
                bad = f"no >> after its end at character {end}"
        at = prompt.find("<<[", end)
    if found is None and bad is not None:
        raise BadScript(f"the script in the prompt cannot be read: {bad}")
    return found


def friendly(prompt: str) -> list[dict[str, Any]]:
    """The run for a prompt that has no script."""
    said = " ".join(prompt.split())
    if len(said) > 60:
        said = said[:59] + "…"
    return [
        {
            "say": "I am Holdfast's demo agent: no model, only a script, but a real process. "
            f"You said «{said}», so I will look around.",
            "chunk": 16,
            "delay": 0.02,
        },
        {"tool": "shell", "run": "pwd"},
        {"tool": "shell", "run": "ls -A | head -n 5"},
        {"sum": True},
    ]
