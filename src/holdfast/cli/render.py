"""Render events as text for people."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from holdfast.cli import output

if TYPE_CHECKING:
    from holdfast.store.sql import Row

LONG = 2000  # characters of an event shown to a person
OUTPUT_LINES = 12  # of a tool's output
REPLAYED = "replayed | "  # before each line of what the agent did without us

_COLORS = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class EventRenderer:
    """Turns log rows into readable text, colored on a terminal."""

    def __init__(self, colored: bool | None = None):
        if colored is None:
            colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._colored = colored

    def log_line(self, row: Row) -> str:
        """One line with sequence number and time, for `log`."""
        seq, kind, at, _task, replayed, _origin, _spool, _last, body = row
        mark = " (replayed)" if replayed else ""
        shown = output.plain(_gist(kind, json.loads(body)))[:LONG]
        return f"{seq:>5} {at[:10]} {at[11:19]} {kind}{mark}: {shown}"

    def followed(self, row: Row) -> str | None:
        """The event as text in a followed run; None if a follower does not need it."""
        shown = self._event(row[1], json.loads(row[8]), row[3])
        if shown is None or not row[4]:
            return shown
        return self._paint("dim", "\n".join(f"{REPLAYED}{line}" for line in shown.split("\n")))

    def _event(self, kind: str, body: dict[str, Any], task: str | None) -> str | None:
        paint = self._paint
        match kind:
            case "user":
                return paint("bold", "> " + _many(body["text"]))
            case "assistant":
                return _many(body["text"])
            case "thinking":
                return paint("dim", _many(body["text"]))
            case "tool_progress":
                return paint("cyan", f"⚙ {output.plain(body['name'])} ") + _input(body["input"])
            case "tool_summary":
                return self._summary(body)
            case "permission":
                return self._permission(body, task)
            case "error":
                return paint("red", "✗ " + _many(body["text"]))
            case "notice":
                return paint("yellow", "! " + _many(body["text"]))
        return None

    def _summary(self, body: dict[str, Any]) -> str:
        mark, color = {"ok": ("✓", "green"), "error": ("✗", "red")}.get(body["outcome"], ("⚡", "yellow"))
        took = f" {body['duration_ms'] / 1000:.1f} s" if "duration_ms" in body else ""
        head = self._paint(color, f"{mark} {output.plain(body['name'])} {body['outcome']}{took}")
        lines = _many(body["output"]).splitlines()
        more = [f"  … {len(lines) - OUTPUT_LINES} more lines"] if len(lines) > OUTPUT_LINES else []
        return "\n".join([head, *[self._paint("dim", f"  {t}") for t in (*lines[:OUTPUT_LINES], *more)]])

    def _permission(self, body: dict[str, Any], task: str | None) -> str:
        what = call_text(body)
        if body.get("answer") is None:
            how = f"holdfast answer {task} allow|deny"
            return self._paint("yellow", f"? may it run {what}") + f"\n  {how}"
        return self._paint("dim", f"  {body['answer']} by {body.get('by')}: {what}")

    def _paint(self, color: str, text: str) -> str:
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self._colored and text else text


def call_text(body: dict[str, Any]) -> str:
    """The requested tool and its input, on one line."""
    return f"{output.plain(body.get('name'))} {_input(body.get('input'))}"


def waiting_text(task: dict[str, Any]) -> str:
    """What a waiting task waits for, and until when."""
    shown = str(task["waiting_for"]["text"])
    if task["not_before"]:
        shown += f"; not before {task['not_before'][:19]}Z"
    return shown


def _many(value: object) -> str:
    """Text of several lines, bounded, with nothing in it that moves the cursor."""
    shown = str(value)
    if len(shown) > 4 * LONG:
        shown = shown[: 4 * LONG] + "…"
    return "\n".join(output.plain(line) for line in shown.splitlines())


def _input(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("command"), str):
        return output.plain(value["command"])[:LONG]
    return output.plain(json.dumps(value, ensure_ascii=False))[:LONG]


def _gist(kind: str, body: dict[str, Any]) -> str:
    if "text" in body:
        return str(body["text"])
    if kind == "tool_progress":
        return f"{body['name']} {json.dumps(body['input'], ensure_ascii=False)}"
    if kind == "tool_summary":
        return f"{body['name']} {body['outcome']}: {body['output']}"
    if kind == "permission":
        answer = body.get("answer")
        return (
            f"may it run {call_text(body)}"
            if answer is None
            else f"{answer} by {body.get('by')}: {call_text(body)}"
        )
    if kind in ("session", "task", "token"):
        return _changed(body)
    return _fields(body)


def _changed(body: dict[str, Any]) -> str:
    """A change of a session, its tokens or its tasks."""
    match body["op"]:
        case "queue":
            return f"queued: {body['prompt']}"
        case "claim":
            return f"claimed by process {body['owner']['pid']} on {body['owner']['host']}"
        case "deliver":
            return f"prompt {body['delivery']}"
        case "status":
            return f"{body['status']}: {body['reason']}" if body.get("reason") else str(body["status"])
    details = _fields({name: value for name, value in body.items() if name != "op"})
    return f"{body['op']}: {details}" if details else str(body["op"])


def _fields(body: dict[str, Any]) -> str:
    shown = {n: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for n, v in body.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
