"""Tool calls in a rollout: how they begin, and what tells how they ended."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.agents.codex.records import texts
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import parse, word

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
WHOLE = frozenset({"web_search_call", "image_generation_call"})  # the service ran them; they have no output

# An item or event that tells how a call ended, beside its output for the model.
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
# How the harness tells the model that a call came to nothing.
_REFUSED = (
    "unsupported call: ",
    "failed to parse function arguments",
    "exec_command failed",
    "apply_patch verification failed",
)
_HEAD = 400  # characters of an output that may hold its exit code


class CodexToolCall(msgspec.Struct):
    """One call, while it is open."""

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
    id = word(payload, "call_id") or word(payload, "id")
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
        return CodexToolCall(id, word(payload, "name") or what, payload.get("input"))
    return CodexToolCall(id, word(payload, "name") or what, _arguments(payload.get("arguments")))


def output(payload: dict[str, Any]) -> CodexCallResult:
    """What an item of a kind in `OUTPUTS` tells."""
    told = payload.get("output", payload.get("tools"))
    failed = False
    if isinstance(told, dict):  # before September 2025
        failed = told.get("success") is False
        told = told.get("content")
    text = told if isinstance(told, str) else _listed(told)
    code = _exit_code(text)
    if _ABORTED.fullmatch(text.strip()):
        return CodexCallResult("interrupted", text)
    return CodexCallResult("error" if failed or code or text.startswith(_REFUSED) else "ok", text, code)


def ending(item: dict[str, Any]) -> tuple[str, CodexCallResult] | None:
    """Which call an item or event of a kind in `ENDINGS` is of, and how it says that it ended."""
    id = word(item, "call_id") or word(item, "id")
    if not id:
        return None
    code = item.get("exit_code")
    known = code if type(code) is int else None
    printed = item.get("aggregated_output")
    if not isinstance(printed, str):
        printed = "\n".join(t for t in (word(item, "stdout"), word(item, "stderr")) if t)
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
        return " ".join(str(word) for word in command)
    return command if isinstance(command, str) else None


def _arguments(told: Any) -> Any:
    if not isinstance(told, str):
        return told
    value = parse(told.encode(errors="surrogatepass"))
    return told if isinstance(value, NewEvent) else value


def _listed(told: Any) -> str:
    if told is None:
        return ""
    found = texts(told)
    return "\n".join(found) if found else encode(told).decode()


def _exit_code(text: str) -> int | None:
    if text.startswith("{"):
        value = parse(text.encode(errors="surrogatepass"))
        metadata = value.get("metadata") if isinstance(value, dict) else None
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        return code if type(code) is int else None
    head = text[:_HEAD].split("\nOutput:", 1)[0]
    found = _EXITED.search(head)
    return int(found[1]) if found and len(found[1]) < 12 else None
