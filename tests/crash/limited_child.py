"""Writes under RLIMIT_FSIZE until it is refused, then without the limit; tells what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys

from holdfast import errors
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.store.sqlite.store import SqliteStore
from tests.crash.support import RULES, check_mirrors, check_sound, quick_mirrors, read_database, say

LIMIT = 400_000  # bytes of one file


async def main(home: Home) -> None:
    """One session, written to before, at and after the limit."""
    quick_mirrors()
    home.make()
    store = SqliteStore(home.database, home, RULES)
    session = (await store.create_session("claude")).id
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    acked, refused = 1, 0
    while refused < 3 and acked < 1000:
        try:
            acked += len((await store.commit(Commit(session, [say("x" * 2000)]))).seqs)
        except errors.DiskFull:
            refused += 1
    stored = len(await store.events(session, limit=5000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (await store.commit(Commit(session, [say("room")]))).seqs[0] == acked + 1
    await store.close()
    sessions = read_database(home.database)
    check_sound(sessions)
    check_mirrors(home, sessions)
    print(json.dumps({"acked": acked, "refused": refused, "stored": stored}))


if __name__ == "__main__":
    asyncio.run(main(Home(sys.argv[1])))
