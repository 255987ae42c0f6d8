"""What a rollout was found to hold: what a judgement of it needs to know."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

SHOWN = 20  # pieces of evidence that are kept of one kind of problem
DANGLING = 1000  # calls without a result that are listed
_RECENT = 10_000


class Last(msgspec.Struct, frozen=True):
    """How the last turn stands."""

    ended: str | None  # complete, failed, aborted; None if nothing says so
    begun: bool  # whether anything came after the prompt
    dangling: bool
    reason: str = ""


class Facts(msgspec.Struct):
    """The fold of a rollout."""

    records: int = 0
    header: bool = False  # the first line is the session's own
    header_id: str | None = None
    thread_id: str | None = None  # as other records name it
    cwd: str | None = None
    title: str | None = None
    said: bool = False  # a person or the model said something
    complete: bytearray = msgspec.field(default_factory=bytearray)  # of each turn
    dangling: list[tuple[int, dict[str, Any]]] = []  # with the number of its turn
    last: Last | None = None
    odd: dict[str, list[dict[str, Any]]] = {}  # problem: its evidence, as far as it is kept
    counts: dict[str, int] = {}  # problem: how often

    @property
    def turns(self) -> int:
        """How many prompts began a turn."""
        return len(self.complete)

    @property
    def last_complete(self) -> int | None:
        """The number of the last turn that ended with an answer and no open call."""
        return self.complete.rfind(1) + 1 or None

    def note(self, code: str, **evidence: Any) -> None:
        """Keep that something is wrong."""
        self.counts[code] = self.counts.get(code, 0) + 1
        shown = self.odd.setdefault(code, [])
        if len(shown) < SHOWN:
            shown.append(evidence)

    def take_back(self, turns: int) -> None:
        """The last turns do not count any more."""
        del self.complete[max(0, self.turns - turns) :]
        self.dangling = [entry for entry in self.dangling if entry[0] <= self.turns]


class Recent:
    """The ids met lately; more than any file holds between two records that belong together."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def add(self, id: str) -> None:
        """Keep an id, and forget the oldest if there are too many."""
        self._ids[id] = None
        if len(self._ids) > _RECENT:
            self._ids.popitem(last=False)
