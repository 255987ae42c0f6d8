"""The tools of one transcript: which are open, and which ended."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

HELPERS = frozenset({"Task", "Agent"})  # the tools that start a subagent

_KEPT = 4096  # ended calls that are surely known as such


class Open(msgspec.Struct, gc=False):
    """A call without a result."""

    name: str
    parent: str | None  # the call that started the subagent that made it
    prompt: str | None  # of a subagent that it starts


class Calls:
    """The calls of one transcript, of the ended ones only the latest."""

    def __init__(self) -> None:
        """None yet."""
        self.open: dict[str, Open] = {}
        self._young: dict[str, None] = {}
        self._old: dict[str, None] = {}

    def began(self, call: str, name: str, parent: str | None, given: object) -> bool:
        """A call begins; False if it was told before."""
        if call in self.open or call in self._young or call in self._old:
            return False
        prompt = given.get("prompt") if name in HELPERS and isinstance(given, dict) else None
        self.open[call] = Open(name, parent, prompt if isinstance(prompt, str) else None)
        return True

    def end(self, call: str) -> Open:
        """A call has its result."""
        self._young[call] = None
        if len(self._young) > _KEPT:
            self._old, self._young = self._young, {}
        return self.open.pop(call, _UNKNOWN)

    def ended(self, call: str) -> bool:
        """Whether a result was told before."""
        return call in self._young or call in self._old

    def helper(self, prompt: str | None = None) -> str | None:
        """The open call that started a subagent with that prompt; else the latest that started any."""
        found: str | None = None
        for call, started in self._helpers():
            found = call
            if prompt is not None and started.prompt == prompt:
                break
        return found

    def _helpers(self) -> Iterator[tuple[str, Open]]:
        for call, started in self.open.items():
            if started.name in HELPERS:
                yield call, started


_UNKNOWN = Open("", None, None)
