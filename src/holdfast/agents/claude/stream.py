"""What do the records of Claude Code's stream contain? Content as text or events, and the final result."""

from __future__ import annotations

from typing import Any

from holdfast.agents.acp.content import join_surrogates
from holdfast.agents.driver import MAX_BLOCK, Entry, FinalResult
from holdfast.model.event import NewEvent, Origin
from holdfast.transcripts import jsonl

TOOL_USE_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use")  # content blocks that are tool calls
INTERRUPT_MARK = "[Request interrupted"  # how the CLI's text begins when a person interrupts a turn

# Bookkeeping of the CLI, not about the work.
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

# With `is_error` false these still mean that the prompt was not completed (names as in 2.1.325).
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
    """The content blocks of a message in any form."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def output(content: Any) -> str:
    """A tool result's content as text; text blocks are joined as the model sees them."""
    if isinstance(content, str):
        return content
    whole, after_text = "", True
    for block in blocks({"content": content}):
        is_text = isinstance(block.get("text"), str)
        whole += ("" if (is_text and after_text) or not whole else "\n") + _shown(block)
        after_text = is_text
    return whole


def content_text(content: Any) -> str:
    """Content as text, one line per block; other blocks are named by type."""
    return content if isinstance(content, str) else "\n".join(map(_shown, blocks({"content": content})))


def _shown(block: dict[str, Any]) -> str:
    if isinstance(text := block.get("text"), str):
        return text
    source = block.get("source")
    media = source.get("media_type") if isinstance(source, dict) else None
    return f"[{' '.join(str(word) for word in (block.get('type'), media) if word)}]"


def text_event(record: dict[str, Any], block: dict[str, Any], origin: Origin | None) -> NewEvent | None:
    """A block of text or thinking; text that the CLI attributes to the model is a notice or an error."""
    kind = block["type"]
    text = block.get(kind)
    if not isinstance(text, str) or not text:
        return None
    body: dict[str, Any] = {"text": text}
    parent, message = record.get("parent_tool_use_id"), record.get("message")
    if isinstance(parent, str):
        body["parent"] = parent
    if record.get("error"):
        return NewEvent("error", {**body, "code": "api_error", "error": record["error"]}, origin=origin)
    if isinstance(message, dict) and message.get("model") == "<synthetic>":
        return NewEvent("notice", {**body, "code": "synthetic"}, origin=origin)
    return NewEvent("assistant" if kind == "text" else "thinking", body, origin=origin)


def system_event(record: dict[str, Any]) -> NewEvent:
    """The event for a `system` record that a person should see."""
    subtype, content = jsonl.text_field(record, "subtype"), record.get("content")
    if subtype == "api_retry":
        why = " ".join(str(record[key]) for key in ("error_status", "error") if record.get(key) is not None)
        turn = f"try {record.get('attempt')} of {record.get('max_retries')} follows"
        return jsonl.notice_event("api_retry", f"the model's API failed ({why}); {turn}")
    if subtype == "compact_boundary":
        return jsonl.notice_event("compacted", "the agent compacted its context")
    if subtype == "permission_denied":
        text = record.get("message") or f"{record.get('tool_name')} was not permitted"
        return jsonl.notice_event("permission_denied", str(text), call=record.get("tool_use_id"))
    if isinstance(content, str) and content:  # informational, local_command and similar
        return jsonl.notice_event(subtype or "told", content)
    return jsonl.unknown(record)


def rate_limit(record: dict[str, Any]) -> list[Entry]:
    """A notice, unless the status is fine."""
    info = record.get("rate_limit_info")
    if not isinstance(info, dict) or info.get("status") == "allowed":
        return []
    return [jsonl.notice_event("rate_limit", f"rate limit of the account: {info.get('status')}", limit=info)]


def runs_in_background(record: dict[str, Any]) -> bool:
    """Whether a tool's result says that it continues in the background."""
    result = record.get("tool_use_result")
    return isinstance(result, dict) and bool(result.get("isAsync") or result.get("backgroundTaskId"))


def was_stopped(record: dict[str, Any], block: dict[str, Any]) -> bool:
    """Whether a tool failed because the turn was interrupted (texts of 2.1.197 and 2.1.325)."""
    result = record.get("tool_use_result")
    if isinstance(result, dict) and result.get("interrupted"):
        return True
    return content_text(block.get("content")).startswith(
        "The user doesn't want to proceed with this tool use"
    )


def counts(result: dict[str, Any]) -> dict[str, int]:
    """The token counts of one result; several results of one process add up."""
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return {}
    tokens = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cached_tokens": usage.get("cache_read_input_tokens"),
        "cache_write_tokens": usage.get("cache_creation_input_tokens"),
    }
    return {name: count for name, count in tokens.items() if type(count) is int}


def is_cumulative_cost(version: str | None) -> bool:
    """Whether the cost that a resumed process reports covers the whole conversation."""
    # 2.1.325 does, 2.1.197 does not; the first version is unknown.
    return not (version or "").startswith(("1.", "2.0.", "2.1.197"))


def cost(result: dict[str, Any], summed: bool) -> dict[str, Any]:
    """The cost of this process, or of the whole conversation so far."""
    paid = result.get("total_cost_usd")
    if not isinstance(paid, (int, float)):
        return {}
    return {"conversation": {"cost_usd": paid}} if summed else {"cost_usd": paid}


def final(result: dict[str, Any], usage: dict[str, Any], cut: bool) -> FinalResult:
    """The final result. Its subtype is `success` even for an API failure, so it is ignored.

    `cut`: a subagent that the agent was waiting for was stopped after the result.
    """
    if cut:
        return FinalResult(ok=False, reason="a background subagent was stopped", cancelled=True, usage=usage)
    ended = jsonl.text_field(result, "terminal_reason")
    ok = not result.get("is_error") and ended not in UNFINISHED
    answer = result.get("result")
    text = answer if isinstance(answer, str) and answer else None
    return FinalResult(
        ok=ok,
        reason=None if ok else _reason(result, ended, text),
        cancelled=ended.startswith("aborted_"),
        usage=usage,
        answer=text if ok else None,
    )


def _reason(result: dict[str, Any], ended: str, answer: str | None) -> str:
    errors = result.get("errors")
    messages = [e for e in errors if isinstance(e, str)] if isinstance(errors, list) else []
    # The CLI's own diagnosis of an abort is not meant for people.
    messages = [e for e in messages if not e.startswith("[ede_diagnostic]")]
    return (
        answer
        or "; ".join(messages)
        or ended
        or jsonl.text_field(result, "subtype")
        or "it failed without a reason"
    )


# --- The block that is still streaming, built from the model's deltas until its whole record arrives

# Delta or block type -> its field and the kind of event.
_SPOKEN = {
    "text": ("text", "assistant"),
    "text_delta": ("text", "assistant"),
    "thinking": ("thinking", "thinking"),
    "thinking_delta": ("thinking", "thinking"),
}
# Everything before these records is complete or was dropped: the CLI asks the model again if its API fails.
_BEGINS = frozenset({"message_start", "content_block_start"})


class PartialBlock:
    """The streaming block of the agent itself; subagents' texts arrive whole."""

    def __init__(self) -> None:
        """Start without a block."""
        self._kind = ""
        self._pieces: list[str] = []
        self._size = 0

    def on_record(self, record: dict[str, Any]) -> None:
        """Process a `stream_event`."""
        event = record.get("event")
        if record.get("parent_tool_use_id") is not None or not isinstance(event, dict):
            return
        if jsonl.text_field(event, "type") in _BEGINS:
            self.drop()
        self._add(event.get("content_block"))
        self._add(event.get("delta"))

    def on_whole_record(self, record: dict[str, Any]) -> None:
        """Process an `assistant` record: its block is complete."""
        if record.get("parent_tool_use_id") is None:
            self.drop()

    def drop(self) -> None:
        """No block is streaming any more."""
        self._kind, self._pieces, self._size = "", [], 0

    def partial_text(self) -> tuple[str, str] | None:
        """The block's kind and text so far."""
        text = join_surrogates("".join(self._pieces))
        return (self._kind, text) if text else None

    def close(self) -> list[NewEvent]:
        """The partial block of an agent that died; its transcript does not hold it, so it has no origin."""
        partial = self.partial_text()
        self.drop()
        return [] if partial is None else [NewEvent(partial[0], {"text": partial[1], "cut": True})]

    def _add(self, piece: Any) -> None:
        if not isinstance(piece, dict):
            return
        field, kind = _SPOKEN.get(jsonl.text_field(piece, "type"), ("", ""))
        text = jsonl.text_field(piece, field)
        if text and kind != self._kind:
            self._kind, self._pieces, self._size = kind, [], 0
        if text and self._size < MAX_BLOCK:  # the whole record brings the rest
            self._pieces.append(text)
            self._size += len(text)
