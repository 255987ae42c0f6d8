"""What every run on this machine shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.agents.registry import Registry
from holdfast.home import Home
from holdfast.model.task import Owner
from holdfast.spool.watch import Watch
from holdfast.store.contract import Store
from holdfast.work.settings import Settings


class Context(NamedTuple):
    """One worker's surroundings."""

    store: Store
    home: Home
    registry: Registry
    settings: Settings
    watch: Watch
    owner: Owner
    env: Mapping[str, str]  # of the user; agents get what is kept of it
