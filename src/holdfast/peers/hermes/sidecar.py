"""A sidecar of the web UI: one JSON file with a whole session, read even if it is damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.peers.hermes import values
from holdfast.peers.hermes.messages import HermesMessage, content_text

SidecarState = Literal["whole", "torn", "empty", "foreign", "malformed", "absent", "unreadable"]

# Large lists, read item by item if the file is damaged. The web UI writes with an indent of two.
_LISTS = ("messages", "tool_calls", "context_messages")
_NEXT_ITEM, _NEXT_KEY, _LIST_END = "\n    {", '\n  "', "\n  ]"
_SPACE = " \t\r\n"

_scan = json.JSONDecoder(strict=True).raw_decode


class Sidecar(msgspec.Struct, kw_only=True):
    """The content of one file."""

    path: str
    state: SidecarState
    head: dict[str, Any] = {}  # everything except the large lists
    messages: list[Any] = []
    context: list[Any] = []
    cards: list[Any] = []
    size: int = 0
    surrogates: bool = False  # it contains half a character: the web UI cannot save it again
    gaps: int = 0  # places where something could not be read
    parsed: dict[str, list[HermesMessage]] = {}  # its messages by source, once they are read

    @property
    def usable(self) -> bool:
        """Whether it contains something of a session."""
        return self.state in ("whole", "torn")

    @property
    def has_all(self) -> bool:
        """Whether no message is lost: even if it is damaged after them, it still has their count."""
        if self.state != "torn":
            return self.state == "whole"
        count = self.head.get("message_count")
        return type(count) is int and count == len(self.messages)

    @property
    def nameless(self) -> bool:
        """Whether it does not name its session: then the web UI invents a new id at every load."""
        return self.state == "whole" and not isinstance(self.head.get("session_id"), str)

    def other_id(self, own: str) -> str | None:
        """The session that it names, if that is another one."""
        named = self.head.get("session_id")
        return named if self.usable and isinstance(named, str) and named != own else None


def load(path: str) -> Sidecar:
    """Read the file at a path; its state says if it does not exist or cannot be read."""
    try:
        with values.open_file(path) as file:
            data = file.read()
    except FileNotFoundError:
        return Sidecar(path=path, state="absent")
    except OSError:
        return Sidecar(path=path, state="unreadable")
    return read(path, data)


def read(path: str, data: bytes) -> Sidecar:
    """Read a sidecar from bytes."""
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
    """Whether a text contains half a character, which only an escape can encode."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return False
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return True
    return False


def _salvage(path: str, data: bytes) -> Sidecar:
    """What can be read of a file that is not JSON: its keys in order, each large list item by item."""
    value: dict[str, Any] = {}
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
                value[name] = [*value.get(name, ()), *items]
            else:
                value[name], at = _value(text, at)
        except ValueError:
            at = text.find(_NEXT_KEY, at + 1)
    is_object = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"  # it was cut off early
    if not is_object and not isinstance(value.get("session_id"), str) and not value.get("messages"):
        return Sidecar(path=path, state="foreign", head=_head(value), size=len(data), gaps=gaps)
    value.setdefault("messages", [])
    torn = _whole(path, value, len(data), surrogates=False)
    torn.state, torn.gaps = "torn", gaps
    return torn


def _items(text: str, at: int) -> tuple[list[Any], int, int]:
    """The readable items of a list, the position after the list, and the number of unreadable items."""
    items: list[Any] = []
    lost = 0
    while True:
        at = _skip(text, at, ",")
        if at >= len(text):
            return items, at, lost
        if text[at] == "]":
            return items, at + 1, lost
        following = text.find(_NEXT_ITEM, at)
        try:
            if following < 0:
                item, at = _value(text, at)
            else:  # on its own: an error of the standard library counts all lines before it
                item, size = _value(text[at:following], 0)
                at += size
            items.append(item)
        except ValueError:
            lost += 1
            end = text.find(_LIST_END, at, following if following >= 0 else len(text))
            if end >= 0 or following < 0:
                return items, end + len(_LIST_END) if end >= 0 else len(text), lost
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


# --- The position of a compaction: the web UI stores it as a count of visible messages.

ANCHOR_FIELD = "compression_anchor_visible_idx"
_MARKERS = (
    "[context compaction",
    "[your active task list was preserved across context compression]",
    "[session arc summary",
)


def move_anchor(anchor: Any, old: list[Any], new: list[Any], moved: dict[int, int]) -> Any:
    """The anchor after messages moved; `moved`: position in the old list: position in the new one."""
    if type(anchor) is not int or anchor < 0:
        return anchor
    visible = [position for position, message in enumerate(old) if _is_visible(message)]
    position = moved.get(visible[anchor]) if anchor < len(visible) else None
    return anchor if position is None else sum(map(_is_visible, new[:position]))


def _is_visible(message: Any) -> bool:
    """Whether the web UI counts a message as visible."""
    if not isinstance(message, dict) or message.get("role") in (None, "", "tool"):
        return False
    text = content_text(message.get("content")).strip()
    if text.lower().startswith(_MARKERS) or (
        message.get("_compressed_summary") and text.lower().startswith("context compaction")
    ):
        return False
    return bool(text or any(message.get(name) for name in ("attachments", "tool_calls", "reasoning")))


# --- A sidecar as the web UI writes it: the order of its fields, and its bytes.

NO_PENDING_TURN: dict[str, Any] = {
    "active_stream_id": None,
    "pending_user_message": None,
    "pending_attachments": [],
    "pending_started_at": None,
    "pending_user_source": None,
}
SCENES = "anchor_activity_scenes"

# The fields of a listing, in file order; the web UI reads the file only up to the messages.
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
    """A session's lists and fields, changed in place by a repair."""

    def __init__(self, head: dict[str, Any], messages: list[Any], cards: list[Any], context: list[Any]):
        self.head = head
        self.messages = messages
        self.cards = cards
        self.context = context

    @classmethod
    def of(cls, side: Sidecar) -> SidecarDraft:
        """A draft with the content of a sidecar."""
        return cls(dict(side.head), list(side.messages), list(side.cards), list(side.context))

    def move(self, messages: list[Any], moved: dict[int, int]) -> None:
        """Replace the messages; anchors and tool cards move with their messages."""
        if ANCHOR_FIELD in self.head:
            self.head[ANCHOR_FIELD] = move_anchor(self.head[ANCHOR_FIELD], self.messages, messages, moved)
        self.cards = move_cards(self.cards, moved)
        self.messages = messages


def move_cards(cards: list[Any], moved: Mapping[int, int]) -> list[Any]:
    """Tool cards with the new positions of their messages."""
    cards_moved = []
    for card in cards:
        at = card.get("assistant_msg_idx") if isinstance(card, dict) else None
        where = moved.get(at) if type(at) is int else None
        cards_moved.append(card if where is None else {**card, "assistant_msg_idx": where})
    return cards_moved


def encode(body: SidecarDraft) -> bytes:
    """The bytes of the file; ValueError if they cannot be written.

    Half characters become replacement marks, because the web UI cannot save a file that contains them.
    """
    head = body.head
    content = {name: head.get(name, default) for name, default in _FIRST.items()}
    content = {name: value for name, value in content.items() if value is not None or name in head}
    content |= {name: value for name, value in head.items() if name not in content and name not in _DERIVED}
    content["message_count"] = len(body.messages)
    content["anchor_scene_index"] = head.get("anchor_scene_index", {})
    content["messages"] = body.messages
    content["tool_calls"] = body.cards or head.get("tool_calls", [])
    content[SCENES] = head.get(SCENES, {})
    content["context_messages"] = body.context or head.get("context_messages", [])
    try:
        return values.replace_lone_surrogates(json.dumps(content, ensure_ascii=False, indent=2)).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
