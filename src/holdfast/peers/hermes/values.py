"""Values out of another tool's JSON and columns, made such that every store can hold them."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from typing import Any, BinaryIO

import msgspec

from holdfast import timestamps
from holdfast.agents.acp.content import mended
from holdfast.errors import BadInput
from holdfast.model.json_codec import encode, is_deep
from holdfast.transcripts.jsonl import DEEPEST, LONGEST

LONGEST_TEXT = 10_000_000  # characters; storable even if every one of them is escaped

_LATEST = 253_402_300_799.0  # the last second of the year 9999
_decode = msgspec.json.Decoder().decode


def parse(data: bytes | str) -> Any:
    """What JSON says; ValueError if it is none, or one too deep to read."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return json.loads(data)  # lone surrogates, NaN
    except RecursionError:
        raise ValueError("nested too deep") from None


def text(given: Any) -> str:
    """A text such that it can be stored; empty if it is none."""
    if not isinstance(given, str):
        return ""
    value: str = given if len(given) <= LONGEST_TEXT else given[: LONGEST_TEXT - 1] + "…"
    try:
        value.encode()
    except UnicodeEncodeError:
        return mended(value)
    return value


def replace_lone_surrogates(given: str) -> str:
    """A text in which halves of characters are joined, and marked where the other half is nowhere."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return given.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return given


def identifier(value: Any) -> str:
    """An id or a name; empty if it is none."""
    if type(value) is int:
        return str(value) if abs(value) < 1 << 63 else ""
    return text(value)


def seconds(value: Any) -> float | None:
    """A time in seconds since 1970, if that is one."""
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
    """A time in the one form; nobody's 1970 is meant."""
    return timestamps.stamp(moment) if moment else None


def storable(value: Any) -> Any:
    """The value itself if a store takes it, else a text that says what it was."""
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


# --- Opening another tool's files: never waiting for one that is no file, and leaving no trace.

_NO_ATIME = getattr(os, "O_NOATIME", 0)


def open_file(path: str) -> BinaryIO:
    """A regular file, open for reading; OSError if it is none."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a fifo by that name must not hold us
    try:
        fd = os.open(path, flags | _NO_ATIME)
    except PermissionError:  # O_NOATIME is for the owner
        fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")
