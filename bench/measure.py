"""Timing two things in turns, so that a noisy machine is noisy to both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Timed = Callable[[], Awaitable[float]]  # runs once, gives seconds per unit

UNITS = {
    "s": ((1, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")),
    "bytes": ((1e-6, "MB"), (1e-3, "kB"), (1, "bytes")),
}


@dataclass(frozen=True)
class Measured:
    """Ours beside a baseline: the median of the ratios of all rounds."""

    what: str
    ours_s: float
    baseline: str
    baseline_s: float
    ratio: float  # ours : baseline, as the budget counts it
    low: float
    high: float
    budget: str  # "≥ 0.7", "≤ 1.5" or empty
    unit: str = "s"

    @property
    def kept(self) -> bool | None:
        """Whether the budget is kept; None where there is none."""
        if not self.budget:
            return None
        sign, number = self.budget.split()
        return self.ratio >= float(number) if sign == "≥" else self.ratio <= float(number)

    def row(self) -> tuple[str, ...]:
        """A line of the table."""
        mark = {True: "kept", False: "MISSED", None: ""}[self.kept]
        spread = f"{self.low:.2f}–{self.high:.2f}"
        return (
            self.what,
            _shown(self.ours_s, self.unit),
            self.baseline,
            _shown(self.baseline_s, self.unit),
            f"{self.ratio:.2f}",
            spread,
            self.budget,
            mark,
        )

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {**self.__dict__, "kept": self.kept}


async def compare(
    what: str,
    ours: Timed,
    baseline: str,
    theirs: Timed,
    *,
    rounds: int = 7,
    budget: str = "",
    speed: bool = True,
) -> Measured:
    """Run both in turns; `speed`: the ratio is how many times as fast we are, else as long."""
    return measured(what, baseline, await in_turns(ours, theirs, rounds), budget=budget, speed=speed)


async def in_turns(
    ours: Callable[[], Awaitable[T]], theirs: Callable[[], Awaitable[T]], rounds: int
) -> list[tuple[T, T]]:
    """What both gave, round by round; who begins changes."""
    pairs = []
    gc.collect()
    for i in range(rounds):
        if i % 2:
            mine, base = await ours(), await theirs()
        else:
            base, mine = await theirs(), await ours()
        pairs.append((mine, base))
    return pairs


def measured(
    what: str,
    baseline: str,
    pairs: Sequence[tuple[float, float]],
    *,
    budget: str = "",
    speed: bool = False,
    unit: str = "s",
) -> Measured:
    """One line of the table from the rounds' pairs of ours and the baseline's."""
    ratios = [base / mine if speed else mine / base for mine, base in pairs]
    return Measured(
        what,
        statistics.median(mine for mine, _ in pairs),
        baseline,
        statistics.median(base for _, base in pairs),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        budget,
        unit,
    )


async def per_unit(count: int, work: Callable[[], Awaitable[None]]) -> float:
    """Seconds that one of `count` units of `work` took."""
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) / count


def _shown(value: float, unit: str) -> str:
    for factor, name in UNITS[unit]:
        if abs(value) * factor >= 1:
            return f"{value * factor:.3g} {name}"
    factor, name = UNITS[unit][-1]
    return f"{value * factor:.3g} {name}"
