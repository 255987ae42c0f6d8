"""One entry of the SDK as one or more events: what it contains, and the entry itself, unchanged."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from holdfast import timestamps
from holdfast.agents.claude.events import ClaudeEventBuilder
from holdfast.agents.claude.records import lenient
from holdfast.agents.claude.transcript import TranscriptPiece
from holdfast.errors import BadInput
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.transcripts.jsonl import origin, storable_id

AGENT = "claude"
INSIDE = "sdk"  # the part of a body that holds the entry
CODE = "sdk_record"
MAX_TEXT = 200  # characters of a notice
NAMES = 1000  # calls whose names are kept until their results arrive
LONGEST_SUBPATH = 200  # in an origin


def events(
    entry: dict[str, Any], native_id: str, subpath: str, generation: int, names: dict[str, str], now: str
) -> list[NewEvent]:
    """The events of an entry; the first one contains the whole entry.

    `names` are those of the calls so far. An entry with a uuid is stored once, however often it is appended.
    """
    stored = _storable_entry(entry)
    contents = [] if subpath or "json" in stored else _contents(entry, names)
    if not contents:
        contents = [("notice", {"text": _summary_line(entry), "code": CODE})]
    inside: dict[str, Any] = {"generation": generation, **stored}
    if subpath:
        inside["subpath"] = subpath
    contents[0][1][INSIDE] = inside
    uuid, at = storable_id(entry.get("uuid")), timestamps.when_stamp(entry.get("timestamp"))
    at = at if at is None or at <= now else now  # a clock that is ahead would list the session first forever
    short_path = (
        subpath
        if len(subpath) <= LONGEST_SUBPATH
        else blake2b(subpath.encode("utf-8", "replace")).hexdigest()
    )
    made = []
    for n, (kind, body) in enumerate(contents):
        # A namespace of its own: an event of a run or a replay of the same record must not replace this one,
        # because only this one contains the entry.
        record = f"sdk:{generation}:{short_path}:{uuid}:{n}"
        made.append(
            NewEvent(kind, body, at, origin=origin(AGENT, storable_id(native_id), record) if uuid else None)
        )
    return made


def stored_entry(body: dict[str, Any], subpath: str, generation: int) -> dict[str, Any] | None:
    """The entry in an event's body, as it was appended; None if there is none."""
    inside = body.get(INSIDE)
    if not isinstance(inside, dict):
        return None
    if inside.get("subpath", "") != subpath or inside.get("generation") != generation:
        return None
    entry = inside["record"] if "record" in inside else json.loads(inside["json"])
    return entry if isinstance(entry, dict) else None


def _storable_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as JSON, or as a JSON string where a log cannot hold it (NaN, nested too deep)."""
    try:
        encode([[entry]])
    except BadInput:
        return {"json": json.dumps(entry)}
    return {"record": entry}


def _contents(entry: dict[str, Any], names: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """The kinds and bodies of the events that Claude's transcript reader makes of a record.

    Origins are left out, and calls stay open: one without a result may still get it.
    """
    events_read = ClaudeEventBuilder("", answered=lambda call: True).on_piece(
        TranscriptPiece(0, encode(entry), lenient(entry))
    )
    contents: list[tuple[str, dict[str, Any]]] = []
    for event in events_read:
        body = dict(event.body)
        if body.get("code") == "unknown_record" or not _is_storable(body):
            continue
        if event.kind == "tool_progress":
            names[body["call"]] = body["name"]
            while len(names) > NAMES:
                del names[next(iter(names))]
        elif event.kind == "tool_summary" and not body["name"]:
            body["name"] = names.get(body["call"], "")
        contents.append((event.kind, body))
    return contents


def _is_storable(body: dict[str, Any]) -> bool:
    try:
        encode(body)
    except BadInput:
        return False
    return True


def _summary_line(entry: dict[str, Any]) -> str:
    """A line for a person; the entry itself is stored beside it."""
    kind = entry.get("type")
    label = kind if isinstance(kind, str) and kind.isprintable() else "entry"
    for name in ("customTitle", "aiTitle", "summary", "lastPrompt", "tag"):
        if isinstance(text := entry.get(name), str) and text.isprintable():
            return f"{label}: {text}"[:MAX_TEXT]
    return label[:MAX_TEXT]
