"""What the table of the design expects of one thread, told from what was done to it and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Expected(NamedTuple):
    """A verdict, and what its reasons must be: of each of these, one of its codes."""

    action: str
    reasons: tuple[tuple[str, ...], ...]


# How each script must end, and whether the agent's last word is an answer.
ENDS = {
    "succeeds": "succeeded",
    "fails": "failed",
    "refuses": "failed",
    "dies": "interrupted",
    "leaves": "interrupted",
    "killed": "interrupted",
    "orphans": "interrupted",
    "cancelled": "cancelled",
}
FORGOTTEN = ("prompt_not_in_history", "effect_not_in_history", "result_not_in_history")
# By which of these codes an edit shows; that a file was cut shows by our copy, unless the worker that was to
# take it was killed.
SPOILT = {
    "delete": ("no_transcript",),
    "cut": ("shrunk", "torn_tail", "bad_line", *FORGOTTEN),
    "tear": ("torn_tail", "bad_line"),
    "forget": FORGOTTEN,
    "began": ("turn_unfinished", "no_reply"),
}


@dataclass
class Thread:
    """One key: its session, how its last task ended, what became of the agent's file."""

    session: str | None = None
    token: str | None = None
    plan: str | None = None
    task_status: str | None = None
    trusted: bool = False
    held: bool = False  # somebody else has the file open
    orphan: bool = False  # a tool of a dead agent still runs
    spoilt: set[str] = field(default_factory=set)

    def begin(self, session: str, plan: str) -> None:
        """A prompt was dispatched."""
        if session != self.session:
            self.token, self.spoilt = None, set()
        self.session, self.plan, self.trusted = session, plan, False

    def ended(self, status: str) -> None:
        """Its task has ended."""
        assert self.plan is not None
        assert status == ENDS[self.plan], (self, status)
        self.task_status = status
        self.orphan = self.plan == "orphans"

    def trust(self) -> bool:
        """Whether somebody may trust it by hand."""
        self.trusted |= self.task_status in ("cancelled", "failed")
        return self.trusted

    def spoil(self, what: str) -> None:
        """The agent's file was edited."""
        if what != "went on":
            self.spoilt.add(what)

    def expected(self) -> Expected:
        """By the rows of the design, from the first to the last."""
        if self.session is None:
            return Expected("fresh", ())
        waits = [code for so, code in ((self.held, "live_owner"), (self.orphan, "tools_running")) if so]
        if waits:
            return Expected("wait", tuple((code,) for code in waits))
        found: list[tuple[str, ...]] = []
        if self.task_status == "interrupted":
            found.append(("last_interrupted",))
        if self.task_status == "cancelled" and not self.trusted:
            found.append(("last_cancelled",))
        if self.task_status == "failed" and self.plan == "fails" and not self.trusted:
            found.append(("last_failed",))
        found += [SPOILT[what] for what in sorted(self.spoilt)]
        return Expected("fresh", tuple(found)) if found else Expected("resume", (("sound",),))
