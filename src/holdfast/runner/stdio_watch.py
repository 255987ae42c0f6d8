"""What goes wrong with an agent's stdin and stdout files while it runs, as events for the log."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.event import NewEvent, Origin
from holdfast.runner.processes import TaskProcesses
from holdfast.spool.task_dir import Spool

RELAY_RESTARTED = "relay_restarted"
INPUT_LOST = "input_lost"
SHRUNK = "spool_shrunk"


def relay_restarted(task: str, number: int, exit_status: int) -> NewEvent:
    """The relay died for the `number`-th time."""
    how = f"was ended by signal {exit_status - 128}" if exit_status > 128 else f"ended with {exit_status}"
    text = (
        f"the relay that passes input to the agent {how}; "
        "it was started again, and no input was lost or repeated"
    )
    return _event("notice", RELAY_RESTARTED, text, task, str(number), exit=exit_status)


def input_lost(task: str) -> NewEvent:
    """Nobody is left who could start a relay again."""
    text = "the relay and its keeper are gone: the agent's input has ended, and no answer can reach the agent"
    return _event("error", INPUT_LOST, text, task, "")


def shrunk(task: str, lost: int, why: str) -> NewEvent:
    """The agent's output file was cut short."""
    text = (
        f"the agent's output was overwritten (a process that writes to /dev/stdout does this): {why}; "
        "what was read before is in the log, and reading continues with what is there"
    )
    return _event("error", SHRUNK, text, task, str(lost), offset=lost)


def _event(kind: str, code: str, text: str, task: str, number: str, **facts: int) -> NewEvent:
    """An event that is stored once, also when another process notices it again after a restart."""
    origin = Origin("holdfast", task, f"{code}:{number}")
    return NewEvent(kind, {"text": text, "code": code, **facts}, origin=origin)


class RelayWatch:
    """Notices when the relay of one agent dies."""

    def __init__(self, spool: Spool, family: TaskProcesses, task: str):
        self._spool = spool
        self._family = family
        self._task = task
        self._deaths = 0
        self._lost = False

    def news(self) -> Sequence[NewEvent]:
        """What happened since the last look."""
        deaths = self._spool.relay_deaths()
        lost = not self._lost and self._is_lost()
        last = len(deaths) if lost else len(deaths) + 1
        events = [
            relay_restarted(self._task, number, status)
            for number, status in enumerate(deaths, 1)
            if self._deaths < number < last
        ]
        self._deaths = len(deaths)
        if lost:
            self._lost = True
            events.append(input_lost(self._task))
        return events

    def _is_lost(self) -> bool:
        """Whether the input ended before the agent did, though nobody closed it."""
        if not self._spool.input_is_open():
            return False
        if self._spool.keeper_was_killed():
            return True
        return (
            self._spool.relay_is_gone()
            and self._family.agent() is not None
            and self._spool.input_is_open()  # asked last: somebody may have closed it meanwhile
        )
