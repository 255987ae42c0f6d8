"""Which task does a person mean, who names a task, a session or a key?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import IllegalChange, NotFound
from holdfast.store import reads

if TYPE_CHECKING:
    from holdfast.store.sql import Sql

RUNNING = ("running", "unreachable")


async def task_to_cancel(sql: Sql, name: str) -> tuple[str, int]:
    """The task to stop, and how many prompts wait behind it; a session means what runs there."""
    kind, target = await reads.resolve_target(sql, name)
    if kind == "task":
        return target, 0
    open_tasks = await reads.open_tasks(sql, target)
    pending = [task for task, status in open_tasks if status not in RUNNING]
    for task, status in open_tasks:
        if status in RUNNING:
            return task, len(pending)
    if len(pending) > 1:
        raise IllegalChange(
            f"{len(pending)} prompts wait in session {target}: {', '.join(pending[:5])}",
            hint=f"name the one to cancel: `holdfast cancel {pending[0]}`",
        )
    if pending:
        return pending[0], 0
    last = await reads.started_tasks(sql, target)
    if not last:
        raise IllegalChange(f"session {target} has no task to cancel")
    return str(last[0]["id"]), 0  # one that has ended may have left processes behind


async def task_that_asks(sql: Sql, name: str) -> str:
    """The task that waits for a permission."""
    kind, target = await reads.resolve_target(sql, name)
    if kind == "task":
        return target
    for asked in await reads.asked(sql):
        if asked["session"] == target:
            return str(asked["task"])
    raise NotFound(
        f"session {target} waits for no permission", hint="`holdfast tasks` shows which tasks ask for one"
    )
