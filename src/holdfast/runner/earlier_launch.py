"""A launch of the same task by an earlier process: what its folder proves when the log does not know it."""

from __future__ import annotations

from holdfast.agents.driver import AgentJob
from holdfast.model.changes import Deliver, SeeToken
from holdfast.model.commit import Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.resume.log_evidence import NOT_LAUNCHED
from holdfast.runner.finish import GIVEN_BACK
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store


async def was_given_back(store: Store, task: Task, spool: Spool) -> bool:
    """Whether the log knows the launch of this folder as one whose agent never took the prompt.

    A launch that the log does not know is evidence too: the database was restored from a time before it.
    """
    if spool.shim() is None:
        return True  # it was prevented: nothing ever ran here
    generation = spool.launch().get("generation")
    notices = await store.task_events(task.id, ("notice",))
    codes = (GIVEN_BACK, NOT_LAUNCHED)
    known = [event.body.get("generation") for event in notices if event.body.get("code") in codes]
    older = None in known and isinstance(generation, int) and generation < task.generation
    return generation in known or older


def unknown_launch(job: AgentJob, protocol: str) -> list[Entry]:
    """The entries of a launch that only the folder knows; the prompt is not run again."""
    text = (
        "the log did not know that this prompt was started, but its folder holds the agent's output; "
        "that was read, and the prompt was not run again"
    )
    entries: list[Entry] = [NewEvent("notice", {"text": text, "code": "drained"})]
    if job.native_id is not None and not job.resume:
        entries.append(
            SeeToken(agent=job.agent, native_id=job.native_id, seen_in="chosen", protocol=protocol)
        )
    return [*entries, Deliver(delivery="sent")]
