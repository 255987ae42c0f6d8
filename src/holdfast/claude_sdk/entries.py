"""One entry of the SDK as one or more events: what it says, and the entry itself, as it was given."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast import timestamps
from holdfast.agents.claude.events import ClaudeEventBuilder
from holdfast.agents.claude.records import lenient
from holdfast.agents.claude.transcript import TranscriptPiece
from holdfast.errors import BadInput
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.model.session import Session
from holdfast.transcripts.jsonl import origin, plain

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
    uuid, at = plain(entry.get("uuid")), timestamps.when_stamp(entry.get("timestamp"))
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


def stored_entry(body: dict[str, Any], subpath: str, generation: int) -> dict[str, Any] | None:
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
    told = ClaudeEventBuilder("", answered=lambda call: True).tell(
        TranscriptPiece(0, encode(entry), lenient(entry))
    )
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


# --- What a session's metadata says of the SDK session that is kept in it: values in, values out.

FIELD = "claude_sdk"
LONGEST_SUMMARY = 64 * 1024  # characters; a longer one is folded again whenever it is asked for


class SdkSubkey(msgspec.Struct, frozen=True):
    """A transcript beside the main one, such as a subagent's."""

    live: bool
    generation: int  # how often it was deleted; entries of an older generation are not loaded


class SdkSession(msgspec.Struct, frozen=True, kw_only=True):
    """Which SDK session it is, and what is there of it."""

    project: str
    session: str
    main: bool = False  # the main transcript was written
    summary: str | None = None  # the SDK's own, as JSON; None if it was too long
    subkeys: dict[str, SdkSubkey] = {}

    def holds(self, subpath: str) -> bool:
        """Whether that transcript was written, and not deleted since."""
        return self.main if not subpath else subpath in self.subkeys and self.subkeys[subpath].live

    def generation(self, subpath: str) -> int:
        """The generation of that transcript's entries."""
        return self.subkeys[subpath].generation if subpath in self.subkeys else 0

    def metadata(self) -> dict[str, Any]:
        """All of it, for a new session."""
        return {FIELD: msgspec.to_builtins(self)}

    def patch_since(self, before: SdkSession) -> dict[str, Any]:
        """The merge patch that makes this of `before`; empty if they are the same."""
        changed: dict[str, Any] = {}
        if self.main != before.main:
            changed["main"] = self.main
        if self.summary != before.summary:
            changed["summary"] = self.summary
        subkeys = {path: sub for path, sub in self.subkeys.items() if before.subkeys.get(path) != sub}
        if subkeys:
            changed["subkeys"] = msgspec.to_builtins(subkeys)
        return {FIELD: changed} if changed else {}

    def with_summary(self, summary: str) -> SdkSession:
        """After more was written to the main transcript."""
        kept = summary if len(summary) <= LONGEST_SUMMARY else None
        return msgspec.structs.replace(self, main=True, summary=kept)

    def with_subkey(self, subpath: str) -> SdkSession:
        """After something was written to that transcript."""
        if self.holds(subpath):
            return self
        sub = SdkSubkey(True, self.generation(subpath))
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})

    def without_subkey(self, subpath: str) -> SdkSession:
        """After that transcript was deleted."""
        if not self.holds(subpath):
            return self
        sub = SdkSubkey(False, self.generation(subpath) + 1)
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})


def sdk_session(session: Session) -> SdkSession | None:
    """The shelf that a session is; None if it is none."""
    told = (session.metadata or {}).get(FIELD)
    try:
        return msgspec.convert(told, type=SdkSession)
    except msgspec.ValidationError:
        return None


def session_key(project: str, session: str) -> str:
    """Our key of an SDK session; no two of them have the same."""
    return f"{key_prefix(project)}{_quoted(session)}"


def key_prefix(project: str) -> str:
    """What the keys of all sessions of a project begin with."""
    return f"claude-sdk:{_quoted(project)}:"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")
