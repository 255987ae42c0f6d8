"""The items of `codex exec --json` that are tools: what was called, and how it ended."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model import text

TOOLS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"})


class Tool(msgspec.Struct, frozen=True):
    """One call, as far as it is told."""

    name: str
    input: Any
    outcome: str
    output: str
    exit_code: int | None = None


def tool(item: dict[str, Any]) -> Tool:
    """What an item of a kind in `TOOLS` says."""
    kind = item["type"]
    if kind == "command_execution":
        return _command(item)
    if kind == "file_change":
        changes = item.get("changes")
        return Tool("file_change", {"changes": changes}, _outcome(item), _changes(changes))
    if kind == "mcp_tool_call":
        return _mcp(item)
    if kind == "web_search":
        keep = {key: item[key] for key in ("query", "action") if key in item}
        return Tool("web_search", keep, _outcome(item), "")
    rest = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
    return Tool(str(item.get("tool") or kind), rest, _outcome(item), "")


def _command(item: dict[str, Any]) -> Tool:
    output = item.get("aggregated_output")
    code = item.get("exit_code")
    outcome = _outcome(item)
    if outcome == "ok" and type(code) is int and code != 0:
        outcome = "error"
    return Tool(
        "command_execution",
        {"command": item.get("command")},
        outcome,
        output if isinstance(output, str) else "",
        code if type(code) is int else None,
    )


def _mcp(item: dict[str, Any]) -> Tool:
    name = ".".join(str(item[key]) for key in ("server", "tool") if item.get(key))
    error, result = item.get("error"), item.get("result")
    if isinstance(error, dict):
        output = str(error.get("message") or text.encode(error).decode())
    else:
        output = _content(result)
    return Tool(name or "mcp_tool_call", item.get("arguments"), _outcome(item), output)


def _content(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return "" if result is None else text.encode(result).decode()
    return "\n".join(
        block["text"] if isinstance(block.get("text"), str) else f"[{block.get('type')}]"
        for block in content
        if isinstance(block, dict)
    )


def _changes(changes: Any) -> str:
    listed = changes if isinstance(changes, list) else []
    return "\n".join(f"{c.get('kind')} {c.get('path')}" for c in listed if isinstance(c, dict))


def _outcome(item: dict[str, Any]) -> str:
    return "error" if item.get("status") in ("failed", "declined") or item.get("error") else "ok"
