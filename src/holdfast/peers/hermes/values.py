"""Values from another tool's JSON and columns, converted so that every store can hold them."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from typing import Any, BinaryIO

import msgspec

from holdfast import timestamps
from holdfast.agents.acp.content import join_surrogates
from holdfast.errors import BadInput
from holdfast.model.json_codec import encode, is_deep
from holdfast.transcripts.jsonl import DEEPEST, LONGEST

LONGEST_TEXT = 10_000_000  # characters; storable even if every one of them is escaped

_LATEST = 253_402_300_799.0  # the last second of the year 9999
_decode = msgspec.json.Decoder().decode


def parse(data: bytes | str) -> Any:
    """Parse JSON; ValueError if it is not JSON, or nested too deep."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(data)  # lone surrogates, NaN
    except RecursionError:
        raise ValueError("nested too deep") from None


def text(value: Any) -> str:
    """A text that can be stored; empty if the value is not a text."""
    if not isinstance(value, str):
        return ""
    shortened: str = value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
    try:
        shortened.encode()
    except UnicodeEncodeError:
        return join_surrogates(shortened)
    return shortened


def replace_lone_surrogates(value: str) -> str:
    """A text whose surrogate pairs are joined, with a replacement mark for each half without a partner."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def identifier(value: Any) -> str:
    """An id or a name; empty if the value is neither."""
    if type(value) is int:
        return str(value) if abs(value) < 1 << 63 else ""
    return text(value)


def seconds(value: Any) -> float | None:
    """A time in seconds since 1970; None if the value is not a time."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) not in (int, float):
        return None
    try:
        moment = float(value)
    except OverflowError:
        return None
    return moment if math.isfinite(moment) and 0 <= moment <= _LATEST else None


def stamp(moment: float | None) -> str | None:
    """A time in our format; None for 0, because nobody means 1970."""
    return timestamps.stamp(moment) if moment else None


def storable(value: Any) -> Any:
    """The value itself if a store can hold it, otherwise its JSON as text."""
    try:
        data = encode(value, limit=LONGEST)
    except (BadInput, OverflowError, RecursionError):
        return {"unstorable": text(_shown(value))}
    if data.count(b"[") + data.count(b"{") > DEEPEST and is_deep(value, DEEPEST):
        return {"unstorable": text(_shown(value))}
    return value


def _shown(value: Any) -> str:
    try:
        return json.dumps(value)[:LONGEST]
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


# --- Opening another tool's files without waiting and without leaving a trace.

_NO_ATIME = getattr(os, "O_NOATIME", 0)


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading; OSError if it is not a regular file."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a fifo must not block
    try:
        fd = os.open(path, flags | _NO_ATIME)
    except PermissionError:  # O_NOATIME is for the owner
        fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")
