"""A sidecar of the web UI: one JSON file with all of a session, whole or torn."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from holdfast.history.hermes import files

State = Literal["whole", "torn", "empty", "foreign", "malformed", "absent", "unreadable"]

# Big lists; what is torn inside one is read around. The web UI writes with an indent of two.
_LISTS = ("messages", "tool_calls", "context_messages")
_NEXT_ITEM, _NEXT_KEY, _LIST_END = "\n    {", '\n  "', "\n  ]"
_SPACE = " \t\r\n"

_scan = json.JSONDecoder(strict=True).raw_decode


class Sidecar(msgspec.Struct, kw_only=True):
    """What one file holds."""

    path: str
    state: State
    head: dict[str, Any] = {}  # all but the big lists
    messages: list[Any] = []
    context: list[Any] = []
    cards: list[Any] = []
    size: int = 0
    surrogates: bool = False  # a text in it is no Unicode: the web UI can never save it again
    gaps: int = 0  # places where something could not be read

    @property
    def usable(self) -> bool:
        """Whether there is something of a session in it."""
        return self.state in ("whole", "torn")

    @property
    def has_all(self) -> bool:
        """Whether none of its messages is lost: torn behind them, it still tells how many there were."""
        if self.state != "torn":
            return self.state == "whole"
        told = self.head.get("message_count")
        return type(told) is int and told == len(self.messages)

    @property
    def nameless(self) -> bool:
        """Whether it does not say which session it is: then the web UI makes up another id at every load."""
        return self.state == "whole" and not isinstance(self.head.get("session_id"), str)

    def other_id(self, own: str) -> str | None:
        """The session that it says it is, if that is another than that one."""
        named = self.head.get("session_id")
        return named if self.usable and isinstance(named, str) and named != own else None


def load(path: str) -> Sidecar:
    """The file at a path; that it is not there, or cannot be read, is told by its state."""
    try:
        with files.opened(path) as file:
            data = file.read()
    except FileNotFoundError:
        return Sidecar(path=path, state="absent")
    except OSError:
        return Sidecar(path=path, state="unreadable")
    return read(path, data)


def read(path: str, data: bytes) -> Sidecar:
    """What these bytes say."""
    size = len(data)
    if not data.strip(b"\0 \t\r\n"):
        return Sidecar(path=path, state="empty", size=size)
    try:
        value = _parse(data)
    except ValueError:
        return _salvage(path, data)
    if not isinstance(value, dict):
        return Sidecar(path=path, state="foreign", size=size)
    if not isinstance(value.get("messages"), list):
        known = isinstance(value.get("session_id"), str)
        return Sidecar(path=path, state="malformed" if known else "foreign", head=_head(value), size=size)
    return _whole(path, value, size, surrogates=_has_surrogates(data))


def _parse(data: bytes) -> Any:
    """What the web UI would read; ValueError if it could not."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode())  # lone surrogates, NaN
    except RecursionError:
        raise ValueError("nested too deep") from None


def _whole(path: str, value: dict[str, Any], size: int, surrogates: bool) -> Sidecar:
    return Sidecar(
        path=path,
        state="whole",
        head=_head(value),
        messages=value["messages"],
        context=_list(value.get("context_messages")),
        cards=_list(value.get("tool_calls")),
        size=size,
        surrogates=surrogates,
    )


def _head(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: inner
        for name, inner in value.items()
        if name not in _LISTS or (inner is not None and not isinstance(inner, list))
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _has_surrogates(data: bytes) -> bool:
    """Whether a text has half a character in it, which only an escape can say."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return False
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return True
    return False


def _salvage(path: str, data: bytes) -> Sidecar:
    """What can be read of a file that is no JSON: its keys in order, each big list item by item."""
    found: dict[str, Any] = {}
    text = data.decode("utf-8", "replace")
    at, gaps = _skip(text, 0), 1
    if not text.startswith("{", at):
        at = text.find(_NEXT_KEY)
        if at < 0:
            return Sidecar(path=path, state="foreign", size=len(data), gaps=1)
    else:
        at += 1
    while 0 <= at < len(text):
        at = _skip(text, at, ",")
        try:
            name, at = _value(text, at)
            at = _skip(text, at)
            if not isinstance(name, str) or not text.startswith(":", at):
                raise ValueError("no key")
            at = _skip(text, at + 1)
            if name in _LISTS and text.startswith("[", at):
                items, at, lost = _items(text, at + 1)
                gaps += lost
                found[name] = [*found.get(name, ()), *items]
            else:
                found[name], at = _value(text, at)
        except ValueError:
            at = text.find(_NEXT_KEY, at + 1)
    begun = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"  # one that was torn early
    if not begun and not isinstance(found.get("session_id"), str) and not found.get("messages"):
        return Sidecar(path=path, state="foreign", head=_head(found), size=len(data), gaps=gaps)
    found.setdefault("messages", [])
    torn = _whole(path, found, len(data), surrogates=False)
    torn.state, torn.gaps = "torn", gaps
    return torn


def _items(text: str, at: int) -> tuple[list[Any], int, int]:
    """The items of a list up to its end, without those that cannot be read; where it ends; how many not."""
    found: list[Any] = []
    lost = 0
    while True:
        at = _skip(text, at, ",")
        if at >= len(text):
            return found, at, lost
        if text[at] == "]":
            return found, at + 1, lost
        following = text.find(_NEXT_ITEM, at)
        try:
            if following < 0:
                item, at = _value(text, at)
            else:  # a piece of its own: an error of the standard library counts all lines before it
                item, size = _value(text[at:following], 0)
                at += size
            found.append(item)
        except ValueError:
            lost += 1
            end = text.find(_LIST_END, at, following if following >= 0 else len(text))
            if end >= 0 or following < 0:
                return found, end + len(_LIST_END) if end >= 0 else len(text), lost
            at = following + 1


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _scan(text, at)
    except (RecursionError, IndexError):
        raise ValueError("unreadable") from None


def _skip(text: str, at: int, also: str = "") -> int:
    while at < len(text) and text[at] in _SPACE + also:
        at += 1
    return at
