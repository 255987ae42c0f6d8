"""Random damage to one copy or both, healed, and compared with the truth by an oracle of its own.

`python -m tests.crash.damage_campaign FOLDER ROUNDS SEED` prints what it saw as JSON, or fails and names
the round; `... FOLDER 1 SEED+ROUND` repeats that round. The oracle shares no code with recovery: it knows
the bytes of the whole home, compares the damaged ones with them byte by byte, and reads the result with
plain SQL and plain JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import sys
from collections import Counter
from typing import NamedTuple

from holdfast import errors, timestamps
from holdfast.home import Home
from holdfast.recovery.findings import Report
from holdfast.recovery.heal import open_healed
from tests.crash import children
from tests.crash.heal_campaign import build
from tests.crash.support import RULES, check_mirrors, check_sound, place, quick_mirrors, read_database

PAGE = 4096
SESSIONS = 10
MODES = ("database", "mirrors", "both")
COLUMNS = ("seq", "kind", "at", "task", "replayed", "origin", "spool", "last", "body")
LAST = COLUMNS.index("last")
BEFORE_TEXT, AFTER_TEXT = 64, 8  # bytes of a row around its texts: its lengths, types and numbers

LogRow = tuple[object, ...]
Logs = dict[str, dict[int, LogRow]]


class Spot(NamedTuple):
    """Where the database file has the texts of a record."""

    start: int
    end: int


class Truth(NamedTuple):
    """The home before any damage."""

    logs: Logs
    lines: dict[str, dict[int, bytes]]  # of each session's mirror, by seq
    files: dict[str, bytes]  # by path in the home
    spots: dict[tuple[str, int], Spot]
    dump: list[str] | None


def main(folder: str, rounds: int, seed: int) -> None:
    """Damage, heal, compare; each round is the same every time."""
    first = Home(os.path.join(folder, "first"))
    first.make()
    children.in_child(lambda: build_always_alike(first))
    truth = look(first)
    total: Counter[str] = Counter()
    failed: list[int] = []
    for number in range(seed, seed + rounds):
        home = Home(os.path.join(folder, f"home-{number}"))
        shutil.copytree(first.path, home.path, symlinks=True)
        try:
            total += children.in_child(lambda: one_round(home, truth, number))  # noqa: B023
        except AssertionError as problem:
            failed.append(number)
            print(f"round {number} failed; its home is {home.path}: {problem}", file=sys.stderr)
        else:
            shutil.rmtree(home.path)
    print(json.dumps({"rounds": rounds, "seed": seed, "failed": failed, **dict(sorted(total.items()))}))
    sys.exit(1 if failed else 0)


def build_always_alike(home: Home) -> None:
    """With the same ids and times in every run, so that a seed means the same damage."""
    rng, clock = random.Random(7), iter(range(10**9))
    vars(os)["urandom"] = rng.randbytes
    vars(timestamps)["now"] = lambda: timestamps.stamp(1_700_000_000 + next(clock) / 1000)
    asyncio.run(build(home, SESSIONS, 6))


def look(home: Home) -> Truth:
    """Everything that the oracle must know."""
    files = {}
    for name in sorted(os.listdir(home.sessions)):
        if name.endswith(".jsonl"):
            files[os.path.join("sessions", name)] = _read(os.path.join(home.sessions, name))
    for name in sorted(os.listdir(home.trash)):
        if name.endswith(".jsonl"):
            files[os.path.join("trash", name)] = _read(os.path.join(home.trash, name))
    lines = {}
    for path, data in files.items():
        found = {json.loads(line)["seq"]: line for line in data.splitlines(keepends=True)}
        lines[os.path.basename(path).removesuffix(".jsonl")] = found
    logs = rows_of(home)
    data = files["state.db"] = _read(home.database)
    spots = {}
    for session, log in logs.items():
        for seq, row in log.items():
            at, body = str(row[2]).encode(), str(row[-1]).encode()
            end = data.find(body, data.find(at + str(row[3] or "").encode()))
            start = data.rfind(at, 0, end)
            if end > 0 and start > 0 and start // PAGE == (end + len(body)) // PAGE:
                spots[session, seq] = Spot(start, end + len(body))
    return Truth(logs, lines, files, spots, _dump(home.database))


def rows_of(home: Home) -> Logs:
    """The logs as plain SQL reads them."""
    db = sqlite3.connect(home.database)
    try:
        names = ", ".join(f"l.{name}" for name in COLUMNS)
        logs: Logs = {session: {} for (session,) in db.execute("select id from session")}
        query = f"select s.id, {names} from log l join session s on s.n = l.n"
        for session, *row in db.execute(query):
            logs[session][row[0]] = tuple(row)
        return logs
    finally:
        db.close()


# --- damage


def one_round(home: Home, truth: Truth, seed: int) -> Counter[str]:
    """One home: damaged by the numbers that this seed gives, healed twice, judged."""
    quick_mirrors()
    rng = random.Random(seed)
    mode = MODES[seed % len(MODES)]
    damaged: dict[str, bytes | None] = dict(truth.files)
    for _ in range(rng.randint(1, 4)):
        name = rng.choice([path for path in truth.files if _is_target(path, mode)])
        how = rng.choice(("bytes", "page", "truncate", "delete", "bytes", "page"))
        damaged[name] = inflict(damaged[name], how, rng)
    for path, data in damaged.items():
        full = os.path.join(home.path, path)
        if data is None:
            os.unlink(full)
        elif data != truth.files[path]:
            with open(full, "r+b") as file:
                file.truncate()
                file.write(data)
    quiet = damaged["state.db"] == truth.files["state.db"] or _dump(home.database) == truth.dump
    try:
        report = asyncio.run(_healed(home))
    except errors.SchemaNewer:  # the version in its header was struck; a newer Holdfast's file is not touched
        return Counter({"refused as newer": 1, f"rounds, {mode}": 1})
    again = asyncio.run(_healed(home))
    assert not again.done and not again.problems, (again.done, again.problems)
    assert not report.problems, report.problems
    sessions = read_database(home.database, moved=True)
    if mode != "both":
        check_sound(sessions)
    for name, seen in sessions.items():  # an origin that was altered in both copies may be another's
        assert [row["seq"] for row in seen.log] == list(range(1, seen.header["seq"] + 1)), name
        assert seen.log[-1]["last"], name
    for left in report.unhealed:
        assert left.code == "mirror_unreadable" and left.subject not in sessions, left
        (path,) = left.kept
        assert _read(path) == damaged[os.path.relpath(path, home.path)], "where its bytes are"
        os.unlink(path)
    check_mirrors(home, sessions)
    return judge(truth, damaged, mode, quiet, rows_of(home), report)


def _is_target(path: str, mode: str) -> bool:
    return mode == "both" or (path == "state.db") == (mode == "database")


def inflict(data: bytes | None, how: str, rng: random.Random) -> bytes | None:
    """What is left of a file."""
    if not data or how == "delete":
        return None
    if how == "truncate":
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    if how == "page":
        at = rng.randrange(len(data)) // PAGE * PAGE
        noise = rng.randbytes(PAGE) if rng.random() < 0.5 else bytes(PAGE)
        changed[at : at + PAGE] = noise[: len(changed) - at]
    else:
        for _ in range(rng.randint(1, 12)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


async def _healed(home: Home) -> Report:
    store, report = await open_healed(place(home), home, RULES, deep=True)
    await store.close()
    return report


def _dump(path: str) -> list[str] | None:
    """All that SQLite says of a file, if it is sound; None if it is not."""
    if not os.path.exists(path):
        return None
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.text_factory = bytes
    try:
        if db.execute("pragma integrity_check").fetchall() != [(b"ok",)]:
            return None
        tables = [
            name.decode() for (name,) in db.execute("select name from sqlite_schema where type = 'table'")
        ]
        return [repr(db.execute(f"select * from {name}").fetchall()) for name in sorted(tables)]
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    finally:
        db.close()


# --- the oracle


def judge(
    truth: Truth, damaged: dict[str, bytes | None], mode: str, quiet: bool, after: Logs, report: Report
) -> Counter[str]:
    """Compare; figures of what was lost and told."""
    told = {seq for done in report.done for seq in _told(done.subject, done.lost)}
    subjects = {finding.subject for finding in report.findings} | {done.subject for done in report.done}
    figures = Counter({f"rounds, {mode}": 1, "records": sum(map(len, truth.logs.values()))})
    if mode == "database":
        assert quiet or report.findings, "the database was damaged, and nothing was told"
    for path, data in damaged.items():
        if path != "state.db" and data != truth.files[path]:
            session = os.path.basename(path).removesuffix(".jsonl")
            if data is None and path.startswith("trash"):
                continue  # who clears the trash is not told of it: the database has it all
            if data is None and session not in after:
                figures["sessions that no copy knows of"] += 1
                continue
            assert session in subjects, f"{path} was damaged, and nothing was told"
    for session, log in truth.logs.items():
        now = after.get(session, {})
        wrong = {seq for seq, row in log.items() if now.get(seq) != row}
        if mode != "both":
            assert not wrong, f"one copy was whole, and {session} lost {sorted(wrong)}"
        figures += _judge_session(truth, damaged, session, now, wrong, told)
    extra = set(after) - set(truth.logs)
    for session in extra:  # a session whose id is nowhere any more, never a second copy of one that is
        rows = set(after[session].values())
        assert mode == "both", f"{session} was made up"
        assert not [name for name in truth.logs if rows & set(after.get(name, {}).values())], session
    figures["sessions without an id"] += len(extra)
    return figures


def _judge_session(
    truth: Truth,
    damaged: dict[str, bytes | None],
    session: str,
    now: dict[int, LogRow],
    wrong: set[int],
    told: set[tuple[str, int]],
) -> Counter[str]:
    readable = {seq for seq in truth.logs[session] if _is_readable(truth, damaged, session, seq)}
    undecided = {seq for seq in wrong & readable if _is_undecided(truth, damaged, session, seq, now)}
    lost = sorted(wrong & readable - undecided)
    assert not lost, f"{session}: {lost} can be read and are lost"
    mine = {seq for name, seq in told if name == session}
    altered = {seq for seq in wrong - mine if seq in now and not _is_stand_in(now[seq])}
    untold = wrong - mine - altered
    ends = max(now, default=0)
    assert not [seq for seq in untold if seq <= ends], f"{session}: {sorted(untold)} are lost and not told"
    for seq in altered - undecided:  # nothing could know it: its row is damaged, and so is its line
        assert not _is_sealed(truth, damaged, session, seq), f"{session}: {seq} is another record now"
    false = {seq for seq in mine - wrong if seq in truth.logs[session]}
    assert not false, f"{session}: {sorted(false)} are there and told to be lost"
    return Counter(
        {
            "lost and told": len(wrong & mine),
            "altered in both copies": len(altered - undecided),
            "two versions, neither proven": len(undecided),
            "ends that no copy knows of": len(untold),
            "recovered where both were damaged": len(truth.logs[session]) - len(wrong),
        }
    )


def _is_undecided(
    truth: Truth, damaged: dict[str, bytes | None], session: str, seq: int, now: dict[int, LogRow]
) -> bool:
    """The row was altered and still reads as a record; the line is whole, its commit's checksum is not."""
    log = truth.logs[session]
    first = max((one for one in log if one < seq and log[one][LAST]), default=0) + 1
    last = min(one for one in log if one >= seq and log[one][LAST])
    whole = all(_is_sealed(truth, damaged, session, one) for one in range(first, last + 1))
    there = seq in now and not _is_stand_in(now[seq])
    return there and not whole and not _is_in_database(truth, damaged, session, seq)


def _told(session: str, parts: list[str]) -> set[tuple[str, int]]:
    found = set()
    for part in parts:
        first, _, last = part.partition("-")
        found |= {(session, seq) for seq in range(int(first), int(last or first) + 1)}
    return found


def _is_stand_in(row: LogRow) -> bool:
    return '"record_lost"' in str(row[-1])


def _is_readable(truth: Truth, damaged: dict[str, bytes | None], session: str, seq: int) -> bool:
    return _is_sealed(truth, damaged, session, seq) or _is_in_database(truth, damaged, session, seq)


def _is_sealed(truth: Truth, damaged: dict[str, bytes | None], session: str, seq: int) -> bool:
    """Whether a mirror still has the record's line, as it was."""
    line = truth.lines.get(session, {}).get(seq)
    for folder in ("sessions", "trash"):
        data = damaged.get(os.path.join(folder, f"{session}.jsonl"))
        if data is not None and line is not None and line in data.splitlines(keepends=True):
            return True
    return False


def _is_in_database(truth: Truth, damaged: dict[str, bytes | None], session: str, seq: int) -> bool:
    """Whether the row's bytes are as they were, and its page still says where it is."""
    spot, data, whole = truth.spots.get((session, seq)), damaged["state.db"], truth.files["state.db"]
    if spot is None or data is None:
        return False
    page = spot.start // PAGE * PAGE
    cells = int.from_bytes(whole[page + 3 : page + 5], "big")
    start, end = spot.start - BEFORE_TEXT, spot.end + AFTER_TEXT
    return (
        len(data) >= page + PAGE
        and whole[page] == 0x0D  # a row that spills over more pages is not asked for
        and data[page : page + 8 + 2 * cells] == whole[page : page + 8 + 2 * cells]
        and data[start:end] == whole[start:end]
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
