"""The end of a task whose agent is gone: what it left, its status and its outcome, in one commit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from holdfast import fsio
from holdfast.drive.driver import Job
from holdfast.model.change import Deliver, SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Status, Task
from holdfast.process.tree import Process
from holdfast.spool import keeping, retiring
from holdfast.spool.folder import Spool
from holdfast.work.ending import Ending, Facts, ending
from holdfast.work.family import shown
from holdfast.work.journal import Journal
from holdfast.work.unseen import Told
from holdfast.work.words import header

REASON = 1000  # characters of an agent's words in a task's reason; all of them are in its error
STDERR_SHOWN = 4000  # characters of stderr in the outcome of a task that failed


class Settling:
    """Ends one task."""

    def __init__(self, task: Task, job: Job, spool: Spool, journal: Journal):
        self._task = task
        self._job = job
        self._spool = spool
        self._journal = journal

    async def settle(
        self,
        cancelled_by: str | None,
        survivors: Sequence[Process],
        left: list[str],
        told: Told,
        branch: str | None,
    ) -> None:
        """Decide, commit, and put the spool away; `left`: the paths that it leaves uncommitted."""
        driver = self._journal.driver
        seen = driver.accepted or self._task.delivery == "accepted"
        facts = Facts(
            final=driver.final,
            exit=self._spool.exit_status(),
            accepted=seen or told.took_prompt,
            tries=1 + retiring.retired(self._spool),
            cancelled_by=cancelled_by,
        )
        decided = ending(facts)
        if decided.status == "queued":  # whoever launches it next puts this folder out of the way
            text = f"{decided.reason}; it is queued again"
            await self._journal.commit([_notice("given_back", text), _become(decided)], last=True)
            return
        entries = [*told.entries]
        if told.took_prompt and not seen:
            entries.append(Deliver(delivery="accepted"))
        if survivors:
            entries.append(_still_running(survivors))
        outcome = self._outcome(facts, decided, survivors)
        if left:
            outcome["left"] = left
        if branch is not None:
            outcome["branch"] = branch
        if self._journal.kept:
            with fsio.reported(self._spool.keep):
                os.close(os.open(self._spool.keep, os.O_WRONLY | os.O_CREAT, 0o600))
        await self._journal.commit([*entries, _become(decided, outcome)])
        await asyncio.to_thread(keeping.compress, self._spool)

    def _outcome(self, facts: Facts, decided: Ending, survivors: Sequence[Process]) -> dict[str, Any]:
        driver = self._journal.driver
        outcome: dict[str, Any] = {"exit": facts.exit, "native_id": driver.native_id or self._job.native_id}
        if self._job.resume:
            outcome["resumed"] = driver.native_id == self._job.native_id
        if facts.final is not None:
            outcome["usage"] = facts.final.usage
            outcome["answer"] = facts.final.answer
        if self._journal.links:
            outcome["links"] = self._journal.links
        if survivors:
            outcome["survivors"] = shown(survivors)
        if decided.status != "succeeded":
            outcome["stderr"] = self._spool.stderr_tail(STDERR_SHOWN)
        return outcome


def refusal(
    task: Task, status: Status, reason: str, events: Sequence[NewEvent], outcome: dict[str, Any]
) -> Commit:
    """The commit that ends a task which never came to a process."""
    entries: list[Entry] = [*events, SetStatus(status=status, reason=reason, outcome=outcome)]
    return Commit(task.session, entries, task=task.id, generation=task.generation)


def _become(decided: Ending, outcome: dict[str, Any] | None = None) -> SetStatus:
    reason = None if decided.reason is None else header(decided.reason, REASON)
    return SetStatus(status=decided.status, reason=reason, outcome=outcome)


def _notice(code: str, text: str, **facts: Any) -> NewEvent:
    return NewEvent("notice", {"text": text, "code": code, **facts})


def _still_running(survivors: Sequence[Process]) -> NewEvent:
    named = ", ".join(f"{os.path.basename(p.command.split(' ')[0])} ({p.pid})" for p in survivors)
    return _notice("survivors", f"still running: {named}", processes=shown(survivors))
