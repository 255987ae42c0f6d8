"""What pieces of Claude Code's stream say: content as text or events, a result as a final word."""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp.content import mended
from holdfast.agents.driver import Entry, FinalResult
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl as lines

# Bookkeeping of the CLI that says nothing about the work.
QUIET = frozenset(
    {
        "auth_status",
        "command_lifecycle",
        "keep_alive",
        "prompt_suggestion",
        "tool_progress",
        "tool_use_summary",
        "transcript_mirror",
    }
)
QUIET_SYSTEM = frozenset(
    {
        "background_tasks_changed",
        "elicitation_complete",
        "files_persisted",
        "hook_progress",
        "hook_response",
        "hook_started",
        "post_turn_summary",
        "status",
        "task_progress",
        "thinking_tokens",
        "ui_invalidate",
    }
)

# With `is_error` false these still mean that the prompt was not done (names as in 2.1.325).
UNFINISHED = frozenset(
    {
        "aborted_streaming",
        "aborted_tools",
        "api_error",
        "blocking_limit",
        "budget_exhausted",
        "image_error",
        "malformed_tool_use_exhausted",
        "max_turns",
        "model_error",
        "prompt_too_long",
        "rapid_refill_breaker",
        "structured_output_retry_exhausted",
        "tool_deferred_unavailable",
        "turn_setup_failed",
    }
)


def blocks(message: Any) -> list[dict[str, Any]]:
    """The content blocks of a message, however it was given."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def output(content: Any) -> str:
    """A tool result's content as text; blocks of text are one text, as they are for the model."""
    if isinstance(content, str):
        return content
    whole, after_text = "", True
    for block in blocks({"content": content}):
        is_text = isinstance(block.get("text"), str)
        whole += ("" if (is_text and after_text) or not whole else "\n") + _shown(block)
        after_text = is_text
    return whole


def joined(content: Any) -> str:
    """A content as text, a line for each block; what is no text is named."""
    return content if isinstance(content, str) else "\n".join(map(_shown, blocks({"content": content})))


def _shown(block: dict[str, Any]) -> str:
    if isinstance(text := block.get("text"), str):
        return text
    source = block.get("source")
    media = source.get("media_type") if isinstance(source, dict) else None
    return f"[{' '.join(str(word) for word in (block.get('type'), media) if word)}]"


def words(record: dict[str, Any], block: dict[str, Any], origin: Origin | None) -> NewEvent | None:
    """A block of text or thinking; what the CLI puts in the model's mouth is a notice or an error."""
    kind = block["type"]
    said = block.get(kind)
    if not isinstance(said, str) or not said:
        return None
    body: dict[str, Any] = {"text": said}
    parent, message = record.get("parent_tool_use_id"), record.get("message")
    if isinstance(parent, str):
        body["parent"] = parent
    if record.get("error"):
        return NewEvent("error", {**body, "code": "api_error", "error": record["error"]}, origin=origin)
    if isinstance(message, dict) and message.get("model") == "<synthetic>":
        return NewEvent("notice", {**body, "code": "synthetic"}, origin=origin)
    return NewEvent("assistant" if kind == "text" else "thinking", body, origin=origin)


def told(record: dict[str, Any]) -> NewEvent:
    """A `system` record that a person should see."""
    subtype, content = lines.word(record, "subtype"), record.get("content")
    if subtype == "api_retry":
        why = " ".join(str(record[key]) for key in ("error_status", "error") if record.get(key) is not None)
        turn = f"try {record.get('attempt')} of {record.get('max_retries')} follows"
        return lines.notice_event("api_retry", f"the model's API failed ({why}); {turn}")
    if subtype == "compact_boundary":
        return lines.notice_event("compacted", "the agent summed up its context and goes on with that")
    if subtype == "permission_denied":
        said = record.get("message") or f"{record.get('tool_name')} was not permitted"
        return lines.notice_event("permission_denied", str(said), call=record.get("tool_use_id"))
    if isinstance(content, str) and content:  # informational, local_command and the like
        return lines.notice_event(subtype or "told", content)
    return lines.unknown(record)


def rate_limit(record: dict[str, Any]) -> list[Entry]:
    """A notice, unless all is well."""
    info = record.get("rate_limit_info")
    if not isinstance(info, dict) or info.get("status") == "allowed":
        return []
    return [lines.notice_event("rate_limit", f"the account's rate limit: {info.get('status')}", limit=info)]


def goes_on(record: dict[str, Any]) -> bool:
    """Whether a tool's result says that what it started runs on in the background."""
    result = record.get("tool_use_result")
    return isinstance(result, dict) and bool(result.get("isAsync") or result.get("backgroundTaskId"))


def was_stopped(record: dict[str, Any], block: dict[str, Any]) -> bool:
    """Whether a tool's failure is that the turn was interrupted (the words of 2.1.197 and 2.1.325)."""
    result = record.get("tool_use_result")
    if isinstance(result, dict) and result.get("interrupted"):
        return True
    return joined(block.get("content")).startswith("The user doesn't want to proceed with this tool use")


def counts(result: dict[str, Any]) -> dict[str, int]:
    """The tokens of one result; several of one process add up."""
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return {}
    found = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cached_tokens": usage.get("cache_read_input_tokens"),
        "cache_write_tokens": usage.get("cache_creation_input_tokens"),
    }
    return {name: count for name, count in found.items() if type(count) is int}


def sums_up(version: str | None) -> bool:
    """Whether the cost that a resumed process tells is that of the whole conversation."""
    # 2.1.325 does, 2.1.197 does not; which version began with it is not known.
    return not (version or "").startswith(("1.", "2.0.", "2.1.197"))


def cost(result: dict[str, Any], summed: bool) -> dict[str, Any]:
    """What was paid for this process, or so far for all of the conversation."""
    paid = result.get("total_cost_usd")
    if not isinstance(paid, (int, float)):
        return {}
    return {"conversation": {"cost_usd": paid}} if summed else {"cost_usd": paid}


def final(result: dict[str, Any], usage: dict[str, Any], cut: bool) -> FinalResult:
    """What a result means; its subtype says `success` also of an API failure, so that is not asked.

    `cut` if a subagent that the agent waited for was stopped after it.
    """
    if cut:
        return FinalResult(ok=False, reason="a background subagent was stopped", cancelled=True, usage=usage)
    ended = lines.word(result, "terminal_reason")
    ok = not result.get("is_error") and ended not in UNFINISHED
    answer = result.get("result")
    said = answer if isinstance(answer, str) and answer else None
    return FinalResult(
        ok=ok,
        reason=None if ok else _reason(result, ended, said),
        cancelled=ended.startswith("aborted_"),
        usage=usage,
        answer=said if ok else None,
    )


def _reason(result: dict[str, Any], ended: str, said: str | None) -> str:
    errors = result.get("errors")
    told = [e for e in errors if isinstance(e, str)] if isinstance(errors, list) else []
    # The CLI's own diagnosis of an abort is no sentence for a person.
    told = [e for e in told if not e.startswith("[ede_diagnostic]")]
    return said or "; ".join(told) or ended or lines.word(result, "subtype") or "it failed without a reason"


# --- The block that Claude Code is saying, from the model's own pieces; its whole record takes their place.

# By the type of a piece or of a block: its field, and the kind of event that it is a part of.
_SPOKEN = {
    "text": ("text", "assistant"),
    "text_delta": ("text", "assistant"),
    "thinking": ("thinking", "thinking"),
    "thinking_delta": ("thinking", "thinking"),
}
# What comes before them is either whole or was given up: the CLI asks the model again when its API fails.
_BEGINS = frozenset({"message_start", "content_block_start"})


class PartialBlock:
    """One block of the agent itself in the making; what its subagents say comes whole."""

    def __init__(self) -> None:
        """None yet."""
        self._kind = ""
        self._pieces: list[str] = []

    def hear(self, record: dict[str, Any]) -> None:
        """Take a `stream_event`."""
        event = record.get("event")
        if record.get("parent_tool_use_id") is not None or not isinstance(event, dict):
            return
        if lines.word(event, "type") in _BEGINS:
            self.drop()
        self._add(event.get("content_block"))
        self._add(event.get("delta"))

    def whole(self, record: dict[str, Any]) -> None:
        """Take an `assistant` record: a block is whole."""
        if record.get("parent_tool_use_id") is None:
            self.drop()

    def drop(self) -> None:
        """Nothing is being said."""
        self._kind, self._pieces = "", []

    def unfinished(self) -> tuple[str, str] | None:
        """Its kind and its text so far."""
        text = mended("".join(self._pieces))
        return (self._kind, text) if text else None

    def close(self) -> list[NewEvent]:
        """What was half said when the agent died; its transcript has nothing of it, so it has no origin."""
        told = self.unfinished()
        self.drop()
        return [] if told is None else [NewEvent(told[0], {"text": told[1], "cut": True})]

    def _add(self, piece: Any) -> None:
        if not isinstance(piece, dict):
            return
        field, kind = _SPOKEN.get(lines.word(piece, "type"), ("", ""))
        said = lines.word(piece, field)
        if said and kind != self._kind:
            self._kind, self._pieces = kind, []
        if said:
            self._pieces.append(said)
