"""`holdfast doctor hermes` beside a plain read of the same sidecars, and how its memory grows with them."""

from __future__ import annotations

import json
import os
import sys
import tempfile

import apsw

from bench.doctor import Took, timed
from bench.measure import Measured, in_turns, measured

EACH = 20  # messages a session, each of about half a kilobyte, and the same for the model
T0 = 1_750_000_000.0

PLAIN = """
import apsw, json, os, sys
folder = os.path.join(sys.argv[1], "webui", "sessions")
for name in os.listdir(folder):
    with open(os.path.join(folder, name), "rb") as file: json.loads(file.read())
db = apsw.Connection(os.path.join(sys.argv[1], "state.db"))
for row in db.execute("select * from messages"): pass
"""


def make(folder: str, sessions: int) -> str:
    """A home of that many sound sessions, each with its rows in the agent's database."""
    home = os.path.join(folder, f"hermes-{sessions}")
    sidecars = os.path.join(home, "webui", "sessions")
    os.makedirs(sidecars)
    db = apsw.Connection(os.path.join(home, "state.db"))
    db.execute(
        "create table sessions (id text primary key, source text not null, title text, cwd text,"
        " started_at real); create table messages (id integer primary key, session_id text not null,"
        " role text not null, content text, timestamp real, active integer default 1);"
        "create index of_session on messages(session_id); pragma synchronous = off; begin"
    )
    said = [
        {"role": "assistant" if n % 2 else "user", "content": f"{n} " + "word " * 100, "timestamp": T0 + n}
        for n in range(EACH)
    ]
    listed = []
    for number in range(sessions):
        own = f"s{number:06}"
        head = {"session_id": own, "title": "t", "created_at": T0, "updated_at": T0, "message_count": EACH}
        with open(os.path.join(sidecars, f"{own}.json"), "w", encoding="utf-8") as file:
            json.dump({**head, "messages": said, "context_messages": said}, file, indent=2)
        db.execute("insert into sessions values (?, 'webui', 't', '/w', ?)", (own, T0))
        rows = ((own, one["role"], one["content"], one["timestamp"]) for one in said)
        db.executemany(
            "insert into messages (session_id, role, content, timestamp) values (?, ?, ?, ?)", rows
        )
        listed.append({"session_id": own})
    db.execute("commit")
    db.close()
    with open(os.path.join(sidecars, "_index.json"), "w", encoding="utf-8") as file:
        json.dump(listed, file)
    return home


async def run(quick: bool) -> list[Measured]:
    """Files per second of a look, and memory with so many and with a quarter of them.

    What grows is the list of names.
    """
    sessions, rounds = (400, 3) if quick else (10_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        small, large = make(folder, sessions // 4), make(folder, sessions)

        def look(home: str) -> Took:
            return timed([sys.executable, "-m", "holdfast", "doctor", "hermes", home, "--json"], folder)

        async def ours() -> Took:
            return look(large)

        async def plain() -> Took:
            return timed([sys.executable, "-c", PLAIN, large], folder)

        async def few() -> Took:
            return look(small)

        beside = await in_turns(ours, plain, rounds)
        growth = await in_turns(ours, few, rounds)
    return [
        measured(
            f"doctor hermes, {sessions} sessions of {EACH} messages (per file)",
            "a plain read of files and rows",
            [(mine.wall / sessions, base.wall / sessions) for mine, base in beside],
            speed=True,
        ),
        measured(
            f"memory of doctor hermes with {sessions} sessions",
            f"with {sessions // 4}",
            [(mine.memory, base.memory) for mine, base in growth],
            budget="≤ 1.1",
            unit="bytes",
        ),
    ]
