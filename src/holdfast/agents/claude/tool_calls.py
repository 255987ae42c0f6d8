"""Which of Claude Code's tools are running, ended, or running in the background?"""

from __future__ import annotations

from typing import Any

from holdfast.transcripts import jsonl

# Tasks that the agent waits for and that wake it up. A background command also wakes it up, but may be a
# server that never ends.
HOLDING = frozenset({"local_agent", "local_workflow"})
STOPPED = frozenset({"killed", "stopped", "cancelled"})
ENDED = STOPPED | {"completed", "failed"}


class ClaudeToolCalls:
    """Every call of one process."""

    def __init__(self) -> None:
        """Start without calls."""
        self.open: dict[str, str] = {}  # call -> name
        self.parents: dict[str, str] = {}  # a subagent's call -> the call that started the subagent
        self.stopped = False  # a subagent was stopped between two turns
        self._names: dict[str, str] = {}
        self._background: set[str] = set()  # calls that returned while what they started continues
        self._commands: dict[str, tuple[str, str]] = {}  # task -> description and the call that started it
        self._helpers: dict[str, str] = {}  # running subagents: task -> the call that started it

    def running(self) -> list[str]:
        """The running background commands, as the agent describes them."""
        return [what for what, call in self._commands.values() if call in self._background]

    @property
    def has_subagents(self) -> bool:
        """Whether subagents are still running; the agent wakes up when one ends."""
        return bool(self._helpers)

    def start(self, call: str, name: str, parent: Any) -> bool:
        """A call begins; False if it is already known."""
        if call in self._names:
            return False
        self._names[call] = self.open[call] = name
        if isinstance(parent, str):
            self.parents[call] = parent
        return True

    def end(self, call: str, goes_on: bool) -> str | None:
        """A call has its result: return its name, or None if it ended before."""
        if call in self._names and call not in self.open:
            return None
        self.open.pop(call, None)
        if goes_on:
            self._background.add(call)
        else:
            self._helpers = {task: by for task, by in self._helpers.items() if by != call}
        return self._names.setdefault(call, "")

    def on_task(self, record: dict[str, Any], between_turns: bool) -> str | None:
        """Process a `task_…` record; return the notice if a background task ended."""
        task, call = jsonl.text_field(record, "task_id"), jsonl.text_field(record, "tool_use_id")
        if record.get("subtype") == "task_started":
            if jsonl.text_field(record, "task_type") in HOLDING:
                self._helpers[task] = call
            else:
                self._commands[task] = (str(record.get("description") or task), call)
            return None
        patch = record.get("patch")
        status = jsonl.text_field(record, "status") or jsonl.text_field(
            patch if isinstance(patch, dict) else {}, "status"
        )
        if status in ENDED:
            self._commands.pop(task, None)
        if status in ENDED and task in self._helpers:
            del self._helpers[task]
            self.stopped = self.stopped or (between_turns and status in STOPPED)
        if record.get("subtype") == "task_notification" and call in self._background:
            return f"background task {status}: {record.get('summary') or ''}"
        return None
