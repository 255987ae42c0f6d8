"""The tool calls in a checkpoint's blobs: which tool, its input, and how it ended."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from holdfast.history.cursor import moment
from holdfast.history.cursor.protobuf import Message
from holdfast.history.cursor.results import streams

# The members of ToolCall's oneof, under the names that the SDK's run events use.
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
_ABOUT = frozenset({54, 57, 59, 60})  # fields of ToolCall that are no tool
_ID, _STARTED, _ENDED = 57, 59, 60
_ARGS, _RESULT = 1, 2
_SUCCESS = 1  # in every result; whatever else is set there is a failure

# The arguments whose numbers are known: a name, and whether it is a list.
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


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a checkpoint."""

    id: str  # empty if it has none
    name: str
    input: dict[str, Any]
    known: bool  # whether its input was read by name
    outcome: str | None  # None: it has no result
    output: str = ""
    exit_code: int | None = None
    started: str | None = None
    ended: str | None = None


def read(data: bytes) -> Call:
    """What a ToolCall says; one of a tool that is not known here has its fields by number."""
    call = Message(data)
    number = next((n for n in call.numbers if n not in _ABOUT and call.one(n) is not None), 0)
    name = NAMES.get(number, f"tool-{number}")
    member = call.inside(number) or Message(b"")
    args = member.inside(_ARGS) or Message(b"")
    result = member.inside(_RESULT)
    found = _ended(name, result) if result is not None else {"outcome": None}
    return Call(
        id=call.text(_ID) or (args.text(_CALL_ID[name]) if name in _CALL_ID else ""),
        name=name,
        input=_input(name, args),
        known=name in _INPUTS,
        started=moment.of(call.number(_STARTED)),
        ended=moment.of(call.number(_ENDED)),
        **found,
    )


def _input(name: str, args: Message) -> dict[str, Any]:
    known = _INPUTS.get(name)
    if known is None:
        return {str(number): _any(args, number) for number in args.numbers}
    found: dict[str, Any] = {}
    for number, label in known.items():
        if (value := args.number(number)) is not None:
            found[label] = bool(value) if label in _BOOLEAN else value
        elif args.one(number) is not None:
            found[label] = args.text(number)
    return found


def _any(args: Message, number: int) -> Any:
    """A field without a schema: a number, else its texts, else its bytes."""
    if (value := args.number(number)) is not None:
        return value
    data = args.one(number) or b""
    texts = Message(b"\x0a" + _size(data) + data).strings()
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


def _ended(name: str, result: Message) -> dict[str, Any]:
    case = next((n for n in result.numbers if n < 100 and result.one(n) is not None), None)
    inner = (result.inside(case) if case is not None else None) or Message(b"")
    failed = case is not None and case != _SUCCESS
    if name == "shell" and (case == _SUCCESS or case == 2):
        code = inner.number(_EXIT_CODE) or 0  # protobuf leaves a 0 out
        text = streams(inner.text(_STDOUT), inner.text(_STDERR))
        return {"outcome": "error" if failed or code else "ok", "output": text, "exit_code": code}
    return {"outcome": "error" if failed else "ok", "output": "\n".join(inner.strings())}
