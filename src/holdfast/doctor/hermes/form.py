"""A sidecar as the web UI writes it: the order of its fields, and its bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.doctor.hermes import anchor
from holdfast.history.hermes import values
from holdfast.history.hermes.sidecar import Sidecar

PENDING: dict[str, Any] = {
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


class Body:
    """A session's lists, and the fields around them; changed in place while it is mended."""

    def __init__(self, head: dict[str, Any], messages: list[Any], cards: list[Any], context: list[Any]):
        self.head = head
        self.messages = messages
        self.cards = cards
        self.context = context

    @classmethod
    def of(cls, side: Sidecar) -> Body:
        """What a sidecar has."""
        return cls(dict(side.head), list(side.messages), list(side.cards), list(side.context))

    def move(self, messages: list[Any], now_at: dict[int, int]) -> None:
        """Other messages; what stood beside those that were there moves with them."""
        if anchor.FIELD in self.head:
            self.head[anchor.FIELD] = anchor.moved(self.head[anchor.FIELD], self.messages, messages, now_at)
        self.cards = moved(self.cards, now_at)
        self.messages = messages


def moved(cards: list[Any], now_at: Mapping[int, int]) -> list[Any]:
    """Tool cards, each beside its message, wherever that stands now."""
    found = []
    for card in cards:
        at = card.get("assistant_msg_idx") if isinstance(card, dict) else None
        where = now_at.get(at) if type(at) is int else None
        found.append(card if where is None else {**card, "assistant_msg_idx": where})
    return found


def encode(body: Body) -> bytes:
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
        return values.whole(json.dumps(made, ensure_ascii=False, indent=2)).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
