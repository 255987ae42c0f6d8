"""Sessions whose last task is missing: a run has brought their token, and no log tells of that run."""

from __future__ import annotations

from typing import Any

from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.contract import Store

CODE = "last_unrecorded"  # as the verdict calls it
TEXT = "the task that brought this session's token is not recorded; its next dispatch begins anew"


async def settle(store: Store, host: str) -> list[dict[str, Any]]:
    """Say it in the log of each, once; what was said, as a start reports it."""
    told = []
    for session in await store.unrecorded(host, CODE):
        await store.commit(Commit(session, [NewEvent("notice", {"text": TEXT, "code": CODE})]))
        told.append({"task": None, "session": session, "status": "missing", "reason": TEXT})
    return told
