"""What every run on this machine shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.task import Owner
from holdfast.node import Node
from holdfast.settings import Settings
from holdfast.shortage import Shortages
from holdfast.spool.watch import Watch
from holdfast.store.store import Store

ReadPartial = Callable[[], tuple[str, str] | None]  # the kind and text of a block that is not whole
OnPartial = Callable[[str, str, ReadPartial | None], None]  # session, task; None: it is heard no more


class Context(NamedTuple):
    """One worker's surroundings."""

    store: Store
    home: Home
    registry: AgentRegistry
    settings: Settings
    watch: Watch
    owner: Owner
    node: Node
    env: Mapping[str, str]  # of the user; agents get what is kept of it
    shortages: Shortages
    overhear: OnPartial | None = None  # told of what is being said; the log never depends on it


# --- Words of people and agents, as a header can hold them.


def header(text: str, limit: int) -> str:
    """The beginning of a text on one line, without what not every store can hold."""
    line = " ".join(text[: 8 * limit].replace("\0", " ").split())
    shown = line if len(line) <= limit else line[: limit - 1] + "…"
    return shown.encode(errors="replace").decode()
