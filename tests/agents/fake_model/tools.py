"""Which of an agent's tools runs a shell command, and how it is called."""

from __future__ import annotations

from typing import Any

Tools = dict[str, dict[str, Any]]  # name: JSON schema of its arguments

SHELLS = (
    "exec_command",
    "shell_command",
    "local_shell",
    "shell",
    "bash",
    "Bash",
    "Shell",
    "run_shell_command",
)


def shell_call(tools: Tools, command: str, more: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call that runs `command`: name and arguments; of `more` what the tool knows."""
    for name in SHELLS:
        if name in tools:
            known = tools[name].get("properties") or {}
            return name, _arguments(known, command) | {key: more[key] for key in more if key in known}
    return "no_shell_tool", {"have": sorted(tools)}


def _arguments(known: dict[str, Any], command: str) -> dict[str, Any]:
    given: dict[str, Any]
    if "cmd" in known:
        given = {"cmd": command}
    elif known.get("command", {}).get("type") == "array":
        given = {"command": ["bash", "-lc", command]}
    else:
        given = {"command": command}
    if "description" in known:
        given["description"] = "run a command"
    return given


def filled(schema: dict[str, Any]) -> Any:
    """Something of the shape that a schema asks for."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type") or "").lower()
    if kind == "object":
        return {name: filled(of) for name, of in (schema.get("properties") or {}).items()}
    return {"array": [], "string": "fake", "integer": 1, "number": 1, "boolean": False}.get(kind)
