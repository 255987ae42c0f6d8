"""The kill loop on PostgreSQL: SIGKILL to the client at any moment, and SIGKILL to the server under a client.

25 kills of the client by default; HOLDFAST_TORTURE=10000 sets another number. The campaign is that of
`kill_campaign.py`; `python -m tests.crash.test_postgres_kill client|server …` runs it on a PostgreSQL store.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
from psycopg.rows import dict_row

from holdfast.home import Home
from holdfast.store.location import Location
from holdfast.store.postgres.connection import parse
from tests.crash import children, kill_campaign, writer_child
from tests.crash.support import TORTURE, Row, Seen
from tests.support.postgres_server import DURABLE, Server, connect

KILLS = TORTURE or 25
SERVER_KILLS = max(3, TORTURE // 100)
KILL_S = (0.002, 0.120)  # after the first acknowledgement; a round trip takes longer than a call of SQLite's
SECONDS = 60.0  # within which a writer must have gone on after a restart of its server


def run(*words: object) -> dict[str, int]:
    """What a campaign saw; its own words if it failed."""
    command = children.command("test_postgres_kill", *words)
    done = subprocess.run(command, env=children.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stdout)
    return seen


def test_acknowledged_records_survive_every_kill_of_the_client(tmp_path: Path, postgres_url: str) -> None:
    seed = 1 if not TORTURE else int.from_bytes(os.urandom(4), "big")
    seen = run("client", postgres_url, tmp_path / "home", KILLS, seed)
    assert seen["kills"] == KILLS, seen
    assert seen["acknowledged"] > KILLS // 2, f"the writers hardly wrote: {seen}"
    assert seen["mirror_behind"] > 0, f"no kill came between a commit and its mirror: {seen}"


def test_a_writer_goes_on_by_itself_after_kills_of_the_server(tmp_path: Path, private_server: Server) -> None:
    seen = run("server", private_server.pgdata, tmp_path / "home", SERVER_KILLS)
    assert seen["kills"] == SERVER_KILLS, seen
    assert seen["acknowledged"] > 20 * SERVER_KILLS, f"the writers hardly wrote: {seen}"


# --- the campaign on PostgreSQL


@contextmanager
def on_postgres(url: str) -> Iterator[None]:
    """Let `kill_campaign` and its children work on this store."""

    @functools.cache  # once in each child, before it has a store of its own
    def settle() -> None:
        # The last commit of a killed client may still be on its way; it holds the lock until then.
        with connect(url) as db:
            db.execute("select pg_advisory_xact_lock(%s)", (parse(url).lock,))

    def place(home: Home) -> Location:
        settle()
        return Location("postgres", url)

    new: dict[str, Any] = {"place": place}
    with (
        mock.patch.multiple(writer_child, **new),
        mock.patch.multiple(kill_campaign, read_database=lambda path: read(url), KILL_S=KILL_S, **new),
    ):
        yield


def read(url: str) -> dict[str, Seen]:
    """All sessions, by plain SQL."""
    sessions: dict[str, Seen] = {}
    by_n: dict[int, Seen] = {}
    with connect(url) as db:
        for row in _rows(db, "select * from session order by n"):
            by_n[row["n"]] = sessions[row["id"]] = Seen(row, [], [], {})
        for row in _rows(db, "select * from log order by n, seq"):
            by_n[row["n"]].log.append(row)
        for row in _rows(db, "select * from token order by n, pos"):
            by_n[row["n"]].tokens.append(row)
        for row in _rows(db, "select * from task order by place"):
            by_n[row["n"]].tasks[row["id"]] = row
    return sessions


def _rows(db: psycopg.Connection, query: str) -> list[Row]:
    return db.cursor(row_factory=dict_row).execute(query).fetchall()


def kill_client(url: str, path: str, kills: int, seed: int) -> None:
    """Kill the client again and again."""
    with on_postgres(url):
        kill_campaign.main(path, kills, seed)


def kill_server(pgdata: str, path: str, kills: int) -> None:
    """Kill the server again and again under one client, which is told nothing of it."""
    server = Server(Path(pgdata), DURABLE)
    home = Home(path)
    home.make()
    with on_postgres(server.url("holdfast")):
        children.in_child(lambda: asyncio.run(writer_child.set_up(home)))
        child = children.start(lambda say: writer_child.run(home, 1, True, say))
        said = _listen(child, 50)
        for _ in range(kills):
            server.kill()
            server.start()
            said += _listen(child, 50)
        said += child.kill()
        lines = children.lines(said)
        acked: kill_campaign.Acked = {}
        for what, session, count, *_ in lines:
            acked.setdefault(session, {})[what] = int(count)
        checked = children.in_child(lambda: asyncio.run(kill_campaign._check(home, acked, {}, True)))
        kill_campaign._check_seqs(lines, checked)
    print(json.dumps({"kills": kills, "acknowledged": len(lines)}))


def _listen(child: children.Child, count: int) -> bytes:
    """What the child says until it has acknowledged that much more."""
    said, end = b"", time.monotonic() + SECONDS
    while said.count(b"\n") < count:
        ready, _, _ = select.select([child.pipe], [], [], max(0.0, end - time.monotonic()))
        piece = os.read(child.pipe, 1 << 16) if ready else b""
        assert piece, f"the writer did not go on: {said.decode()} {child.kill().decode()}"
        said += piece
    return said


if __name__ == "__main__":
    if sys.argv[1] == "client":
        kill_client(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        kill_server(sys.argv[2], sys.argv[3], int(sys.argv[4]))
