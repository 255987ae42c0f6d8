"""`holdfast doctor hapi` beside a plain read of the same rows, and how its memory grows with them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import apsw

from bench.measure import Measured, in_turns, measured

KB = 1024
TEXT = "a line of output that a tool gave, and that is stored as it came\n"

PLAIN = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
for row in db.execute("select * from sessions"): pass
for row in db.execute("select * from messages"): pass
"""


class Took(NamedTuple):
    """One run of a process."""

    wall: float
    memory: float  # bytes, at its highest


class Made(NamedTuple):
    """A database of that many messages."""

    path: str
    messages: int


def make(folder: str, megabytes: int, sessions: int = 50) -> Made:
    """A hapi database of that size, with messages of about 4 kB."""
    path = os.path.join(folder, f"hapi-{megabytes}.db")
    db = apsw.Connection(path)
    db.execute(
        "create table sessions (id text primary key, created_at integer, updated_at integer, metadata text,"
        " metadata_version integer default 1, active_at integer, seq integer default 0);"
        "create table messages (id text primary key, session_id text not null, content text not null,"
        " created_at integer not null, seq integer not null, local_id text, invoked_at integer);"
        "create index idx_messages_session on messages(session_id, seq);"
        "pragma user_version = 9; pragma synchronous = off; begin"
    )
    output = {"type": "codex", "data": {"type": "message", "message": TEXT * (4 * KB // len(TEXT))}}
    content = json.dumps({"role": "agent", "content": output})
    each = megabytes * KB * KB // len(content) // sessions
    for session in range(sessions):
        metadata = json.dumps({"path": "/home/dev/project", "host": "h", "flavor": "codex"})
        db.execute("insert into sessions values (?, 1, 1, ?, 1, 1, 0)", (f"s{session}", metadata))
        rows = ((f"{session}-{n}", f"s{session}", content, n, n, None, n) for n in range(each))
        db.executemany("insert into messages values (?, ?, ?, ?, ?, ?, ?)", rows)
    db.execute("commit")
    db.close()
    return Made(path, each * sessions)


def timed(words: list[str], home: str) -> Took:
    """Run a process to its end."""
    begun = time.perf_counter()
    with subprocess.Popen(
        words, env={**os.environ, "HOLDFAST_HOME": home, "HOME": home}, stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return Took(time.perf_counter() - begun, _bytes(used))


def _bytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss * (1.0 if sys.platform == "darwin" else KB)


async def run(quick: bool) -> list[Measured]:
    """Rows per second of a look, and memory at one size and at four times that."""
    size, rounds = (50, 3) if quick else (400, 5)
    with tempfile.TemporaryDirectory() as folder:
        small, large = make(folder, size // 4), make(folder, size)

        def look(made: Made) -> Took:
            words = [sys.executable, "-m", "holdfast", "doctor", "hapi", made.path, "--json"]
            return timed(words, folder)

        async def ours() -> Took:
            return look(large)

        async def plain() -> Took:
            return timed([sys.executable, "-c", PLAIN, large.path], folder)

        async def few() -> Took:
            return look(small)

        beside = await in_turns(ours, plain, rounds)
        growth = await in_turns(ours, few, rounds)
    rows = [(mine.wall / large.messages, base.wall / large.messages) for mine, base in beside]
    memory = [(mine.memory, base.memory) for mine, base in growth]
    return [
        measured(
            f"doctor hapi, {large.messages} messages in {size} MB (per row)",
            "a plain read of the rows",
            rows,
            speed=True,
        ),
        measured(
            f"memory of doctor hapi at {size} MB",
            f"at {size // 4} MB",
            memory,
            budget="≤ 1.2",
            speed=False,
            unit="bytes",
        ),
    ]
