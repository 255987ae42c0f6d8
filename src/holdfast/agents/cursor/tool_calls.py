"""Which tool calls do a checkpoint's blobs hold: the tool, its input, and its result?"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.acp.content import block_text, join_surrogates, raw_text
from holdfast.agents.cursor.protobuf import ProtobufMessage
from holdfast.model.json_codec import encode


def content(message: Any, names: bool = True) -> str:
    """The text of a message's content; other blocks are named by type, or left out."""
    blocks = message.get("content") if isinstance(message, dict) else None
    if isinstance(blocks, str):
        return blocks
    if not isinstance(blocks, list):
        return ""
    texts = [
        block_text(b) for b in blocks if names or (isinstance(b, dict) and isinstance(b.get("text"), str))
    ]
    return join_surrogates("".join(texts))


def result(reported: Any, status: Any) -> dict[str, Any]:
    """Outcome and output of a call that ended.

    The SDK reports `completed`, with `success` inside, even if a command's exit code is not 0.
    """
    inner = reported if isinstance(reported, dict) else {}
    value = inner.get("value")
    failed = status == "error" or inner.get("status") == "error"
    code = value.get("exitCode") if isinstance(value, dict) else None
    body: dict[str, Any] = {"outcome": "error" if failed or code not in (None, 0) else "ok"}
    body["output"] = output(inner.get("error") if inner.get("status") == "error" else value)
    if "status" not in inner and reported is not None:
        body["output"] = output(reported)
    if type(code) is int:
        body["exit_code"] = code
    return body


def output(value: Any) -> str:
    """A result as text: a command's two streams, its text field, or all of it."""
    if isinstance(value, dict) and ("stdout" in value or "stderr" in value):
        return streams(value.get("stdout"), value.get("stderr"))
    if isinstance(value, dict):
        for key in ("content", "diffString", "message"):
            if isinstance(text := value.get(key), str) and text:
                return text
        if isinstance(blocks := value.get("content"), list) and (text := "\n".join(_texts(blocks))):
            return text
    if isinstance(value, list):
        return encode(value).decode() if value else ""
    return raw_text(value)


def streams(out: Any, err: Any) -> str:
    """Both streams of a command, each on its own lines."""
    texts = [text for text in (out, err) if isinstance(text, str) and text]
    if len(texts) == 2 and not texts[0].endswith("\n"):
        texts[0] += "\n"
    return join_surrogates("".join(texts))


def _texts(blocks: list[Any]) -> list[str]:
    """Texts in MCP content blocks, possibly one level deeper."""
    texts = []
    for block in blocks:
        inner = block.get("text") if isinstance(block, dict) else None
        texts.append(block_text(inner) if isinstance(inner, dict) else block_text(block))
    return [text for text in texts if text]


# --- Calls in a checkpoint

# The members of ToolCall's oneof, with the names that the SDK's run events use.
NAMES = {
    1: "shell",
    3: "delete",
    4: "glob",
    5: "grep",
    8: "read",
    9: "updateTodos",
    10: "readTodos",
    12: "edit",
    13: "ls",
    14: "readLints",
    15: "mcp",
    16: "semSearch",
    17: "createPlan",
    18: "webSearch",
    19: "task",
    20: "listMcpResources",
    21: "readMcpResource",
    22: "applyAgentDiff",
    23: "askQuestion",
    24: "fetch",
    25: "switchMode",
    28: "generateImage",
    29: "recordScreen",
    30: "computerUse",
    31: "writeShellStdin",
    37: "webFetch",
    42: "await",
}
_ABOUT = frozenset({54, 57, 59, 60})  # fields of ToolCall that are not tools
_ID, _STARTED, _ENDED = 57, 59, 60
_ARGS, _RESULT = 1, 2
_SUCCESS = 1  # in every result; any other field is a failure

# The arguments with known numbers.
_INPUTS: dict[str, dict[int, str]] = {
    "shell": {1: "command", 2: "workingDirectory", 3: "timeout"},
    "delete": {1: "path"},
    "glob": {1: "targetDirectory", 2: "globPattern"},
    "grep": {
        1: "pattern",
        2: "path",
        3: "glob",
        4: "outputMode",
        8: "caseInsensitive",
        9: "type",
        11: "multiline",
    },
    "read": {1: "path", 2: "offset", 3: "limit"},
    "edit": {1: "path", 6: "streamContent"},
    "ls": {1: "path"},
    "webSearch": {1: "searchTerm"},
    "webFetch": {1: "url"},
    "fetch": {1: "url"},
    "semSearch": {1: "query"},
    "task": {1: "description", 2: "prompt"},
}
_CALL_ID = {"shell": 4, "delete": 2, "grep": 14, "ls": 3, "mcp": 3, "webSearch": 2, "webFetch": 2, "fetch": 2}
_BOOLEAN = frozenset({"caseInsensitive", "multiline"})
_EXIT_CODE, _STDOUT, _STDERR = 3, 5, 6
_LONGEST_RAW = 64 * 1024


class CheckpointCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a checkpoint."""

    id: str  # empty if it has none
    name: str
    input: dict[str, Any]
    known: bool  # its input was read by name
    outcome: str | None  # None: it has no result
    output: str = ""
    exit_code: int | None = None
    started: str | None = None
    ended: str | None = None


def read(data: bytes) -> CheckpointCall:
    """Parse a ToolCall; an unknown tool has its fields by number."""
    call = ProtobufMessage(data)
    number = next((n for n in call.numbers if n not in _ABOUT and call.one(n) is not None), 0)
    name = NAMES.get(number, f"tool-{number}")
    member = call.inside(number) or ProtobufMessage(b"")
    args = member.inside(_ARGS) or ProtobufMessage(b"")
    result = member.inside(_RESULT)
    outcome = _call_result(name, result) if result is not None else {"outcome": None}
    return CheckpointCall(
        id=call.text(_ID) or (args.text(_CALL_ID[name]) if name in _CALL_ID else ""),
        name=name,
        input=_input(name, args),
        known=name in _INPUTS,
        started=timestamps.of(call.number(_STARTED)),
        ended=timestamps.of(call.number(_ENDED)),
        **outcome,
    )


def _input(name: str, args: ProtobufMessage) -> dict[str, Any]:
    known = _INPUTS.get(name)
    if known is None:
        return {str(number): _any(args, number) for number in args.numbers}
    fields: dict[str, Any] = {}
    for number, label in known.items():
        if (value := args.number(number)) is not None:
            fields[label] = bool(value) if label in _BOOLEAN else value
        elif args.one(number) is not None:
            fields[label] = args.text(number)
    return fields


def _any(args: ProtobufMessage, number: int) -> Any:
    """A field without a schema: an integer, else its texts, else its bytes."""
    if (value := args.number(number)) is not None:
        return value
    data = args.one(number) or b""
    texts = ProtobufMessage(b"\x0a" + _size(data) + data).strings()
    if texts:
        return texts[0] if len(texts) == 1 else texts
    return base64.b64encode(data[:_LONGEST_RAW]).decode()


def _size(data: bytes) -> bytes:
    size, out = len(data), bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def _call_result(name: str, result: ProtobufMessage) -> dict[str, Any]:
    case = next((n for n in result.numbers if n < 100 and result.one(n) is not None), None)
    inner = (result.inside(case) if case is not None else None) or ProtobufMessage(b"")
    failed = case is not None and case != _SUCCESS
    if name == "shell" and (case == _SUCCESS or case == 2):
        code = inner.number(_EXIT_CODE) or 0  # protobuf omits a 0
        text = streams(inner.text(_STDOUT), inner.text(_STDERR))
        return {"outcome": "error" if failed or code else "ok", "output": text, "exit_code": code}
    return {"outcome": "error" if failed else "ok", "output": "\n".join(inner.strings())}
