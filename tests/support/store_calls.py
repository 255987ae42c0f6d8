"""Calls that only tests and benchmarks make on a store."""

from __future__ import annotations

from holdfast import errors
from holdfast.model.task import Owner, Task
from holdfast.store.store import Store


async def claim_next(
    store: Store,
    owner: Owner,
    lease_s: float,
    *,
    agents: frozenset[str] | None = None,
    any_host: bool = False,
) -> Task | None:
    """Claim the first queued task that may run on the owner's host with these agents, if there is one."""
    for entry in await store.turns():
        if entry.status != "queued" or (agents is not None and entry.agent not in agents):
            continue
        if not any_host and entry.host not in (None, owner.host):
            continue
        try:
            return await store.claim(entry.task, entry.generation, owner, lease_s)
        except (errors.SessionRunning, errors.StaleGeneration):
            continue  # another task drives the conversation, or another owner was faster
    return None
