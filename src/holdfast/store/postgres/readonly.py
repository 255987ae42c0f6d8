"""One question on one connection, for a reading command. Creates and migrates nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from holdfast import errors
from holdfast.store.postgres import migrations
from holdfast.store.postgres.connection import BEGIN_READ, connect_first, meaning, parse
from holdfast.store.postgres.sql import PostgresSql
from holdfast.store.sql import Sql

T = TypeVar("T")


async def ask_once(url: str, question: Callable[[Sql], Awaitable[T]]) -> T:
    """Answer a question from an existing store."""
    address = parse(url)
    db = await connect_first(address)
    try:
        version = await migrations.check(db, address)
        if version == 0:
            raise errors.StoreMissing(
                f"{address.name} has no schema {address.schema} with tables of Holdfast's",
                hint="`holdfast init` creates them",
            )
        for view in migrations.VIEWS[version - 1 :]:
            await db.execute(view, prepare=False)
        await db.execute(BEGIN_READ)
        return await question(PostgresSql(db))
    except (psycopg.Error, UnicodeEncodeError) as problem:
        raise meaning(problem, address) from problem
    finally:
        await db.close()
