"""Without a superuser's rights: tries to write to a home, then reads a session; tells both."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401
import ctypes  # noqa: F401 - afterwards the interpreter's own files may be out of reach
import os
import sys

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.heal import open_healed
from holdfast.store import reads, sync_await
from holdfast.store.sqlite import store as _warm  # noqa: F401
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.sql import SqliteSql
from tests.crash.support import RULES, place, say

NOBODY = 65534


async def write(home: Home, session: str) -> str:
    """The code that a writer gets."""
    try:
        store, _ = await open_healed(place(home), home, RULES)
        try:
            await store.commit(Commit(session, [say("never")]))
        finally:
            await store.close()
    except errors.HoldfastError as problem:
        return problem.code
    return "written"


def main(path: str, session: str) -> None:
    """Print the code and the number of records."""
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    home = Home(path)
    code = asyncio.run(write(home, session))
    db = open_reader(home.database)
    print(code, len(sync_await.run(reads.log(SqliteSql(db), session))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
