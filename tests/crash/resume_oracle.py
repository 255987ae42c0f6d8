"""What the table of the design expects of one thread, told from what was done to it and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.task import Status


class Expected(NamedTuple):
    """A verdict, and what its reasons must be: of each of these, one of its codes."""

    action: str
    reasons: tuple[tuple[str, ...], ...]


# How each script must end, and whether the agent's last word is an answer.
ENDS: dict[str, Status] = {
    "forgets": "succeeded",  # as it says; its file has not all of it
    "succeeds": "succeeded",
    "fails": "failed",
    "refuses": "failed",
    "dies": "interrupted",
    "leaves": "interrupted",
    "killed": "interrupted",
    "orphans": "interrupted",
    "cancelled": "cancelled",
}
RECORDS = ("prompt", "call", "result", "message", "end")  # what an agent writes down of a turn
REMEMBERED = 3  # the first so many of them must be in its file if its stream has shown them
HALF = ("no_reply", "dangling_call", "turn_unfinished")
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
    shown: int = len(RECORDS)  # of the last turn, by the stream
    stored: int = len(RECORDS)  # of the last turn, in the agent's file
    failures: int = 0  # of resumes, all in the same way
    unloaded: bool = False  # the last task of all failed before it reached the agent
    revoked: bool = False
    moved: bool = False  # the caller is in the other folder
    began_moved: bool = False  # the session is
    spoilt: set[str] = field(default_factory=set)

    def begin(self, session: str, plan: str) -> None:
        """A prompt was dispatched."""
        if session != self.session:
            self.token, self.spoilt, self.revoked = None, set(), False
            self.began_moved = self.moved
        self.session, self.plan, self.trusted = session, plan, False
        self.shown = self.stored = len(RECORDS)
        self.failures = 0
        self.unloaded = False

    def status(self) -> Status:
        """How the task must end that it has."""
        assert self.plan is not None
        return ENDS[self.plan]

    def ended(self, status: str) -> None:
        """Its task has ended."""
        assert self.plan is not None
        assert status == self.status(), (self, status)
        self.task_status = status
        self.orphan = self.plan == "orphans"

    def trust(self) -> bool:
        """Whether somebody may trust it by hand."""
        self.trusted |= self.task_status in ("cancelled", "failed")
        self.failures = 0 if self.trusted else self.failures
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
        if self.stored < min(self.shown, REMEMBERED):
            found.append(FORGOTTEN)
        if 0 < self.stored < len(RECORDS):
            found.append(HALF)
        if self.revoked:
            return Expected("fresh", (("token_revoked",),))
        if self.moved != self.began_moved:
            found.append(("other_folder",))
        if self.failures > 1:
            found.append(("resume_failed",))
        found += [SPOILT[what] for what in sorted(self.spoilt)]
        return Expected("fresh", tuple(found)) if found else Expected("resume", (self._safe(),))

    def _safe(self) -> tuple[str, ...]:
        """Why it is safe to resume: a success is called sound, and nothing else is."""
        if self.task_status == "succeeded":
            return ("last_not_started",) if self.unloaded else ("sound",)
        return ("trusted",) if self.trusted else ("failed_with_answer",)
