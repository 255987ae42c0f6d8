"""Timing two things in turns, so that a noisy machine is noisy to both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Timed = Callable[[], Awaitable[float]]  # runs once, gives seconds per unit


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
            _time(self.ours_s),
            self.baseline,
            _time(self.baseline_s),
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
    pairs = []
    gc.collect()
    for i in range(rounds):
        if i % 2:
            mine, base = await ours(), await theirs()
        else:
            base, mine = await theirs(), await ours()
        pairs.append((mine, base))
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
    )


async def per_unit(count: int, work: Callable[[], Awaitable[None]]) -> float:
    """Seconds that one of `count` units of `work` took."""
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) / count


def _time(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
