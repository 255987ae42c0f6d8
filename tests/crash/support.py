"""What the crash tests share: a look at both copies that owes nothing to the store's own code.

The database is read with plain SQL and the mirrors with a plain JSON parser, so that an error in the store's
readers cannot hide one in its writers.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, NamedTuple

import apsw
import msgspec

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.event import NewEvent, Origin
from holdfast.model.task import Owner
from holdfast.store.location import Location

RULES = AgentRegistry().token_rules()
OWNER = Owner(host="here", pid=1, started=1.0, boot="boot")
TORTURE = int(os.environ.get("HOLDFAST_TORTURE", "0"))  # kills, or any number for all power-cut states

Row = dict[str, Any]

_json = msgspec.json.decode


class Seen(NamedTuple):
    """One session as the database has it."""

    header: Row
    log: list[Row]
    tokens: list[Row]
    tasks: dict[str, Row]


def place(home: Home) -> Location:
    """The SQLite store of a home."""
    return Location("sqlite", home.database)


def memory_folder() -> str | None:
    """Where files cost no disk time, if the platform has such a place; None: the usual one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def quick_mirrors(lag_s: float = 0.001, quiet_s: float = 0.004) -> None:
    """Let the mirrors follow at once in this process, so that kills strike them and tests need not wait."""
    from holdfast.store.mirror import thread, writer

    vars(thread).update(LAG_S=lag_s)
    vars(writer).update(IDLE_S=quiet_s)


class scratch(tempfile.TemporaryDirectory[str]):
    """A folder that goes away, in memory where there is such a thing."""

    def __init__(self) -> None:
        super().__init__(prefix="holdfast-", dir=memory_folder())


def say(text: str, origin: str | None = None) -> NewEvent:
    """An event of what the agent said, with the record it came from."""
    where = None if origin is None else Origin("claude", "native", origin)
    return NewEvent("assistant", {"text": text}, origin=where)


def read_database(path: str, moved: bool = False) -> dict[str, Seen]:
    """All sessions, after an integrity check of the whole file; `moved`: some may have left a log behind."""
    db = apsw.Connection(path)
    try:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        sessions: dict[str, Seen] = {}
        by_n: dict[int, Seen] = {}
        for row in _rows(db, "select * from session order by n"):
            by_n[row["n"]] = sessions[row["id"]] = Seen(row, [], [], {})
        for row in _rows(db, "select * from log order by n, seq"):
            if row["n"] in by_n or not moved:
                by_n[row["n"]].log.append(row)
        for row in _rows(db, "select * from token order by n, pos"):
            by_n[row["n"]].tokens.append(row)
        for row in _rows(db, "select * from task order by place"):
            by_n[row["n"]].tasks[row["id"]] = row
        return sessions
    finally:
        db.close()


def _rows(db: apsw.Connection, query: str) -> list[Row]:
    cursor = db.execute(query)
    try:
        names = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return []
    return [dict(zip(names, row, strict=True)) for row in cursor]


def check_sound(sessions: dict[str, Seen]) -> None:
    """Every log is without gaps and every view is level with it."""
    for name, seen in sessions.items():
        seqs = [row["seq"] for row in seen.log]
        assert seqs == list(range(1, len(seqs) + 1)), f"{name} has gaps: {seqs}"
        assert seen.header["seq"] == len(seqs), f"the header of {name} counts other than its log"
        assert seen.log[-1]["last"], f"{name} ends inside a commit"
        origins = [row["origin"] for row in seen.log if row["origin"] is not None]
        assert len(set(origins)) == len(origins), f"{name} has an origin twice"
        for task in seen.tasks.values():
            offsets = [r["spool"] for r in seen.log if r["task"] == task["id"] and r["spool"] is not None]
            assert task["spool"] == (offsets[-1] if offsets else 0), f"events and offset apart in {name}"


def check_mirrors(home: Home, sessions: dict[str, Seen]) -> None:
    """Every mirror has exactly its session's records, line by line; deleted ones only tombstones."""
    for name, seen in sessions.items():
        if seen.header["state"] == "deleted":
            assert not os.path.exists(home.mirror(name)), f"deleted {name} lies among the live ones"
            assert os.path.exists(home.tombstone(name)), f"deleted {name} has no tombstone"
        else:
            assert mirror_rows(home.mirror(name)) == [as_line(name, row) for row in seen.log], name
            assert not os.path.exists(home.tombstone(name)), f"live {name} has a tombstone"
    names = {n.removesuffix(".jsonl") for n in os.listdir(home.sessions) if n.endswith(".jsonl")}
    assert names <= set(sessions), f"mirrors without a session: {names - set(sessions)}"


def mirror_rows(path: str) -> list[Row]:
    """The lines of a mirror as plain JSON; the last byte must end a line."""
    with open(path, "rb") as file:
        data = file.read()
    assert data.endswith(b"\n"), f"{path} ends inside a line"
    rows = [_json(line) for line in data.split(b"\n")[:-1]]
    for row in rows:
        row["last"] = row.pop("crc", None) is not None
    return rows


def as_line(session: str, row: Row) -> Row:
    """What the mirror's line of a log row must say."""
    return {
        "session": session,
        "seq": row["seq"],
        "kind": row["kind"],
        "at": row["at"],
        "task": row["task"],
        "replayed": bool(row["replayed"]),
        "origin": None if row["origin"] is None else _json(row["origin"]),
        "spool": row["spool"],
        "body": _json(row["body"]),
        "last": bool(row["last"]),
    }


def essence(seen: Seen) -> Row:
    """A session without what may differ between two tellings of one history: times and internal numbers."""
    times = {"at", "n", "id", "place", "seal", "updated_at", "created_at", "queued_at", "started_at"}
    times |= {"ended_at", "lease_until", "deletion", "archive", "search"}

    def bare(row: Row) -> Row:
        return {key: value for key, value in row.items() if key not in times}

    return {
        "header": bare(seen.header),
        "log": [bare(row) | {"body": _timeless(row["body"])} for row in seen.log],
        "tokens": [bare(row) for row in seen.tokens],
        "tasks": {name: bare(row) for name, row in seen.tasks.items()},
    }


def _timeless(body: str) -> Row:
    found: Row = _json(body)
    found.pop("lease_until", None)
    return found


def torture_seed(number: int) -> int:
    """The seed of a round of `make torture`: the same in every run, HOLDFAST_SEED=N or `random` for others.

    A campaign that goes by chance in CI fails now and then for what no change of that day has done.
    """
    base = os.environ.get("HOLDFAST_SEED", "1000000")
    return int.from_bytes(os.urandom(4), "big") if base == "random" else int(base) + 1000 * number
