"""How do tool calls in a rollout begin and end?"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.agents.codex.records import texts
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import parse, text_field

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
WHOLE = frozenset({"web_search_call", "image_generation_call"})  # run by the service; they have no output

# Items and events that hold a call's result beside its output for the model.
ENDINGS = frozenset(
    {
        "CommandExecution",
        "FileChange",
        "McpToolCall",
        "DynamicToolCall",
        "CollabAgentToolCall",
        "exec_command_end",
        "patch_apply_end",
        "mcp_tool_call_end",
    }
)

_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?aborted(?: by user(?: after [\d.]+s)?)?")
# How the harness tells the model that a call failed.
_REFUSED = (
    "unsupported call: ",
    "failed to parse function arguments",
    "exec_command failed",
    "apply_patch verification failed",
)
_HEAD = 400  # characters of an output that may hold the exit code


class CodexToolCall(msgspec.Struct):
    """One open call."""

    id: str
    name: str
    input: Any
    ending: CodexCallResult | None = None


class CodexCallResult(msgspec.Struct, frozen=True):
    """How a call ended."""

    outcome: str
    output: str = ""
    exit_code: int | None = None
    command: str | None = None


def begin(what: str, payload: dict[str, Any]) -> CodexToolCall | None:
    """The call that an item of a kind in `CALLS` or `WHOLE` begins; None if it has no id."""
    id = text_field(payload, "call_id") or text_field(payload, "id")
    if not id:
        return None
    if what == "local_shell_call":
        return CodexToolCall(id, "local_shell", payload.get("action"))
    if what == "tool_search_call":
        return CodexToolCall(id, "tool_search", payload.get("arguments"))
    if what == "web_search_call":
        action = payload.get("action")
        query = action.get("query") if isinstance(action, dict) else None
        return CodexToolCall(id, "web_search", {"query": query, "action": action})
    if what == "image_generation_call":
        return CodexToolCall(id, "image_generation", {"prompt": payload.get("revised_prompt")})
    if what == "custom_tool_call":
        return CodexToolCall(id, text_field(payload, "name") or what, payload.get("input"))
    return CodexToolCall(id, text_field(payload, "name") or what, _arguments(payload.get("arguments")))


def output(payload: dict[str, Any]) -> CodexCallResult:
    """The output in an item of a kind in `OUTPUTS`."""
    content = payload.get("output", payload.get("tools"))
    failed = False
    if isinstance(content, dict):  # before September 2025
        failed = content.get("success") is False
        content = content.get("content")
    text = content if isinstance(content, str) else _listed(content)
    code = _exit_code(text)
    if _ABORTED.fullmatch(text.strip()):
        return CodexCallResult("interrupted", text)
    return CodexCallResult("error" if failed or code or text.startswith(_REFUSED) else "ok", text, code)


def ending(item: dict[str, Any]) -> tuple[str, CodexCallResult] | None:
    """The call of an item or event of a kind in `ENDINGS`, and how it ended."""
    id = text_field(item, "call_id") or text_field(item, "id")
    if not id:
        return None
    code = item.get("exit_code")
    known = code if type(code) is int else None
    printed = item.get("aggregated_output")
    if not isinstance(printed, str):
        printed = "\n".join(t for t in (text_field(item, "stdout"), text_field(item, "stderr")) if t)
    return id, CodexCallResult("error" if _has_failed(item, known) else "ok", printed, known, _command(item))


def _has_failed(item: dict[str, Any], code: int | None) -> bool:
    result = item.get("result")
    if isinstance(result, dict):
        inner = result.get("Ok", result)
        told_error = "Err" in result or (isinstance(inner, dict) and inner.get("isError") is True)
        if told_error:
            return True
    return bool(
        code
        or item.get("success") is False
        or item.get("error")
        or item.get("status") in ("failed", "declined")
    )


def _command(item: dict[str, Any]) -> str | None:
    command = item.get("command")
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return command if isinstance(command, str) else None


def _arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    value = parse(raw.encode(errors="surrogatepass"))
    return raw if isinstance(value, NewEvent) else value


def _listed(value: Any) -> str:
    if value is None:
        return ""
    lines = texts(value)
    return "\n".join(lines) if lines else encode(value).decode()


def _exit_code(text: str) -> int | None:
    if text.startswith("{"):
        value = parse(text.encode(errors="surrogatepass"))
        metadata = value.get("metadata") if isinstance(value, dict) else None
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        return code if type(code) is int else None
    head = text[:_HEAD].split("\nOutput:", 1)[0]
    match = _EXITED.search(head)
    return int(match[1]) if match and len(match[1]) < 12 else None
