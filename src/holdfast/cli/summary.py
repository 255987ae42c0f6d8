"""The line with which `run` ends: how it ended, time, cost, branch, and what it left."""

from __future__ import annotations

from typing import Any

from holdfast import timestamps
from holdfast.cli import output


def summary(task: dict[str, Any], session: dict[str, Any]) -> str:
    """One line about a task that has ended."""
    outcome = task["outcome"] or {}
    parts = [f"{task['status']}{_took(task)}", *_price(outcome.get("usage") or {})]
    worktree = session["worktree"] or {}
    if branch := outcome.get("branch") or worktree.get("branch"):
        parts.append(f"branch {branch}")
    if left := outcome.get("left"):
        parts.append(f"{output.counted(len(left), 'uncommitted file')}")
    parts.append(_leftovers(task["id"], outcome.get("survivors") or []))
    return output.plain(" · ".join(parts))


def time_text(seconds: float) -> str:
    """`12s`, `3m 5s`, `2h 10m`; never negative."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {whole % 60}s" if minutes else f"{whole}s"


def _took(task: dict[str, Any]) -> str:
    if not task["started_at"] or not task["ended_at"]:
        return ""
    seconds = timestamps.parse(task["ended_at"]) - timestamps.parse(task["started_at"])
    return f" in {time_text(seconds)}"


def _price(usage: dict[str, Any]) -> list[str]:
    """Tokens and cost, as far as the agent reports them."""
    counts = [usage.get("input_tokens"), usage.get("output_tokens")]
    tokens = sum(count for count in counts if isinstance(count, int))
    shown = [f"{tokens / 1000:.0f}k tokens" if tokens >= 1000 else f"{tokens} tokens"] if tokens else []
    cost = usage.get("cost_usd")
    if isinstance(cost, (int, float)):
        shown.append(f"${cost:.2f}")
    return shown


def _leftovers(task: str, survivors: list[dict[str, Any]]) -> str:
    if not survivors:
        return "nothing left running"
    named = ", ".join(f"{one['command'][:40]} ({one['pid']})" for one in survivors[:3])
    more = f" and {len(survivors) - 3} more" if len(survivors) > 3 else ""
    return f"left running: {named}{more}; `holdfast cancel {task}` ends them"
