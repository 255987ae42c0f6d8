"""Which fields of a transcript record say what was said and done?"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.agents.claude import stream

NOTHING = msgspec.Raw()


class ClaudeMessage(msgspec.Struct, gc=False):
    """A message to the model or from it."""

    id: str | None = None
    model: str | None = None
    content: Any = None
    stop_reason: Any = None


class ClaudeRecord(msgspec.Struct, gc=False, rename="camel"):
    """A record. A field with an unexpected type is treated as absent."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None  # set on a compaction record, which starts a new chain
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    timestamp: str | None = None
    session_id: str | None = None
    subtype: str | None = None
    message: ClaudeMessage | None = None
    attachment: msgspec.Raw = NOTHING  # most are long, and few are used
    tool_use_result: msgspec.Raw = NOTHING
    content: Any = None
    error: Any = None
    origin: Any = None


class _ResultBlock(msgspec.Struct, gc=False):
    tool_use_id: str | None = None


class _MessageContent(msgspec.Struct, gc=False):
    content: list[_ResultBlock] | str | None = None


class ClaudeRecordHead(msgspec.Struct, gc=False, rename="camel"):
    """The fields that give a record's position in the chain."""

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
    """A record with some unusual fields, or one that only the standard library can parse."""
    record = ClaudeRecord(content=value.get("content"), error=value.get("error"), origin=value.get("origin"))
    for names, kind in ((_TEXTS, str), (_SIGNS, bool)):
        for name in names:
            if isinstance(field := value.get(_KEYS[name]), kind):
                setattr(record, name, field)
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


def parse_raw(raw: msgspec.Raw) -> dict[str, Any]:
    """Parse a raw object; empty if it is not one."""
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
    """The content blocks of its message in any form."""
    content = record.message.content if record.message is not None else None
    if type(content) is list:
        return [block for block in content if type(block) is dict]
    return [{"type": "text", "text": content}] if type(content) is str else []


def _raw(value: Any) -> msgspec.Raw:
    if value is None:
        return NOTHING
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):  # lone surrogates and similar
        return NOTHING


# --- Record types of a transcript (names as in 2.1.325 and before)

# The conversation: these have a uuid and a parent.
CHAIN = frozenset({"assistant", "attachment", "system", "user"})

# Bookkeeping of the CLI, not about the work.
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


# --- The speaker of a `user` record: a person, or the CLI on a person's behalf

Speaker = Literal["prompt", "told", "interrupted", "results"]

UNKNOWN = "[Tool call interrupted"  # the result that a resume by 2.1.265 and later gives a call without one

# How texts begin that no person wrote. A command that is a prompt begins with its message, one that the CLI
# runs itself with its name.
CLI_TEXT_MARKERS = (
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


def user_speaker(record: ClaudeRecord) -> Speaker:
    """The speaker of a `user` record."""
    content = record.message.content if record.message is not None else None
    if type(content) is list:
        for block in content:
            if type(block) is dict and type(block.get("tool_use_id")) is str:
                return "results"
    return _speaker(content, bool(record.is_meta or record.is_compact_summary), record.origin)


def queued_prompt(record: ClaudeRecord) -> tuple[Speaker, str] | None:
    """The speaker and text of an `attachment` queued during a turn; None for other attachments."""
    attachment = (
        parse_raw(record.attachment) if b"queued_command" in memoryview(record.attachment).tobytes() else {}
    )
    if attachment.get("type") != "queued_command":
        return None
    prompt = attachment.get("prompt")
    meta = bool(attachment.get("isMeta")) or attachment.get("commandMode") not in (None, "prompt")
    return _speaker(prompt, meta, attachment.get("origin")), stream.content_text(prompt)


def _speaker(content: Any, meta: bool, origin: Any) -> Speaker:
    text = first_text(content)
    if text.startswith(stream.INTERRUPT_MARK):
        return "interrupted"
    if meta or text.startswith(CLI_TEXT_MARKERS):
        return "told"
    kind = origin.get("kind") if type(origin) is dict else None
    return "told" if type(kind) is str and kind in NO_PERSON else "prompt"


def first_text(content: Any) -> str:
    """The first text of a message."""
    if type(content) is str:
        return content
    for block in content if type(content) is list else ():
        if type(block) is dict and type(block.get("text")) is str:
            text: str = block["text"]
            return text
    return ""
