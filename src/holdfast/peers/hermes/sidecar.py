"""A sidecar of the web UI: one JSON file with all of a session, whole or torn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.peers.hermes import values
from holdfast.peers.hermes.messages import content_text

SidecarState = Literal["whole", "torn", "empty", "foreign", "malformed", "absent", "unreadable"]

# Big lists; what is torn inside one is read around. The web UI writes with an indent of two.
_LISTS = ("messages", "tool_calls", "context_messages")
_NEXT_ITEM, _NEXT_KEY, _LIST_END = "\n    {", '\n  "', "\n  ]"
_SPACE = " \t\r\n"

_scan = json.JSONDecoder(strict=True).raw_decode


class Sidecar(msgspec.Struct, kw_only=True):
    """What one file holds."""

    path: str
    state: SidecarState
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
        with values.open_file(path) as file:
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


# --- Where a compaction is shown: the web UI keeps a message's number among those that it shows.

ANCHOR_FIELD = "compression_anchor_visible_idx"
_MARKERS = (
    "[context compaction",
    "[your active task list was preserved across context compression]",
    "[session arc summary",
)


def move_anchor(told: Any, old: list[Any], new: list[Any], now_at: dict[int, int]) -> Any:
    """The number after messages have moved; `now_at`: places in the old list that are places in the new."""
    if type(told) is not int or told < 0:
        return told
    shown = [place for place, message in enumerate(old) if _is_shown(message)]
    place = now_at.get(shown[told]) if told < len(shown) else None
    return told if place is None else sum(map(_is_shown, new[:place]))


def _is_shown(message: Any) -> bool:
    """Whether the web UI counts a message."""
    if not isinstance(message, dict) or message.get("role") in (None, "", "tool"):
        return False
    said = content_text(message.get("content")).strip()
    if said.lower().startswith(_MARKERS) or (
        message.get("_compressed_summary") and said.lower().startswith("context compaction")
    ):
        return False
    return bool(said or any(message.get(name) for name in ("attachments", "tool_calls", "reasoning")))


# --- A sidecar as the web UI writes it: the order of its fields, and its bytes.

NO_PENDING_TURN: dict[str, Any] = {
    "active_stream_id": None,
    "pending_user_message": None,
    "pending_attachments": [],
    "pending_started_at": None,
    "pending_user_source": None,
}
SCENES = "anchor_activity_scenes"

# The fields that a listing needs, in the file's order; it reads the file only as far as the messages.
_FIRST: dict[str, Any] = {
    "session_id": None,
    "title": "Untitled",
    "workspace": None,
    "created_workspace": None,
    "model": "",
    "created_at": 0.0,
    "updated_at": 0.0,
    "pinned": False,
    "archived": False,
}
_LAST = ("message_count", "anchor_scene_index")
_DERIVED = frozenset({"messages", "tool_calls", "context_messages", SCENES, *_LAST})


class SidecarDraft:
    """A session's lists, and the fields around them; changed in place while it is mended."""

    def __init__(self, head: dict[str, Any], messages: list[Any], cards: list[Any], context: list[Any]):
        self.head = head
        self.messages = messages
        self.cards = cards
        self.context = context

    @classmethod
    def of(cls, side: Sidecar) -> SidecarDraft:
        """What a sidecar has."""
        return cls(dict(side.head), list(side.messages), list(side.cards), list(side.context))

    def move(self, messages: list[Any], now_at: dict[int, int]) -> None:
        """Other messages; what stood beside those that were there moves with them."""
        if ANCHOR_FIELD in self.head:
            self.head[ANCHOR_FIELD] = move_anchor(self.head[ANCHOR_FIELD], self.messages, messages, now_at)
        self.cards = move_cards(self.cards, now_at)
        self.messages = messages


def move_cards(cards: list[Any], now_at: Mapping[int, int]) -> list[Any]:
    """Tool cards, each beside its message, wherever that stands now."""
    found = []
    for card in cards:
        at = card.get("assistant_msg_idx") if isinstance(card, dict) else None
        where = now_at.get(at) if type(at) is int else None
        found.append(card if where is None else {**card, "assistant_msg_idx": where})
    return found


def encode(body: SidecarDraft) -> bytes:
    """The file; ValueError if it cannot be written as one.

    Half characters become marks, because with them the web UI could never save it again.
    """
    head = body.head
    made = {name: head.get(name, default) for name, default in _FIRST.items()}
    made = {name: value for name, value in made.items() if value is not None or name in head}
    made |= {name: value for name, value in head.items() if name not in made and name not in _DERIVED}
    made["message_count"] = len(body.messages)
    made["anchor_scene_index"] = head.get("anchor_scene_index", {})
    made["messages"] = body.messages
    made["tool_calls"] = body.cards or head.get("tool_calls", [])
    made[SCENES] = head.get(SCENES, {})
    made["context_messages"] = body.context or head.get("context_messages", [])
    try:
        return values.replace_lone_surrogates(json.dumps(made, ensure_ascii=False, indent=2)).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
