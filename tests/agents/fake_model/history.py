"""What the Anthropic API refuses of a history."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

Message = dict[str, Any]
Block = dict[str, Any]

KEY = b"a key that is no secret"


def signature(thought: str) -> str:
    """Our mark below a thought; one that was altered no longer bears it."""
    return base64.b64encode(hmac.digest(KEY, thought.encode(), hashlib.sha256) * 4).decode()


def blocks(message: Message) -> list[Block]:
    """A message's content, in its long shape."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def refusal(messages: list[Message]) -> str | None:
    """Why these messages would be refused, as the API says it; None if they would not."""
    told = [message for message in messages if message.get("role") != "system"]  # Claude Code since 2.1.3xx
    if not told:
        return "messages: at least one message is required"
    if told[0]["role"] != "user":
        return 'messages: first message must use the "user" role'
    for at, message in enumerate(told):
        after = told[at + 1] if at + 1 < len(told) else None
        problem = (
            _content(message, last=after is None)
            or _without_result(message, after)
            or _without_call(message, told[at - 1] if at else None)
        )
        if problem:
            return f"messages.{at}{problem}"
    return None


def _content(message: Message, *, last: bool) -> str | None:
    found = blocks(message)
    if not found and not (last and message["role"] == "assistant"):
        return ": all messages must have non-empty content except for the optional final assistant message"
    for at, block in enumerate(found):
        if block.get("type") == "text" and not block.get("text"):
            return f".content.{at}: text content blocks must be non-empty"
        if block.get("type") == "thinking" and block.get("signature") != signature(block.get("thinking", "")):
            return f".content.{at}: Invalid `signature` in `thinking` block"
    return None


def _without_result(message: Message, after: Message | None) -> str | None:
    if message["role"] != "assistant":
        return None
    results = {block.get("tool_use_id") for block in blocks(after)} if after else set()
    calls = [block["id"] for block in blocks(message) if block.get("type") == "tool_use"]
    missing = [call for call in calls if call not in results]
    if not missing:
        return None
    return f": `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}"


def _without_call(message: Message, before: Message | None) -> str | None:
    if message["role"] != "user":
        return None
    calls = {block.get("id") for block in blocks(before)} if before else set()
    for at, block in enumerate(blocks(message)):
        if block.get("type") == "tool_result" and block.get("tool_use_id") not in calls:
            unexpected = block.get("tool_use_id")
            return f".content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {unexpected}"
    return None
