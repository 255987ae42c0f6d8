"""Kill a writer again and again on one home, and check both copies after each kill.

`python -m tests.crash.kill_campaign HOME KILLS SEED` prints what it saw as JSON, or fails.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import json
import random
import sys
from typing import Any, NamedTuple

from holdfast.home import Home
from holdfast.recovery.heal import heal, open_healed
from holdfast.store.sqlite import store as _warm  # noqa: F401 - so that no child has to import it
from tests.crash import children, writer_child
from tests.crash.support import (
    RULES,
    Row,
    Seen,
    check_mirrors,
    check_sound,
    place,
    quick_mirrors,
    read_database,
)
from tests.crash.writer_child import BATCH, STEP, is_change

KILL_S = (0.002, 0.060)  # after the first acknowledgement
EARLY = 0.15  # of the kills strike before it, while the store is being opened

Acked = dict[str, dict[str, int]]  # session -> what -> how far it was acknowledged


class Checked(NamedTuple):
    """What a check saw, and how it knows the log again."""

    found: list[str]  # the codes of what heal found
    marks: dict[str, tuple[int, str]]  # session -> number of records, their digest
    stored: Acked  # how far everything has come; none of it may be lost from now on


def main(path: str, kills: int, seed: int) -> None:
    """The whole campaign."""
    rng = random.Random(seed)
    home = Home(path)
    home.make()
    children.in_child(lambda: asyncio.run(writer_child.set_up(home)))
    acked: Acked = {}
    marks: dict[str, tuple[int, str]] = {}
    seen: collections.Counter[str] = collections.Counter()
    acknowledged = 0
    for number in range(kills):
        said = _one_kill(home, rng)
        acknowledged += len(said)
        for what, session, count, *_ in said:
            acked.setdefault(session, {})[what] = int(count)
        checked = children.in_child(lambda: asyncio.run(_check(home, acked, marks, number % 4 == 3)))  # noqa: B023
        _check_seqs(said, checked)
        marks, acked = checked.marks, checked.stored
        seen.update(checked.found)
        seen["kills"] = number + 1
    seen["acknowledged"], seen["records"] = acknowledged, sum(count for count, _ in marks.values())
    print(json.dumps(seen))


def _one_kill(home: Home, rng: random.Random) -> list[list[str]]:
    """What the child had acknowledged when it was killed."""
    seed, quick = rng.getrandbits(32), rng.random() < 0.6
    child = children.start(lambda say: writer_child.run(home, seed, quick, say))
    if rng.random() < EARLY:
        children.pause(rng.uniform(0.0, 0.03))
    else:
        child.wait_for_word()
        children.pause(rng.uniform(*KILL_S))
    return children.lines(child.kill())


def _check_seqs(said: list[list[str]], checked: Checked) -> None:
    """The seq that a commit was acknowledged with is in the log, and they rise."""
    last: dict[str, int] = {}
    for what, session, _, *seq in said:
        if what == "feed":
            assert last.get(session, 0) < int(seq[0]) <= checked.marks[session][0]
            last[session] = int(seq[0])


async def _check(home: Home, acked: Acked, marks: dict[str, tuple[int, str]], deep: bool) -> Checked:
    """Heal in a fresh process, then look at everything."""
    quick_mirrors()
    store, report = await open_healed(place(home), home, RULES)
    assert not report.problems, report.problems
    again = await heal(store, home, place(home), deep=deep)
    assert not again.findings and not again.done, f"the second heal found {again.findings} after {report}"
    await store.close()
    sessions = read_database(home.database)
    check_sound(sessions)
    check_mirrors(home, sessions)
    new_marks = {}
    stored: Acked = {}
    for name, seen in sessions.items():
        if name in marks:
            count, digest = marks[name]
            assert _digest(seen.log[:count]) == digest, f"records of {name} were rewritten"
        new_marks[name] = (len(seen.log), _digest(seen.log))
        if seen.header["title"] == "for the trash":
            stored[name] = _check_trash(seen, acked.get(name, {}))
        else:
            stored[name] = _check_session(seen, acked.get(name, {}))
    return Checked([f.code for f in report.findings], new_marks, stored)


def _digest(log: list[Row]) -> str:
    kept = [(r["seq"], r["kind"], r["at"], r["task"], r["origin"], r["spool"], r["body"]) for r in log]
    return hashlib.sha256(repr(kept).encode()).hexdigest()


def _check_session(seen: Seen, acked: dict[str, int]) -> dict[str, int]:
    bodies = [(row["kind"], json.loads(row["body"])) for row in seen.log]
    (task,) = seen.tasks.values()
    events = [body["text"] for kind, body in bodies if kind == "assistant"]
    assert events == [f"event {i}" for i in range(1, len(events) + 1)], "an event is missing, twice or astray"
    assert acked.get("feed", 0) <= len(events) <= acked.get("feed", 0) + BATCH
    assert task["spool"] == len(events) * STEP, "the offset is not the one of the last commit"
    claims = [body["generation"] for kind, body in bodies if body.get("op") == "claim"]
    assert claims == list(range(1, len(claims) + 1)) and task["generation"] == len(claims)
    assert acked.get("claim", 0) <= len(claims) <= acked.get("claim", 0) + 1
    changes = [body for kind, body in bodies if is_change(kind, body)]
    assert acked.get("change", 0) <= len(changes) <= acked.get("change", 0) + 1
    metadata: Row = {}
    natives, archived, title = [], False, None
    for number, change in enumerate(changes, 1):
        assert str(number) in json.dumps(change), f"change {number} is {change}"
        op = ("describe", "metadata", "seen", "archive", "metadata", "unarchive")[number % 6]
        assert change["op"] == op, f"change {number} is {change}"
        match number % 6:
            case 1:
                metadata["n"] = number
            case 2:
                natives.append(f"native-{number}")
            case 3 | 5:
                archived = number % 6 == 3
            case 4:
                metadata.setdefault("in", {})[f"k{number}"] = number
            case _:
                title = f"title {number}"
    patches = sum(change["op"] == "metadata" for change in changes)
    assert (seen.header["version"], json.loads(seen.header["metadata"])) == (1 + patches, metadata)
    assert [token["native_id"] for token in seen.tokens] == natives
    statuses = ["superseded"] * (len(natives) - 1) + ["current"] * bool(natives)
    assert [token["status"] for token in seen.tokens] == statuses
    assert (seen.header["state"], seen.header["title"]) == ("archived" if archived else "live", title)
    return {"feed": len(events), "claim": len(claims), "change": len(changes)}


def _check_trash(seen: Seen, acked: dict[str, int]) -> dict[str, int]:
    bodies: list[Any] = [json.loads(row["body"]) for row in seen.log[1:]]
    count = len(bodies)
    assert acked.get("trash", 0) <= count <= acked.get("trash", 0) + 1
    for number, body in enumerate(bodies, 1):
        assert str(number) in json.dumps([body.get(k) for k in ("text", "reason", "by")]), body
        assert body.get("op", "event") == ("restore", "event", "delete")[number % 3], body
    assert seen.header["state"] == ("deleted" if count % 3 == 2 else "live")
    return {"trash": count}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
