"""`holdfast doctor hapi` beside a plain read of the same rows, and how its memory grows with them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from typing import Any, NamedTuple

import apsw

from bench.measure import Measured, in_turns, measured
from holdfast.cli.exit_status import FINDINGS

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
        thread = {"type": "codex", "data": {"type": "ready", "thread_id": str(uuid.UUID(int=session))}}
        named = json.dumps({"role": "agent", "content": thread})
        last = (f"{session}-named", f"s{session}", named, each, each, None, each)
        db.execute("insert into messages values (?, ?, ?, ?, ?, ?, ?)", last)
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
    if process.returncode not in (0, FINDINGS):
        raise subprocess.CalledProcessError(process.returncode, words)
    return Took(time.perf_counter() - begun, _bytes(used))


def said(words: list[str], home: str) -> Any:
    """What a command of ours says as JSON."""
    env = {**os.environ, "HOLDFAST_HOME": home, "HOME": home}
    done = subprocess.run(words, env=env, check=False, capture_output=True)
    if done.returncode not in (0, FINDINGS):
        raise subprocess.CalledProcessError(done.returncode, words)
    return json.loads(done.stdout)


def mended(made: Made, home: str) -> Took:
    """An apply of all repairs, which is undone and taken away afterwards."""
    words = [sys.executable, "-m", "holdfast", "doctor", "hapi", made.path]
    plan = said([*words, "--json"], home)["fingerprint"]
    took = timed([*words, "--apply", plan], home)
    (receipt,) = (name for name in os.listdir(os.path.join(home, "doctor")) if name.startswith("r"))
    timed([*words[:4], "--undo", receipt], home)
    shutil.rmtree(os.path.join(home, "doctor"))
    return took


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

        async def mend() -> Took:
            return mended(large, folder)

        async def mend_few() -> Took:
            return mended(small, folder)

        beside = await in_turns(ours, plain, rounds)
        growth = await in_turns(ours, few, rounds)
        applied = await in_turns(mend, plain, rounds)
        applied_growth = await in_turns(mend, mend_few, rounds)
    rows = [(mine.wall / large.messages, base.wall / large.messages) for mine, base in beside]
    memory = [(mine.memory, base.memory) for mine, base in growth]
    apply_rows = [(mine.wall / large.messages, base.wall / large.messages) for mine, base in applied]
    apply_memory = [(mine.memory, base.memory) for mine, base in applied_growth]
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
        measured(
            f"doctor hapi --apply with its backup, {size} MB (per row)",
            "a plain read of the rows",
            apply_rows,
            speed=True,
        ),
        measured(
            f"memory of doctor hapi --apply at {size} MB",
            f"at {size // 4} MB",
            apply_memory,
            budget="≤ 1.2",
            speed=False,
            unit="bytes",
        ),
    ]
