"""What an agent's stdout told, read without Holdfast's code: so an error there cannot hide itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
Told = tuple[str, str]  # ("text", what was said) | ("call", its id) | ("result", its id)

_BEGINS = ("message_start", "content_block_start")


def told(agent: str, stdout: bytes) -> list[Told]:
    """All that was said and done, in order, streamed pieces joined; a torn last line is left out."""
    whole = stdout[: stdout.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith(b"{")]
    read = {"claude": _claude, "codex": _codex}.get(agent, _acp)
    return list(_joined(read(lines)))


def _claude(lines: Iterable[Json]) -> Iterator[Told]:
    half = ""  # of a block that was never told whole
    for line in lines:
        event = line.get("event") or {}
        if line["type"] in ("assistant", "result") or event.get("type") in _BEGINS:
            half = ""
        half += (event.get("delta") or {}).get("text", "")
        if line["type"] not in ("assistant", "user") or line.get("isReplay"):
            continue
        content = line["message"]["content"]
        for block in content if isinstance(content, list) else []:
            if block["type"] == "text" and line["type"] == "assistant":
                yield "text", block["text"]
                yield "end", ""
            elif block["type"] == "tool_use":
                yield "call", block["id"]
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"]
    yield "text", half


def _codex(lines: Iterable[Json]) -> Iterator[Told]:
    for line in lines:
        item = line.get("item") or {}
        if item.get("type") == "agent_message" and line["type"] == "item.completed":
            yield "text", item["text"]
            yield "end", ""
        elif item.get("type") == "command_execution":
            yield "call" if line["type"] == "item.started" else "result", _own(item["id"])


def _acp(lines: Iterable[Json]) -> Iterator[Told]:
    """Only what came in answer to the prompt: a loaded session tells its past before."""
    called: set[str] = set()
    ended: set[str] = set()
    for line in lines:
        params = line.get("params") or {}
        update = params.get("update") or {}
        kind = update.get("sessionUpdate")
        if line.get("method") == "session/request_permission":  # Gemini: the first that is heard of a call
            update, kind = params["toolCall"], "tool_call"
        if kind == "agent_message_chunk":
            yield "text", update["content"].get("text", "")
        elif kind in ("tool_call", "tool_call_update"):
            call = _own(update["toolCallId"])
            if call not in called:
                called.add(call)
                yield "call", call
            if update.get("status") in ("completed", "failed") and call not in ended:
                ended.add(call)
                yield "result", call


def _joined(pieces: Iterable[Told]) -> Iterator[Told]:
    text = ""
    for kind, what in pieces:
        if kind == "text":
            text += what
            continue
        if text:
            yield "text", text
            text = ""
        if kind != "end":
            yield kind, what
    if text:
        yield "text", text


def logged(log: Iterable[Json]) -> list[Told]:
    """The same of a log; what the agent's store told besides is left out."""
    found = []
    for event in log:
        body = event["body"]
        if event["replayed"]:
            continue
        if event["kind"] == "assistant":
            found.append(("text", body["text"]))
        elif event["kind"] == "tool_progress":
            found.append(("call", _own(body["call"])))
        elif event["kind"] == "tool_summary" and body["outcome"] != "interrupted":
            found.append(("result", _own(body["call"])))
    return found


def _own(call: str) -> str:
    """An id without what stands before it in one process: our task for Codex, a turn's number for Kimi."""
    return call.rpartition(":")[2]
