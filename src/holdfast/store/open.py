"""Open a SQLite or PostgreSQL store for writing."""

from __future__ import annotations

import os

from holdfast import durable_io
from holdfast import node as nodes
from holdfast.home import Home
from holdfast.model.token import TokenRules
from holdfast.store.location import Location
from holdfast.store.store import Store


async def open_store(location: Location, home: Home, rules: TokenRules) -> Store:
    """Open the store and create or migrate its schema. Heals nothing (see `recovery.heal`)."""
    home.make()
    if location.kind == "sqlite":
        from holdfast.store.sqlite.store import SqliteStore

        durable_io.make_folder(os.path.dirname(location.address))
        node = nodes.ensure(home, private=True)  # first: it checks if there was a database before
        store = SqliteStore(location.address, home, rules)
        store.node = node
        return store
    from holdfast.store.postgres.store import PostgresStore

    return await PostgresStore.open(location.address, home, rules)
