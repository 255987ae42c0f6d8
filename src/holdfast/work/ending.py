"""How a task ends: a pure decision from what is known of its process and its stream."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.drive.driver import Final
from holdfast.model.task import Status

MAX_TRIES = 3  # launches of one prompt whose agents were gone before they took it


class Facts(NamedTuple):
    """What is known when an agent's process is gone and its stdout is read to the end."""

    final: Final | None
    exit: int | None  # as the shim recorded it; None: nobody saw its end
    accepted: bool  # the agent had taken the prompt
    tries: int = 1  # launches so far, this one included
    cancelled_by: str | None = None


class Ending(NamedTuple):
    """What the task becomes; `queued` gives an undelivered prompt back."""

    status: Status
    reason: str | None = None


def ending(facts: Facts) -> Ending:
    """What became of a task whose agent is gone."""
    final = facts.final
    if final is not None and final.ok:
        return Ending("succeeded")
    if facts.cancelled_by is not None:
        return Ending("cancelled", f"by {facts.cancelled_by}")
    if final is not None:
        if final.cancelled:
            return Ending("cancelled", final.reason or "the agent says that it was stopped")
        return Ending("failed", final.reason or "the agent gave no reason")
    if facts.accepted:
        return Ending("interrupted", f"the agent {_gone(facts.exit)} without a final answer")
    if _by_itself(facts.exit):
        return Ending("failed", f"the agent {_gone(facts.exit)} before it took the prompt")
    if facts.tries >= MAX_TRIES:
        return Ending("failed", f"{facts.tries} times the agent was gone before it took the prompt")
    return Ending("queued", f"the agent {_gone(facts.exit)} before it took the prompt")


def _by_itself(exit_status: int | None) -> bool:
    """Whether a program ended of its own: 128+N is how a shell tells of a signal."""
    return exit_status is not None and exit_status < 128


def _gone(exit_status: int | None) -> str:
    if exit_status is None:
        return "is gone"
    if exit_status >= 128:
        return f"was ended by signal {exit_status - 128}"
    return f"exited with status {exit_status}"
