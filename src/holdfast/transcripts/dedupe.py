"""Which events of an agent's own history a log does not have yet: values in, values out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from holdfast.model.event import Event, NewEvent, Origin
from holdfast.model.json_codec import text

REPLAY_MARKER = "replayed"  # the code of the notice behind what was replayed

Wording = Callable[[str, dict[str, Any]], tuple[str, ...] | None]

# What says the same in a stream and in a store; times, durations and the agent's marks differ.
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
    """What a log has, as far as it matters for meeting the same things again."""

    def __init__(self, said: Wording | None = None) -> None:
        """`said` tells what an event says where a stream and a store of one agent word it differently."""
        self._wording = said
        self._origins: dict[Origin, bytes | None] = {}  # what each says; None once it was met
        self._begun: dict[bytes, deque[str]] = {}  # calls of the log that none of the past has met
        self._ended: set[str] = set()  # calls of the log that have a summary
        self._halves: list[tuple[str, str]] = []  # what the log has of blocks that were cut off, by kind
        self._names: dict[str, str | None] = {}  # calls of the past by their name in the log; None: not there
        self.unmarked = False  # replayed events stand at its end without their border
        self._said: Counter[bytes] = Counter()  # events by what they say, of those without a meeting origin

    def add(self, event: Event | NewEvent) -> None:
        """Take in one record of the log."""
        if event.kind not in _SAME:
            return
        if event.kind == "notice" and event.body.get("code") == REPLAY_MARKER:
            self.unmarked = False
            return
        self.unmarked |= event.replayed
        if event.body.get("cut"):
            self._halves.append((event.kind, str(_plain(event.body.get("text")))))
            return
        digest = self._digest(event.kind, event.body)
        self._said[digest] += 1
        if event.origin is not None:
            self._origins[event.origin] = digest
        if event.kind == "tool_progress":
            self._begun.setdefault(digest, deque()).append(str(event.body.get("call")))
        elif event.kind == "tool_summary":
            self._ended.add(str(event.body.get("call")))

    def missing(self, past: Iterable[NewEvent]) -> Iterator[NewEvent]:
        """Those of the past that the log lacks, in order; each record of the log meets one at most."""
        for event in past:
            call = str(event.body.get("call"))
            if event.kind == "tool_summary" and call in self._names:
                # How a store words an end may differ: it is told by the call that it ends.
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
        """Whether the log has at least so much of a block that was cut off."""
        text = str(_plain(event.body.get("text")))
        for half in self._halves:
            if text and half[0] == event.kind and half[1].startswith(text):
                self._halves.remove(half)
                return True
        return False

    def _name(self, call: str, digest: bytes | None) -> str:
        """What the log calls a call of the past that it has."""
        same = self._begun.get(digest, deque()) if digest is not None else deque()
        if call in same:
            same.remove(call)
        elif same:
            return same.popleft()
        return call

    def _digest(self, kind: str, body: dict[str, Any]) -> bytes:
        told = self._wording(kind, body) if self._wording is not None else None
        said = list(told) if told is not None else [kind, *[_plain(body.get(name)) for name in _SAME[kind]]]
        return blake2b(text(said).encode(), digest_size=16).digest()


def _plain(value: Any) -> Any:
    """Text without the white space at its ends, which streams and stores treat differently."""
    return value.strip() if isinstance(value, str) else value
