"""How are the lines of a transcript read, one at a time, even if the file is damaged? No input raises.

A crash tears the last line; the next writer glues its own to the torn one; a power cut leaves NULs; a disk
flips bits. Whole records before and after the damage are still returned.
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

SHOWN = 2000  # characters of an unreadable line in its notice
KEPT = 64 * 1024  # bytes up to which the notice holds the whole line; a longer one is only in the spool
LONGEST = MAX_BODY // 4  # so that the event fits into the store even if every character is escaped
LONGEST_ID = 1000  # bytes
DEEPEST = MAX_DEPTH - 10  # nesting limit; a driver adds a few levels of its own

UNKNOWN_OUTCOME = "The outcome is unknown: the agent ended before it reported one."

_decode = msgspec.json.Decoder().decode


def parse(line: bytes) -> dict[str, Any] | NewEvent:
    """The JSON object on a line, or a `notice` whose code says why there is none."""
    if len(line) > LONGEST:
        return _unreadable(line, "too_long", f"a line of {len(line):,} bytes is only in the spool")
    try:
        value = _value(line)
    except UnicodeDecodeError:
        return _unreadable(line, "not_utf8")
    except (ValueError, RecursionError):
        return _unreadable(line, "not_json")
    if type(value) is not dict:
        return _unreadable(line, "not_json")
    if line.count(b"[") + line.count(b"{") > DEEPEST and is_deep(value, DEEPEST):
        return _unreadable(line, "too_deep")
    return value


def text_field(record: dict[str, Any], key: str) -> str:
    """A field that should be text; empty for any other type, which may not even be hashable."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def is_blank(line: bytes) -> bool:
    """Whether a line is blank and needs no notice."""
    return not line or line.isspace()


def notice_event(code: str, text: str, **facts: Any) -> NewEvent:
    """Build a notice for the log."""
    return NewEvent("notice", {"text": text, "code": code, **facts})


def error(code: str, text: str, **facts: Any) -> NewEvent:
    """Build an error for the log."""
    return NewEvent("error", {"text": text, "code": code, **facts})


def preview(record: dict[str, Any]) -> str:
    """The beginning of a record's JSON."""
    whole = encode(record).decode()
    return whole if len(whole) <= SHOWN else whole[: SHOWN - 1] + "…"


def unknown(record: dict[str, Any]) -> NewEvent:
    """A notice for a record of an unknown kind."""
    return notice_event("unknown_record", preview(record))


def storable_id(value: Any) -> str | None:
    """An id exactly as the agent sent it, if every store can hold it; else None."""
    if not isinstance(value, str) or not value:
        return None
    try:
        check_plain("id", value, LONGEST_ID)
    except BadInput:
        return None
    return value


def origin(agent: str, native_id: str | None, record_id: str) -> Origin | None:
    """The origin of an event, if the agent's ids can be stored."""
    if native_id is None or storable_id(record_id) is None:
        return None
    return Origin(agent, native_id, record_id)


def _value(line: bytes) -> Any:
    try:
        return _decode(line)
    except UnicodeDecodeError:
        raise
    except (msgspec.DecodeError, RecursionError):
        # The standard library accepts lone surrogates, which agents do send. It also accepts NaN and turns
        # 1e999 into infinity, which no store accepts.
        return json.loads(line.decode(), parse_constant=_refuse, parse_float=_finite)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is too large")
    return value


def _unreadable(line: bytes, code: str, text: str | None = None) -> NewEvent:
    if text is None:
        beginning = line[: SHOWN * 4].decode(errors="replace")
        text = beginning if len(beginning) <= SHOWN else beginning[: SHOWN - 1] + "…"
    body: dict[str, Any] = {"text": text, "code": code, "bytes": len(line)}
    if len(line) <= KEPT:
        body["raw"] = base64.b64encode(line).decode()
    return NewEvent("notice", body)


# --- Lines of a file

TORN = "torn_tail"
BAD = "bad_line"
NULS = "nul_tail"
GLUED = "glued_lines"

_PIECE = 1 << 20
_TRIES = 64  # how many record beginnings are tried after a torn record
_BOM = b"\xef\xbb\xbf"
_raw_decode = json.JSONDecoder().raw_decode


Starts = tuple[bytes, ...]  # how the records of a file begin
Accepts = Callable[[dict[str, Any]], bool]  # whether an object is a record of this file

ANY: Starts = (b'{"',)


class JsonlLine(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a file, or one piece that is not a record. A glued line yields several."""

    number: int  # line number from 0; blank lines are counted but not returned
    offset: int  # of its first byte in the file
    size: int  # in bytes, without the newline
    value: dict[str, Any] | None = None
    problem: str | None = None  # one of the codes above; with a value it is `glued_lines`
    odd: NewEvent | None = None  # without a value: a notice that shows what is there instead
    ended: bool = True  # a newline follows


def lines(path: str, starts: Starts = ANY, offset: int = 0, accepts: Accepts = bool) -> Iterator[JsonlLine]:
    """Yield the lines of a file from a byte offset; a line with several records yields each of them.

    `starts` and `accepts` describe a record of this file, so that a whole record after a torn one is found
    and a part of the torn one is not taken for a record.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        yield from read(file, starts, offset, accepts)


def read(
    file: BinaryIO, starts: Starts = ANY, offset: int = 0, accepts: Accepts = bool
) -> Iterator[JsonlLine]:
    """Yield the lines of an open file that is already read up to `offset`."""
    number = 0
    while raw := file.readline(LONGEST + 1):
        size = len(raw)
        ended = raw.endswith(b"\n")
        if ended:
            raw = raw[:-1]
        if len(raw) > LONGEST:
            rest, ended = _skip(file)
            size += rest
            odd = notice_event(BAD, f"a line of {size:,} bytes is too long to read", bytes=size)
            yield JsonlLine(number=number, offset=offset, size=size, problem=BAD, odd=odd, ended=ended)
        elif isinstance(value := parse(raw), dict):
            yield JsonlLine(number=number, offset=offset, size=len(raw), value=value, ended=ended)
        elif raw and not raw.isspace():
            yield from _line(raw, number, offset, starts, accepts, ended)
        offset += size
        number += 1


def parse_line(raw: bytes, starts: Starts = ANY, accepts: Accepts = bool) -> Iterator[JsonlLine]:
    """Parse one line, given without its newline."""
    if raw and not raw.isspace() and len(raw) <= LONGEST:
        yield from _line(raw, 0, 0, starts, accepts, True)


def notice(line: JsonlLine, agent: str, native_id: str) -> NewEvent:
    """The notice for a line without a value, as an event of that session."""
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
    for begin, end, record in _pieces(raw, starts, accepts, ended):
        piece = raw[begin:end]
        last = not ended and end == len(raw)
        at = offset + begin
        if record is not None:
            yield JsonlLine(
                number=number, offset=at, size=len(piece), value=record, problem=GLUED, ended=not last
            )
        elif not piece.strip(b"\0 \t\r\n"):
            odd = notice_event(NULS if last else BAD, f"{len(piece):,} blank bytes", bytes=len(piece))
            problem = NULS if last else BAD
            yield JsonlLine(
                number=number, offset=at, size=len(piece), problem=problem, odd=odd, ended=not last
            )
        else:
            problem = TORN if last else BAD
            odd = value if (begin, end) == (0, len(raw)) else _piece_notice(piece)
            yield JsonlLine(
                number=number, offset=at, size=len(piece), problem=problem, odd=odd, ended=not last
            )


def _piece_notice(piece: bytes) -> NewEvent:
    parsed = parse(piece)
    return parsed if isinstance(parsed, NewEvent) else notice_event(BAD, preview(parsed))


def _pieces(
    raw: bytes, starts: Starts, accepts: Accepts, ended: bool
) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Split a line that is not one record: start and end of each piece, and its record if it is one."""
    position = lost = tries = 0  # lost: where the piece without a record begins
    while position < len(raw):
        if raw[position] == 0:
            # NULs are a piece of their own, so that the bytes that a crash left before them count as torn.
            if lost < position:
                yield lost, position, None
            end = position + len(raw[position:]) - len(raw[position:].lstrip(b"\0"))
            yield position, end, None
            lost = position = end
            continue
        record = _record(raw, position) if raw.startswith(b"{", position) and tries < _TRIES else None
        tries += 1
        if record is not None and (lost == position or _is_own(raw, record, accepts, ended)):
            end, value = record
            if raw[lost:position].strip():
                yield lost, position, None
            yield position, end, value
            lost = position = _past_space(raw, end)
            continue
        position = _next(raw, position + 1, starts) if tries < _TRIES else len(raw)
    if raw[lost:].strip():
        yield lost, len(raw), None


def _record(raw: bytes, begin: int) -> tuple[int, dict[str, Any]] | None:
    """The object that begins at this position and its end, if it is whole."""
    end = begin
    try:
        text = raw[begin:].decode(errors="surrogateescape")
        value, length = _raw_decode(text)
        end = begin + len(text[:length].encode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    parsed = parse(raw[begin:end])  # the same limits as for every line
    return (end, parsed) if isinstance(parsed, dict) else None


def _is_own(raw: bytes, record: tuple[int, dict[str, Any]], accepts: Accepts, ended: bool) -> bool:
    """Whether an object after torn bytes is a record and not a part of the torn one.

    It was written whole: it ends with its newline, or another record is glued to it.
    """
    end, value = record
    rest = raw[end:].lstrip()
    return accepts(value) and (rest.startswith((b"{", b"\0")) if rest else ended)


def _next(raw: bytes, begin: int, starts: Starts) -> int:
    positions = [raw.find(start, begin) for start in (*starts, b"\0")]
    return min((position for position in positions if position >= 0), default=len(raw))


def _past_space(raw: bytes, position: int) -> int:
    return len(raw) - len(raw[position:].lstrip())


def _skip(file: BinaryIO) -> tuple[int, bool]:
    """Skip the rest of a line; return how many bytes and whether a newline ended it."""
    size = 0
    while piece := file.readline(_PIECE):
        size += len(piece)
        if piece.endswith(b"\n"):
            return size, True
    return size, False
