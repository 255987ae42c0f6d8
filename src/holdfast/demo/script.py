"""Scripts: what a prompt makes the demo agent do."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOPS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
GARBAGE = ("notjson", "notutf8", "long")
SIGNALS = ("KILL", "TERM", "INT", "HUP", "ABRT", "SEGV", "QUIT")

# The key that names a step: the other keys that it may have.
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
    """A script that cannot be run, and why."""


def steps(prompt: str) -> list[dict[str, Any]]:
    """The steps for a prompt."""
    steps_found = _last(prompt)
    if steps_found is None:
        return friendly(prompt)
    for step in steps_found:
        check(step)
    return steps_found


def kind(step: dict[str, Any]) -> str:
    """The key that names the step."""
    return next(key for key in step if key in STEPS)


def check(step: Any, within: str | None = None) -> None:
    """Raise BadScript for a step that the package's docstring does not allow."""
    if type(step) is not dict:
        raise BadScript(f"a step is an object, not {step!r:.80}")
    kinds = [key for key in step if key in STEPS]
    if len(kinds) != 1:
        raise BadScript(f"a step needs one of {', '.join(STEPS)}: {step!r:.80}")
    name = kinds[0]
    extra = [key for key in step if key != name and key not in STEPS[name]]
    if extra:
        raise BadScript(f"a step «{name}» has no «{extra[0]}»")
    if within is not None and name not in ("tool", "die"):
        raise BadScript(f"«{within}» takes tools and one «die», not «{name}»")
    _check_value(name, step)
    if name == "parallel":
        for part in step["parallel"]:
            check(part, name)
        if sum("die" in part for part in step["parallel"]) > 1:
            raise BadScript("only one step can die")


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
        raise BadScript(f"not a valid step «{name}»: {step!r:.80}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9


def _last(prompt: str) -> list[Any] | None:
    """The last script in the prompt: an earlier one may be quoted from an earlier run."""
    script: list[Any] | None = None
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
                script = value
            else:
                bad = f"no >> after its end at character {end}"
        at = prompt.find("<<[", end)
    if script is None and bad is not None:
        raise BadScript(f"the script in the prompt cannot be read: {bad}")
    return script


def friendly(prompt: str) -> list[dict[str, Any]]:
    """The steps for a prompt without a script."""
    quoted = " ".join(prompt.split())
    if len(quoted) > 60:
        quoted = quoted[:59] + "…"
    return [
        {
            "say": "I am Holdfast's demo agent: no model, only a script, but a real process. "
            f"You said «{quoted}», so I will look around.",
            "chunk": 16,
            "delay": 0.02,
        },
        {"tool": "shell", "run": "pwd"},
        {"tool": "shell", "run": "ls -A | head -n 5"},
        {"sum": True},
    ]
