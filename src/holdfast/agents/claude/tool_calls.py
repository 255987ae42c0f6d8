"""The tools that Claude Code runs: which began, which ended, which go on in the background."""

from __future__ import annotations

from typing import Any

from holdfast.transcripts import jsonl as lines

# Tasks of the CLI that the agent waits for and is woken by. A background command wakes it too, but
# may be a server that never ends.
HOLDING = frozenset({"local_agent", "local_workflow"})
STOPPED = frozenset({"killed", "stopped", "cancelled"})
ENDED = STOPPED | {"completed", "failed"}


class ClaudeToolCalls:
    """Every call of one process."""

    def __init__(self) -> None:
        """None yet."""
        self.open: dict[str, str] = {}  # call: name
        self.parents: dict[str, str] = {}  # of calls that a subagent made: the call that started it
        self.stopped = False  # a subagent was stopped between two turns
        self._names: dict[str, str] = {}
        self._background: set[str] = set()  # returned, while what they started goes on
        self._commands: dict[str, tuple[str, str]] = {}  # by task: what it is, the call that started it
        self._helpers: dict[str, str] = {}  # subagents that run, by task: the call that started it

    def running(self) -> list[str]:
        """The background commands that run, in the agent's words for them."""
        return [what for what, call in self._commands.values() if call in self._background]

    @property
    def helped(self) -> bool:
        """Whether subagents still run; the agent is woken when one ends."""
        return bool(self._helpers)

    def began(self, call: str, name: str, parent: Any) -> bool:
        """A call begins; False if it was told before."""
        if call in self._names:
            return False
        self._names[call] = self.open[call] = name
        if isinstance(parent, str):
            self.parents[call] = parent
        return True

    def ended(self, call: str, goes_on: bool) -> str | None:
        """A call has its result: its name; None if that was told before."""
        if call in self._names and call not in self.open:
            return None
        self.open.pop(call, None)
        if goes_on:
            self._background.add(call)
        else:
            self._helpers = {task: by for task, by in self._helpers.items() if by != call}
        return self._names.setdefault(call, "")

    def task(self, record: dict[str, Any], between_turns: bool) -> str | None:
        """Take a `task_…` record; what to tell of it, if a background task ended."""
        task, call = lines.word(record, "task_id"), lines.word(record, "tool_use_id")
        if record.get("subtype") == "task_started":
            if lines.word(record, "task_type") in HOLDING:
                self._helpers[task] = call
            else:
                self._commands[task] = (str(record.get("description") or task), call)
            return None
        patch = record.get("patch")
        status = lines.word(record, "status") or lines.word(
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
