"""One entry of the SDK as one or more events: what it says, and the entry itself, as it was given."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from holdfast.drive.line import origin, plain
from holdfast.errors import BadInput
from holdfast.history import when
from holdfast.history.claude.pieces import Piece
from holdfast.history.claude.record import lenient
from holdfast.history.claude.tell import Teller
from holdfast.model.event import NewEvent
from holdfast.model.text import encode

AGENT = "claude"
INSIDE = "sdk"  # the part of a body that holds the entry
CODE = "sdk_record"
SHOWN = 200  # characters
NAMES = 1000  # calls that are remembered by name until their results come
LONGEST_PLACE = 200  # of a subpath in an origin


def events(
    entry: dict[str, Any], native_id: str, subpath: str, generation: int, names: dict[str, str], now: str
) -> list[NewEvent]:
    """The events of an entry; the first one holds it whole.

    `names` are those of the calls so far. An entry with a uuid is stored once, however often it comes.
    """
    kept = _kept(entry)
    told = [] if subpath or "json" in kept else _told(entry, names)
    if not told:
        told = [("notice", {"text": _shown(entry), "code": CODE})]
    inside: dict[str, Any] = {"generation": generation, **kept}
    if subpath:
        inside["subpath"] = subpath
    told[0][1][INSIDE] = inside
    uuid, at = plain(entry.get("uuid")), when.stamp(entry.get("timestamp"))
    at = at if at is None or at <= now else now  # a clock that is ahead would put the session first for ever
    place = (
        subpath if len(subpath) <= LONGEST_PLACE else blake2b(subpath.encode("utf-8", "replace")).hexdigest()
    )
    found = []
    for n, (kind, body) in enumerate(told):
        # Its own namespace: an event of a run or a replay of the same record must not keep this one out,
        # for only this one holds the entry.
        record = f"sdk:{generation}:{place}:{uuid}:{n}"
        found.append(
            NewEvent(kind, body, at, origin=origin(AGENT, plain(native_id), record) if uuid else None)
        )
    return found


def given(body: dict[str, Any], subpath: str, generation: int) -> dict[str, Any] | None:
    """The entry that an event of that key holds, as it was given; None if it holds none."""
    inside = body.get(INSIDE)
    if not isinstance(inside, dict):
        return None
    if inside.get("subpath", "") != subpath or inside.get("generation") != generation:
        return None
    entry = inside["record"] if "record" in inside else json.loads(inside["json"])
    return entry if isinstance(entry, dict) else None


def _kept(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as JSON, or as text of JSON where a log could not hold it (NaN, nested too deep)."""
    try:
        encode([[entry]])
    except BadInput:
        return {"json": json.dumps(entry)}
    return {"record": entry}


def _told(entry: dict[str, Any], names: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """What was said and done in a record of a transcript, as its reader tells it.

    Its origins are left out, and calls are told as they come: one without a result may still get it.
    """
    told = Teller("", answered=lambda call: True).tell(Piece(0, encode(entry), lenient(entry)))
    found: list[tuple[str, dict[str, Any]]] = []
    for event in told:
        body = dict(event.body)
        if body.get("code") == "unknown_record" or not _is_storable(body):
            continue
        if event.kind == "tool_progress":
            names[body["call"]] = body["name"]
            while len(names) > NAMES:
                del names[next(iter(names))]
        elif event.kind == "tool_summary" and not body["name"]:
            body["name"] = names.get(body["call"], "")
        found.append((event.kind, body))
    return found


def _is_storable(body: dict[str, Any]) -> bool:
    try:
        encode(body)
    except BadInput:
        return False
    return True


def _shown(entry: dict[str, Any]) -> str:
    """A line for a person; the entry itself is beside it."""
    kind = entry.get("type")
    what = kind if isinstance(kind, str) and kind.isprintable() else "entry"
    for name in ("customTitle", "aiTitle", "summary", "lastPrompt", "tag"):
        if isinstance(said := entry.get(name), str) and said.isprintable():
            return f"{what}: {said}"[:SHOWN]
    return what[:SHOWN]
