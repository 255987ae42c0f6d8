"""Open a store for one change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast import config
from holdfast.agents.registry import AgentRegistry
from holdfast.store.open import open_store
from holdfast.store.readonly import require

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.location import Location
    from holdfast.store.store import Store


@asynccontextmanager
async def open_for_change(home: Home, location: Location) -> AsyncIterator[Store]:
    """The store of an existing home."""
    require(home, location)
    rules = AgentRegistry.from_config(config.load(home).get("agents", {})).token_rules()
    store = await open_store(location, home, rules)
    try:
        yield store
    finally:
        await store.close()
