"""A command that reads shows a store of an earlier version, without changing it."""

from __future__ import annotations

import apsw

from holdfast.home import Home
from holdfast.store import readonly, reads
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.sqlite import migrations
from tests.conftest import REGISTRY


async def test_a_store_of_version_1_is_read_as_it_is_and_brought_up_when_it_is_opened(home: Home) -> None:
    location = Location("sqlite", home.database)
    store = await open_store(location, home, REGISTRY.token_rules())
    session = await store.create_session("demo")
    task = await store.enqueue(session.id, "go")
    await store.close()
    db = apsw.Connection(home.database)
    db.execute("alter table task drop column waiting_for; alter table task drop column not_before")
    db.execute("pragma user_version=1")
    db.close()
    (seen,) = readonly.ask(home, location, lambda sql: reads.latest_tasks(sql))
    assert (seen["id"], seen["waiting_for"]) == (task.id, None)
    assert apsw.Connection(home.database).execute("pragma user_version").get == 1
    store = await open_store(location, home, REGISTRY.token_rules())
    assert (await store.task(task.id)).waiting_for is None
    await store.close()
    assert apsw.Connection(home.database).execute("pragma user_version").get == migrations.newest()
    assert len(migrations.VIEWS) == len(migrations.STEPS)
