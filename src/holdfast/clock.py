"""The one form of time: UTC, ISO 8601, microseconds, fixed width, so that text order is time order."""

from __future__ import annotations

import re
import time

_SHAPE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)

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
    import calendar

    whole = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return whole + int(text[20:26]) / 1_000_000


def is_stamp(text: str) -> bool:
    """Whether `text` is a time in the one form."""
    if not isinstance(text, str) or not _SHAPE.fullmatch(text):
        return False
    try:
        parse(text)
    except ValueError:
        return False
    return True
