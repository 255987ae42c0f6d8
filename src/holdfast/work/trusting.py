"""Trust that is given by hand to a session whose last task did not end well."""

from __future__ import annotations

from holdfast.errors import IllegalChange
from holdfast.model.commit import Commit
from holdfast.model.task import Task
from holdfast.resume.record import touched
from holdfast.store.contract import Store
from holdfast.work import judging


async def trust(store: Store, session: str, by: str, reason: str) -> Task:
    """Record it; the task that no longer counts. What was interrupted cannot be trusted so."""
    came = [task for task in await store.tasks(session=session) if touched(task)]
    last = came[-1] if came else None
    if last is None or last.status not in ("cancelled", "failed"):
        state = "no task of it came to an agent" if last is None else f"its last task is {last.status}"
        raise IllegalChange(
            f"session {session} cannot be trusted by hand: {state}, not cancelled or failed",
            hint="`holdfast resume ID --anyway` goes on with it against its verdict",
        )
    await store.commit(Commit(session, [judging.trust(by, reason, last.id)]))
    return last
