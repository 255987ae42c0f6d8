"""Two homes: one with many sessions, one with none."""

from __future__ import annotations

import os
from typing import NamedTuple

from bench.append import Running, events
from holdfast.model.commit import Commit

EACH = 100  # events a session
AT_ONCE = 20  # commits that are handed in together


class Homes(NamedTuple):
    """Where they are."""

    full: str
    empty: str
    sessions: int


async def make(folder: str, sessions: int) -> Homes:
    """Make both."""
    full = await Running.start(os.path.join(folder, "full"), sessions=0)
    for _ in range(sessions // AT_ONCE):
        made = [await full.store.create_session("claude") for _ in range(AT_ONCE)]
        await full.store.commit_all([Commit(session.id, events(EACH)) for session in made])
    await full.store.close()
    empty = await Running.start(os.path.join(folder, "empty"), sessions=0)
    await empty.store.close()
    return Homes(os.path.join(folder, "full", "home"), os.path.join(folder, "empty", "home"), sessions)
