"""The `resume=<none>` warnings of all sessions: each is in the hub's log, and counted by its first reason."""

from __future__ import annotations

import logging
from collections import Counter

from holdfast.model.event import Event
from holdfast.runner.sessions import NOT_RESUMED

log = logging.getLogger(__name__)


class FreshStarts:
    """Listens to what is committed, by whatever process works on this store."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()  # by the code of the first reason

    def on_event(self, session: str, event: Event) -> None:
        """Log and count a session that starts fresh in the place of another one."""
        if event.kind != "notice" or event.replayed or event.body.get("code") != NOT_RESUMED:
            return
        reasons = event.body.get("reasons") or [{}]
        self.count[str(reasons[0].get("code", "unknown"))] += 1
        log.warning("session %s, task %s: %s", session, event.task, event.body.get("text"))
