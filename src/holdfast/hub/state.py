"""The hub as its handlers see it: the home that is open just now, the feed, and what happened at start."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from holdfast import errors, timestamps
from holdfast.forges.webhook import NamedLocks
from holdfast.home import Home
from holdfast.hub.fresh_starts import FreshStarts
from holdfast.hub.logins import Logins
from holdfast.hub.streaming.feed import Feed
from holdfast.recovery.findings import Done, Report, Unhealed
from holdfast.resume.verdict import Verdict
from holdfast.runner.context import Context
from holdfast.shortage import Shortage, disk_shortage
from holdfast.store.location import Location
from holdfast.store.store import Store

T = TypeVar("T")

KEPT = 1000


class TtlCache(Generic[T]):
    """Values by name, each for some seconds and only while its mark is the same."""

    def __init__(self, fresh_s: float, kept: int = KEPT):
        self._fresh_s = fresh_s
        self._most = kept
        self._kept: dict[str, tuple[object, float, T]] = {}

    def get(self, name: str, mark: object = None) -> T | None:
        """The value, if it is still good."""
        if name not in self._kept:
            return None
        seen, at, value = self._kept[name]
        return value if seen == mark and time.monotonic() - at < self._fresh_s else None

    def forget(self) -> None:
        """None of them is good any more."""
        self._kept.clear()

    def keep(self, name: str, value: T, mark: object = None) -> T:
        """Remember one."""
        if len(self._kept) >= self._most:
            self._kept.clear()
        self._kept[name] = (mark, time.monotonic(), value)
        return value


# --- The hub as its handlers see it: the home that is open just now, the feed, and what happened at start.

SLASH = "\x1f"  # in the place of one that is part of a name, not of the path
VERDICT_S = 3.0  # while the log has not grown
ADOPTABLE_S = 60.0  # a look reads the names in all stores of agents
LIST_S = 60.0  # while nothing was committed
AGENTS_S = 30.0  # each look starts every agent once, to ask its version


class SettledTask(msgspec.Struct, frozen=True):
    """A task that has ended while no hub or worker watched, or a session whose last task is missing."""

    task: str | None
    session: str
    status: str
    reason: str | None


class HealReport(msgspec.Struct, frozen=True):
    """What was put right when the home was opened."""

    at: str
    done: list[Done]
    problems: list[str]
    settled: list[SettledTask]
    unhealed: list[Unhealed] = []  # what was seen and could not be put right, and where its bytes are


class HubFailure(msgspec.Struct, frozen=True):
    """Why the home had to be opened again, last; its log tells more, to those who may read that."""

    at: str
    code: str  # of the error, as in a problem
    what: str  # its name
    times: int  # since the start


class HubState:
    """One running hub."""

    def __init__(
        self, home: Home, location: Location, env: Mapping[str, str], by: str, feed: Feed | None = None
    ):
        self.home = home
        self.location = location
        self.env = env
        self.by = by  # in whose name things are recorded
        self.started_at = timestamps.now()
        self.feed = feed or Feed()
        self.fresh_starts = FreshStarts()
        self.feed.hear(self.fresh_starts.on_event)
        self.logins = Logins(home)
        self.stopping = asyncio.Event()
        self.healed: HealReport | None = None  # None before the home was opened
        self.failure: HubFailure | None = None  # None: none since the start
        self.verdicts: TtlCache[Verdict] = TtlCache(VERDICT_S)
        self.agents: TtlCache[list[dict[str, Any]]] = TtlCache(AGENTS_S)
        self.adoptable: TtlCache[list[tuple[str, int]]] = TtlCache(ADOPTABLE_S)
        self.lists: TtlCache[bytes] = TtlCache(LIST_S, 32)
        self.deliveries = NamedLocks()
        self.requests: Counter[int] = Counter()  # answered, by status
        self._open = asyncio.Event()
        self._context: Context | None = None
        self._report: Report | None = None

    @property
    def context(self) -> Context:
        """The open home; StoreBusy while it is being opened again."""
        if self._context is None:
            raise errors.StoreBusy("the store is being opened again", hint="try again in a moment")
        return self._context

    @property
    def store(self) -> Store:
        """Its store."""
        return self.context.store

    async def resolve(self, name: str) -> str:
        """The session meant by what stands in an address: an id, a unique beginning of one, or a key."""
        return await self.store.resolve(name.replace(SLASH, "/"))

    def shortage(self) -> Shortage | None:
        """What this machine lacks just now."""
        if self._context is not None:
            return self._context.shortages.current(self.home.path)
        if self.failure is not None and self.failure.code == errors.DiskFull.code:
            return Shortage("disk", "no room is left on the disk", self.failure.at)
        return disk_shortage(self.home.path)

    @property
    def is_open(self) -> bool:
        """Whether there is a home to work with just now."""
        return self._context is not None

    async def opened(self) -> None:
        """Until the home is open."""
        await self._open.wait()

    def failed(self, problem: Exception) -> None:
        """Something went wrong that closed the home."""
        code = problem.code if isinstance(problem, errors.HoldfastError) else errors.HoldfastError.code
        times = 1 if self.failure is None else self.failure.times + 1
        self.failure = HubFailure(timestamps.now(), code, type(problem).__name__, times)

    def note(self, report: Report) -> None:
        """What was healed while the home was being opened."""
        self._report = report

    def begin(self, context: Context, settled: list[dict[str, Any]]) -> None:
        """The home is open."""
        report, self._report = self._report, None
        self.healed = HealReport(
            at=timestamps.now() if report is None else report.at,
            done=[] if report is None else report.done,
            problems=[] if report is None else report.problems,
            settled=msgspec.convert(settled, list[SettledTask]),
            unhealed=[] if report is None else report.unhealed,
        )
        self.lists.forget()  # their marks are another store's
        self.verdicts.forget()
        self._context = context
        self._open.set()

    def end(self, why: str) -> None:
        """The home is closed and will be opened again: readers of streams start over then."""
        self._context = None
        self._open.clear()
        self.feed.begin_anew(why)

    def stop(self) -> None:
        """End it all; the agents go on."""
        self.stopping.set()
        self._open.set()  # nobody waits for that any more
        self.feed.close("the hub stops")
