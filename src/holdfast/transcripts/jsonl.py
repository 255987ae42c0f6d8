"""The lines of a transcript, one at a time, whatever happened to its file; its bytes never raise anything.

A crash tears the last line; the next writer glues its own to the torn one; a power cut leaves NULs; a
disk flips bits. What is whole before and after the damage is still given.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from holdfast.errors import BadInput
from holdfast.model.event import NewEvent, Origin
from holdfast.model.json_codec import MAX_BODY, MAX_DEPTH, check_plain, encode, is_deep

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
        return _line_odd(line, "too_long", f"a line of {len(line):,} bytes was left in the spool")
    try:
        value = _value(line)
    except UnicodeDecodeError:
        return _line_odd(line, "not_utf8")
    except (ValueError, RecursionError):
        return _line_odd(line, "not_json")
    if type(value) is not dict:
        return _line_odd(line, "not_json")
    if line.count(b"[") + line.count(b"{") > DEEPEST and is_deep(value, DEEPEST):
        return _line_odd(line, "too_deep")
    return value


def word(record: dict[str, Any], key: str) -> str:
    """A field that should be a text; empty if it is anything else, which may not even be hashable."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def is_blank(line: bytes) -> bool:
    """Whether a line says nothing at all, and is worth no notice."""
    return not line or line.isspace()


def notice_event(code: str, text: str, **facts: Any) -> NewEvent:
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
    return notice_event("unknown_record", shown(record))


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


def _line_odd(line: bytes, code: str, text: str | None = None) -> NewEvent:
    if text is None:
        shown = line[: SHOWN * 4].decode(errors="replace")
        text = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
    body: dict[str, Any] = {"text": text, "code": code, "bytes": len(line)}
    if len(line) <= KEPT:
        body["raw"] = base64.b64encode(line).decode()
    return NewEvent("notice", body)


# --- The lines of a transcript, one at a time, whatever happened to its file; its bytes never raise anythin

TORN = "torn_tail"
BAD = "bad_line"
NULS = "nul_tail"
GLUED = "glued_lines"

_PIECE = 1 << 20
_TRIES = 64  # beginnings of a record that are looked for behind a torn one
_BOM = b"\xef\xbb\xbf"
_raw_decode = json.JSONDecoder().raw_decode


Starts = tuple[bytes, ...]  # how the records of a file begin
Accepts = Callable[[dict[str, Any]], bool]  # whether an object is one of its records

ANY: Starts = (b'{"',)


class JsonlLine(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a file, or one piece of it that is none; a glued line gives several with its number."""

    number: int  # of the line in its file, from 0; blank ones are counted and not given
    offset: int  # of its first byte in the file
    size: int  # in bytes, without the newline
    value: dict[str, Any] | None = None
    problem: str | None = None  # one of the words above; with a value it is `glued_lines`
    odd: NewEvent | None = None  # without a value: a notice that shows what was there instead
    ended: bool = True  # whether a newline follows


def lines(path: str, starts: Starts = ANY, offset: int = 0, accepts: Accepts = bool) -> Iterator[JsonlLine]:
    """The lines of the file, from that byte on; one that holds more than one record gives each of them.

    `starts` and `accepts` say what a record of this file looks like, so that a whole one is found behind
    a torn one, and no part of a torn one is taken for a record.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        yield from read(file, starts, offset, accepts)


def read(
    file: BinaryIO, starts: Starts = ANY, offset: int = 0, accepts: Accepts = bool
) -> Iterator[JsonlLine]:
    """The lines of an open file, of which `offset` bytes were read."""
    number = 0
    while raw := file.readline(LONGEST + 1):
        size = len(raw)
        ended = raw.endswith(b"\n")
        if ended:
            raw = raw[:-1]
        if len(raw) > LONGEST:
            rest, ended = _skip(file)
            size += rest
            odd = notice_event(BAD, f"a line of {size:,} bytes is too long to be read", bytes=size)
            yield JsonlLine(number=number, offset=offset, size=size, problem=BAD, odd=odd, ended=ended)
        elif isinstance(value := parse(raw), dict):
            yield JsonlLine(number=number, offset=offset, size=len(raw), value=value, ended=ended)
        elif raw and not raw.isspace():
            yield from _line(raw, number, offset, starts, accepts, ended)
        offset += size
        number += 1


def of(raw: bytes, starts: Starts = ANY, accepts: Accepts = bool) -> Iterator[JsonlLine]:
    """What one line holds, given without its newline."""
    if raw and not raw.isspace() and len(raw) <= LONGEST:
        yield from _line(raw, 0, 0, starts, accepts, True)


def notice(line: JsonlLine, agent: str, native_id: str) -> NewEvent:
    """What a line without a value shows, as an event of that session."""
    odd = line.odd or notice_event(line.problem or BAD, "")
    body = {**odd.body, "code": line.problem or BAD, "why": odd.body.get("code"), "line": line.number}
    return NewEvent("notice", body, origin=Origin(agent, native_id, f"byte:{line.offset}"))


def _line(
    raw: bytes, number: int, offset: int, starts: Starts, accepts: Accepts, ended: bool
) -> Iterator[JsonlLine]:
    if offset == 0 and raw.startswith(_BOM):
        raw, offset = raw[len(_BOM) :], len(_BOM)
    value = parse(raw)
    if isinstance(value, dict):
        yield JsonlLine(number=number, offset=offset, size=len(raw), value=value, ended=ended)
        return
    for begin, end, found in _pieces(raw, starts, accepts, ended):
        piece = raw[begin:end]
        last = not ended and end == len(raw)
        at = offset + begin
        if found is not None:
            yield JsonlLine(
                number=number, offset=at, size=len(piece), value=found, problem=GLUED, ended=not last
            )
        elif not piece.strip(b"\0 \t\r\n"):
            odd = notice_event(NULS if last else BAD, f"{len(piece):,} bytes of nothing", bytes=len(piece))
            problem = NULS if last else BAD
            yield JsonlLine(
                number=number, offset=at, size=len(piece), problem=problem, odd=odd, ended=not last
            )
        else:
            problem = TORN if last else BAD
            odd = value if (begin, end) == (0, len(raw)) else _odd(piece)
            yield JsonlLine(
                number=number, offset=at, size=len(piece), problem=problem, odd=odd, ended=not last
            )


def _odd(piece: bytes) -> NewEvent:
    told = parse(piece)
    return told if isinstance(told, NewEvent) else notice_event(BAD, shown(told))


def _pieces(
    raw: bytes, starts: Starts, accepts: Accepts, ended: bool
) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """A line that is no record, cut: where each piece begins and ends, and the record if it is one."""
    position = lost = tries = 0  # lost: where the piece that is no record began
    while position < len(raw):
        if raw[position] == 0:
            # NULs are a piece of their own, so that what a crash left before them is seen as torn.
            if lost < position:
                yield lost, position, None
            end = position + len(raw[position:]) - len(raw[position:].lstrip(b"\0"))
            yield position, end, None
            lost = position = end
            continue
        found = _record(raw, position) if raw.startswith(b"{", position) and tries < _TRIES else None
        tries += 1
        if found is not None and (lost == position or _is_own(raw, found, accepts, ended)):
            end, value = found
            if raw[lost:position].strip():
                yield lost, position, None
            yield position, end, value
            lost = position = _past_space(raw, end)
            continue
        position = _next(raw, position + 1, starts) if tries < _TRIES else len(raw)
    if raw[lost:].strip():
        yield lost, len(raw), None


def _record(raw: bytes, begin: int) -> tuple[int, dict[str, Any]] | None:
    """The object that begins there, and where it ends, if it is whole."""
    end = begin
    try:
        text = raw[begin:].decode(errors="surrogateescape")
        value, length = _raw_decode(text)
        end = begin + len(text[:length].encode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found = parse(raw[begin:end])  # the same limits as for every line
    return (end, found) if isinstance(found, dict) else None


def _is_own(raw: bytes, found: tuple[int, dict[str, Any]], accepts: Accepts, ended: bool) -> bool:
    """Whether an object behind torn bytes is a record, and not a part of what is torn.

    It was written whole, with its newline, or something was glued to it in turn.
    """
    end, value = found
    rest = raw[end:].lstrip()
    return accepts(value) and (rest.startswith((b"{", b"\0")) if rest else ended)


def _next(raw: bytes, begin: int, starts: Starts) -> int:
    found = [raw.find(start, begin) for start in (*starts, b"\0")]
    return min((place for place in found if place >= 0), default=len(raw))


def _past_space(raw: bytes, position: int) -> int:
    return len(raw) - len(raw[position:].lstrip())


def _skip(file: BinaryIO) -> tuple[int, bool]:
    """Past the rest of a line: how many bytes that were, and whether a newline was among them."""
    size = 0
    while piece := file.readline(_PIECE):
        size += len(piece)
        if piece.endswith(b"\n"):
            return size, True
    return size, False
