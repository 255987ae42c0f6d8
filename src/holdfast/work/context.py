"""What every run on this machine shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from holdfast.agents.registry import Registry
from holdfast.home import Home
from holdfast.model.task import Owner
from holdfast.spool.watch import Watch
from holdfast.store.contract import Store
from holdfast.work.settings import Settings

Unfinished = Callable[[], tuple[str, str] | None]  # the kind and text of a block that is not whole
Overhear = Callable[[str, str, Unfinished | None], None]  # session, task; None: it is heard no more


class Context(NamedTuple):
    """One worker's surroundings."""

    store: Store
    home: Home
    registry: Registry
    settings: Settings
    watch: Watch
    owner: Owner
    env: Mapping[str, str]  # of the user; agents get what is kept of it
    overhear: Overhear | None = None  # told of what is being said; the log never depends on it
