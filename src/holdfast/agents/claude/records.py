"""One record of a transcript: the few of its many fields that tell what was said and done."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.agents.claude import stream

NOTHING = msgspec.Raw()


class ClaudeMessage(msgspec.Struct, gc=False):
    """What was sent to the model or came from it."""

    id: str | None = None
    model: str | None = None
    content: Any = None
    stop_reason: Any = None


class ClaudeRecord(msgspec.Struct, gc=False, rename="camel"):
    """A record; fields of another type than they should have are as if they were not there."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None  # of a compaction's mark, which begins a chain of its own
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    timestamp: str | None = None
    session_id: str | None = None
    subtype: str | None = None
    message: ClaudeMessage | None = None
    attachment: msgspec.Raw = NOTHING  # most are long, and few are looked at
    tool_use_result: msgspec.Raw = NOTHING
    content: Any = None
    error: Any = None
    origin: Any = None


class _ResultBlock(msgspec.Struct, gc=False):
    tool_use_id: str | None = None


class _MessageContent(msgspec.Struct, gc=False):
    content: list[_ResultBlock] | str | None = None


class ClaudeRecordHead(msgspec.Struct, gc=False, rename="camel"):
    """As much of a record as tells its place."""

    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    message: _MessageContent | None = None


decode = msgspec.json.Decoder(ClaudeRecord).decode
decode_head = msgspec.json.Decoder(ClaudeRecordHead).decode

_TEXTS = ("type", "uuid", "parent_uuid", "logical_parent_uuid", "timestamp", "session_id", "subtype")
_SIGNS = ("is_sidechain", "is_meta", "is_compact_summary", "is_api_error_message")
_KEYS = {field.name: field.encode_name for field in msgspec.structs.fields(ClaudeRecord)}
_decode_any = msgspec.json.Decoder().decode


def lenient(value: dict[str, Any]) -> ClaudeRecord:
    """A record of which some fields are odd, or which only the standard library can read."""
    record = ClaudeRecord(content=value.get("content"), error=value.get("error"), origin=value.get("origin"))
    for names, kind in ((_TEXTS, str), (_SIGNS, bool)):
        for name in names:
            if isinstance(told := value.get(_KEYS[name]), kind):
                setattr(record, name, told)
    message = value.get("message")
    if isinstance(message, dict):
        record.message = ClaudeMessage(
            id=message["id"] if isinstance(message.get("id"), str) else None,
            model=message["model"] if isinstance(message.get("model"), str) else None,
            content=message.get("content"),
            stop_reason=message.get("stop_reason"),
        )
    record.attachment = _raw(value.get("attachment"))
    record.tool_use_result = _raw(value.get("toolUseResult"))
    return record


def inside(raw: msgspec.Raw) -> dict[str, Any]:
    """An object that was not looked at before; empty if it is none."""
    if not len(memoryview(raw)):
        return {}
    try:
        value = _decode_any(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parent(record: ClaudeRecord | ClaudeRecordHead) -> str | None:
    """The record that it follows."""
    return record.parent_uuid or record.logical_parent_uuid


def blocks(record: ClaudeRecord) -> list[dict[str, Any]]:
    """The content blocks of its message, however they were given."""
    content = record.message.content if record.message is not None else None
    if type(content) is list:
        return [block for block in content if type(block) is dict]
    return [{"type": "text", "text": content}] if type(content) is str else []


def _raw(value: Any) -> msgspec.Raw:
    if value is None:
        return NOTHING
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):  # lone surrogates and the like
        return NOTHING


# --- The types of records that a transcript may have (names as in 2.1.325 and before).

# The conversation: they have a uuid and a parent.
CHAIN = frozenset({"assistant", "attachment", "system", "user"})

# Bookkeeping of the CLI that says nothing about the work.
QUIET = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "cost-state",
        "custom-title",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "history-suppression",
        "isolation-latch",
        "last-prompt",
        "memory-mode",
        "mode",
        "observer-ref",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "relocated",
        "repl-mode",
        "resume-head-vouch",
        "session-owner",
        "summary",
        "tag",
        "tools-used",
        "worktree-state",
    }
)
QUIET_SYSTEM = frozenset(
    {
        "agents_killed",
        "away_summary",
        "bridge_state",
        "bridge_status",
        "file_snapshot",
        "memory_saved",
        "permission_retry",
        "stop_hook_summary",
        "thinking",
        "turn_duration",
        "turn_handoff_available",
        "vcs_state_changed",
    }
)


# --- Who speaks in a record of type `user`: a person, or the CLI in a person's place.

Voice = Literal["prompt", "told", "interrupted", "results"]

INTERRUPTED = "[Request interrupted"
UNKNOWN = "[Tool call interrupted"  # the result that a resume by 2.1.265 and later gives a call that has none

# How texts begin that no person wrote. A command that is a prompt begins with its message, and one that
# the CLI carries out itself with its name.
MARKS = (
    "<command-name>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<session-start-hook>",
    "<tick>",
    "Caveat: The messages below were generated by the user while running local commands",
)
NO_PERSON = frozenset(
    {"auto-continuation", "coordinator", "observer-activity", "suggestion", "task-notification"}
)


def of_user(record: ClaudeRecord) -> Voice:
    """Whose words a `user` record has."""
    content = record.message.content if record.message is not None else None
    if type(content) is list:
        for block in content:
            if type(block) is dict and type(block.get("tool_use_id")) is str:
                return "results"
    return _of(content, bool(record.is_meta or record.is_compact_summary), record.origin)


def queued(record: ClaudeRecord) -> tuple[Voice, str] | None:
    """Whose words an `attachment` has that came in the middle of a turn; None if it is another one."""
    attachment = (
        inside(record.attachment) if b"queued_command" in memoryview(record.attachment).tobytes() else {}
    )
    if attachment.get("type") != "queued_command":
        return None
    said = attachment.get("prompt")
    meta = bool(attachment.get("isMeta")) or attachment.get("commandMode") not in (None, "prompt")
    return _of(said, meta, attachment.get("origin")), stream.joined(said)


def _of(content: Any, meta: bool, origin: Any) -> Voice:
    said = first(content)
    if said.startswith("[Request interrupted"):
        return "interrupted"
    if meta or said.startswith(MARKS):
        return "told"
    kind = origin.get("kind") if type(origin) is dict else None
    return "told" if type(kind) is str and kind in NO_PERSON else "prompt"


def first(content: Any) -> str:
    """The first text of a message."""
    if type(content) is str:
        return content
    for block in content if type(content) is list else ():
        if type(block) is dict and type(block.get("text")) is str:
            said: str = block["text"]
            return said
    return ""
