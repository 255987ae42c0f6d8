"""Which events of an agent's own history does our log not have yet? Pure functions on values."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.json_codec import text

MAX_COMPARED = 32 * 1024 * 1024  # characters; a longer block in parts is not joined for comparison
REPLAY_MARKER = "replayed"  # the code of the notice that ends a replay

Wording = Callable[[str, dict[str, Any]], tuple[str, ...] | None]

# Fields with equal content in a stream and in a store. Times, durations and the agent's marks differ.
_SAME = {
    "user": ("text",),
    "assistant": ("text",),
    "thinking": ("text",),
    "tool_progress": ("name", "input"),
    "tool_summary": ("name", "output"),
    "notice": ("code", "text"),
    "error": ("code", "text"),
    "permission": ("call",),
}


class KnownEvents:
    """What a log holds, indexed to recognize the same events in a store."""

    def __init__(self, wording: Wording | None = None) -> None:
        """`wording` returns a comparison key where an agent's stream and store word an event differently."""
        self._wording = wording
        self._origins: dict[Origin, bytes | None] = {}  # comparison key by origin; None once it is matched
        self._begun: dict[bytes, deque[str]] = {}  # calls of the log that no stored call has matched
        self._ended: set[str] = set()  # calls of the log that have a summary
        self._parts: list[str] = []  # texts of the block that is being added
        self._halves: list[tuple[str, str]] = []  # truncated blocks of the log: kind and text
        # stored call id -> call id in the log; None: the log lacks the call
        self._names: dict[str, str | None] = {}
        self.unmarked = False  # the log ends with replayed events but without their marker
        self._said: Counter[bytes] = Counter()  # events without a matched origin, counted by comparison key

    def add(self, event: Event | NewEvent) -> None:
        """Add one record of the log."""
        if event.kind not in _SAME:
            return
        if event.kind == "notice" and event.body.get("code") == REPLAY_MARKER:
            self.unmarked = False
            return
        self.unmarked |= event.replayed
        if event.body.get("cut"):
            self._halves.append((event.kind, str(_plain(event.body.get("text")))))
            return
        if "part" in event.body:
            self._add_part(event)
            return
        digest = self._digest(event.kind, event.body)
        self._said[digest] += 1
        if event.origin is not None:
            self._origins[event.origin] = digest
        if event.kind == "tool_progress":
            self._begun.setdefault(digest, deque()).append(str(event.body.get("call")))
        elif event.kind == "tool_summary":
            self._ended.add(str(event.body.get("call")))

    def _add_part(self, event: Event | NewEvent) -> None:
        """Add one part of a block that was too long for one record. A store holds the block whole."""
        if event.origin is not None:
            self._origins[event.origin] = None
        text = str(event.body.get("text"))
        self._parts = [text] if event.body["part"] == 1 else [*self._parts, text]
        if sum(map(len, self._parts)) > MAX_COMPARED:
            self._parts = []  # too long to compare: only an origin can match this block
        elif not event.body.get("more") and self._parts:
            self._said[self._digest(event.kind, {"text": "".join(self._parts)})] += 1

    def missing(self, past: Iterable[NewEvent]) -> Iterator[NewEvent]:
        """Yield the stored events that the log lacks, in order. Each log record matches at most one."""
        for event in past:
            call = str(event.body.get("call"))
            if event.kind == "tool_summary" and call in self._names:
                # Stores word results differently, so a summary is matched by the call that it ends.
                name = self._names[call]
                if name in self._ended:
                    continue
                if name is not None and name != call:
                    event = replace(event, body={**event.body, "call": name})
                yield event
            elif not (event.kind == "tool_summary" and call in self._ended) and not self._meets(event):
                yield event

    def _meets(self, event: NewEvent) -> bool:
        if event.origin is not None and event.origin in self._origins:
            digest, self._origins[event.origin] = self._origins[event.origin], None
            met = True
        else:
            digest = self._digest(event.kind, event.body)
            met = self._said[digest] > 0
        if digest is not None and self._said[digest] > 0:
            self._said[digest] -= 1
        if event.kind == "tool_progress":
            call = str(event.body.get("call"))
            self._names[call] = self._name(call, digest) if met else None
        return met or self._is_half(event)

    def _is_half(self, event: NewEvent) -> bool:
        """Whether the log holds at least this much of a truncated block."""
        text = str(_plain(event.body.get("text")))
        for half in self._halves:
            if text and half[0] == event.kind and half[1].startswith(text):
                self._halves.remove(half)
                return True
        return False

    def _name(self, call: str, digest: bytes | None) -> str:
        """The id that the log uses for a stored call that it has."""
        same = self._begun.get(digest, deque()) if digest is not None else deque()
        if call in same:
            same.remove(call)
        elif same:
            return same.popleft()
        return call

    def _digest(self, kind: str, body: dict[str, Any]) -> bytes:
        own = self._wording(kind, body) if self._wording is not None else None
        key = (
            list(own)
            if own is not None
            else [kind, *[_plain(body.get(name)) for name in _fields(kind, body)]]
        )
        return blake2b(text(key).encode(), digest_size=16).digest()


def _fields(kind: str, body: dict[str, Any]) -> tuple[str, ...]:
    # Holdfast words this notice itself, and a log may hold the wording of an earlier version.
    return ("code",) if kind == "notice" and body.get("code") == "compacted" else _SAME[kind]


def _plain(value: Any) -> Any:
    """Text without surrounding white space, which streams and stores treat differently."""
    return value.strip() if isinstance(value, str) else value
