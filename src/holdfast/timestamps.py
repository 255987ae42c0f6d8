"""The one form of time: UTC, ISO 8601, microseconds, fixed width, so that text order is time order."""

from __future__ import annotations

import re
import time
from typing import Any

_SHAPE = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z", re.ASCII
)

_last = (-1, "")  # the second written last and its text; one tuple, so threads never mix two


def stamp(moment: float) -> str:
    """`moment` (seconds since 1970) in the one form."""
    global _last
    micros = int(moment * 1_000_000)
    whole, micros = divmod(micros, 1_000_000)
    second, prefix = _last
    if whole != second:
        prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _last = (whole, prefix)
    return f"{prefix}.{micros:06d}Z"


def now() -> str:
    """The present moment in the one form."""
    return stamp(time.time())


def parse(text: str) -> float:
    """Seconds since 1970 of a time in the one form."""
    # By hand: the standard library's way costs a reading command several milliseconds of imports.
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    march_year = year - (month <= 2)
    era_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = march_year * 365 + march_year // 4 - march_year // 100 + march_year // 400 + era_day - 719468
    hours = days * 24 + int(text[11:13])
    seconds = (hours * 60 + int(text[14:16])) * 60 + int(text[17:19])
    return seconds + int(text[20:26]) / 1_000_000


def is_stamp(text: object) -> bool:
    """Whether `text` is a time in the one form."""
    return isinstance(text, str) and _SHAPE.fullmatch(text) is not None


# --- The times in agents' own stores, in the one form of `clock`.

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(?:(Z)|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_LATEST = 253402300800  # the year 10000


def when_stamp(value: Any) -> str | None:
    """An ISO 8601 text (without a zone it is UTC) in the one form; None if it is no such thing."""
    if isinstance(value, str) and len(value) == 24 and value[23] == "Z":  # nearly always
        told = f"{value[:23]}000Z"
        if is_stamp(told):
            return told
    found = _ISO.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 64 else None
    if found is None:
        return None
    day, time, fraction, _, sign, hours, minutes = found.groups()
    told = f"{day}T{time}.{(fraction or '')[:6]:0<6}Z"
    if not is_stamp(told):
        return None
    if sign is None:
        return told
    shift = (int(hours) * 60 + int(minutes)) * 60
    return of_seconds(parse(told) + (shift if sign == "-" else -shift))


def of_seconds(value: Any) -> str | None:
    """Seconds since 1970 in the one form; None if that is no time."""
    if type(value) not in (int, float) or not 0 <= value < _LATEST:
        return None
    return stamp(value)


def of_millis(value: Any) -> str | None:
    """Milliseconds since 1970 in the one form; None if that is no time."""
    return of_seconds(value / 1000) if type(value) in (int, float) and abs(value) < _LATEST * 1000 else None


# --- The times in Cursor's stores, in our one form.


def of(value: Any) -> str | None:
    """A time as ISO text or milliseconds since 1970; None if it is neither."""
    return when_stamp(value) if isinstance(value, str) else of_millis(value)
