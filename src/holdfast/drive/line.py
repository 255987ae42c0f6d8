"""One line of an agent's stdout: an object, or a notice of what it was instead."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import msgspec

from holdfast.drive.driver import Job
from holdfast.errors import BadInput
from holdfast.model.change import SeeToken
from holdfast.model.event import NewEvent, Origin
from holdfast.model.text import MAX_BODY, MAX_DEPTH, check_plain, encode, is_deep

SHOWN = 2000  # characters of an odd line in its notice
KEPT = 64 * 1024  # bytes up to which the notice holds the line itself; a longer one is in the spool
LONGEST = MAX_BODY // 4  # an event made of it is storable, also with every character escaped
LONGEST_ID = 1000  # bytes
DEEPEST = MAX_DEPTH - 10  # the same for what is nested; a driver adds a few levels of its own

UNKNOWN_OUTCOME = "Its outcome is unknown: the agent ended before it told."

_decode = msgspec.json.Decoder().decode


def parse(line: bytes) -> dict[str, Any] | NewEvent:
    """The object that a line holds; else a `notice` whose code says why it holds none."""
    if len(line) > LONGEST:
        return _odd(line, "too_long", f"a line of {len(line):,} bytes was left in the spool")
    try:
        value = _value(line)
    except UnicodeDecodeError:
        return _odd(line, "not_utf8")
    except (ValueError, RecursionError):
        return _odd(line, "not_json")
    if type(value) is not dict:
        return _odd(line, "not_json")
    if line.count(b"[") + line.count(b"{") > DEEPEST and is_deep(value, DEEPEST):
        return _odd(line, "too_deep")
    return value


def word(record: dict[str, Any], key: str) -> str:
    """A field that should be a text; empty if it is anything else, which may not even be hashable."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def is_blank(line: bytes) -> bool:
    """Whether a line says nothing at all, and is worth no notice."""
    return not line or line.isspace()


def notice(code: str, text: str, **facts: Any) -> NewEvent:
    """A notice for the log."""
    return NewEvent("notice", {"text": text, "code": code, **facts})


def error(code: str, text: str, **facts: Any) -> NewEvent:
    """An error for the log."""
    return NewEvent("error", {"text": text, "code": code, **facts})


def shown(record: dict[str, Any]) -> str:
    """The beginning of a record's JSON."""
    whole = encode(record).decode()
    return whole if len(whole) <= SHOWN else whole[: SHOWN - 1] + "…"


def unknown(record: dict[str, Any]) -> NewEvent:
    """A notice of a record that we do not know."""
    return notice("unknown_record", shown(record))


def plain(value: Any) -> str | None:
    """An id that every store can hold, as the agent gave it; None if it is no such thing."""
    if not isinstance(value, str) or not value:
        return None
    try:
        check_plain("id", value, LONGEST_ID)
    except BadInput:
        return None
    return value


def origin(agent: str, native_id: str | None, record_id: str) -> Origin | None:
    """Where an event was seen, if the agent gave ids that can be kept."""
    if native_id is None or plain(record_id) is None:
        return None
    return Origin(agent, native_id, record_id)


def other_conversation(asked: str, got: str) -> NewEvent:
    """The agent did not go on where it was asked to."""
    said = f"the agent was asked for its conversation {asked} and is in another one, {got}"
    return notice("other_conversation", said, asked=asked, got=got)


def resumed(native_id: str) -> NewEvent:
    """The proof of a resume: the agent has named the conversation that it was asked for."""
    return notice("resumed", f"the agent goes on with its conversation {native_id}", native_id=native_id)


def named(job: Job, before: str | None, native_id: str, protocol: str) -> list[NewEvent | SeeToken]:
    """What follows from an agent's naming of its conversation; `before`: as it named it until now.

    One that it began instead of the one that it was asked to go on with does not take that one's place.
    """
    entries: list[NewEvent | SeeToken] = []
    asked = job.native_id if job.resume and before is None else None
    if native_id == asked:
        return [resumed(native_id)]
    if native_id != job.native_id:
        seen = SeeToken(
            agent=job.agent, native_id=native_id, seen_in="stream", protocol=protocol, instead_of=asked
        )
        entries.append(seen)
    was = before or job.native_id
    if was is not None and was != native_id:
        entries.append(other_conversation(was, native_id))
    return entries


def _value(line: bytes) -> Any:
    try:
        return _decode(line)
    except UnicodeDecodeError:
        raise
    except (msgspec.DecodeError, RecursionError):
        # The standard library takes lone surrogates, which agents do send; it also takes NaN, and
        # makes infinity of 1e999, which no store takes.
        return json.loads(line.decode(), parse_constant=_refuse, parse_float=_finite)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is too large")
    return value


def _odd(line: bytes, code: str, text: str | None = None) -> NewEvent:
    if text is None:
        shown = line[: SHOWN * 4].decode(errors="replace")
        text = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
    body: dict[str, Any] = {"text": text, "code": code, "bytes": len(line)}
    if len(line) <= KEPT:
        body["raw"] = base64.b64encode(line).decode()
    return NewEvent("notice", body)
