"""Tables that are not what their log says: seen by a deep heal, made anew from the log."""

from __future__ import annotations

import json
import os
from typing import Any

import apsw
import pytest

from holdfast.home import Home
from holdfast.store.location import Location
from tests.crash.heal_support import codes, healed, healed_once, made, mirrors, quarantined, read
from tests.support.postgres_server import connect

TAMPERED = {
    "a token renamed": "update token set native_id = 'other' where n = 1 and pos = 1",
    "a token's status": "update token set status = 'revoked', reason = 'x' where n = 1 and pos = 1",
    "a token's protocol": "update token set protocol = null where n = 1",
    "a token gone": "delete from token where n = 1 and pos = 0",
    "all tokens gone": "delete from token",
    "a token too many": (
        "insert into token (n, pos, agent, native_id, seen_in, at, status) "
        "values (1, 9, 'cursor', 'z', 'import', '2026-01-01T00:00:00.000000Z', 'superseded')"
    ),
    "a task's status": "update task set status = 'running' where n = 1 and status = 'succeeded'",
    "a task's prompt": "update task set prompt = '\"rm -rf\"', options = '{}' where n = 1",
    "a task's generation": "update task set generation = 7 where n = 1 and status = 'running'",
    "a task's owner is no JSON": "update task set owner = '{' where n = 1 and status = 'running'",
    "a task gone": "delete from task where n = 1 and status = 'failed'",
    "a task in another session": "update task set n = 3 where n = 1 and status = 'failed'",
    "a task too many": (
        "insert into task (id, n, place, prompt, status, queued_at, delivery, options, generation, spool) "
        "values ('t000000000000000', 1, 99, '\"x\"', 'queued', '2026-01-01T00:00:00.000000Z', "
        "'waiting', '{}', 0, 0)"
    ),
    "a title": "update session set title = 'other', search = 'other' where n = 1",
    "a key": "update session set key = null where n = 1",
    "a state": "update session set state = 'archived' where n = 1",
    "a version": "update session set version = 99 where n = 1",
    "the counts": "update session set messages = 0, tasks = 0 where n = 1",
    "the head": "update session set seq = 2 where n = 1",
    "the times": "update session set created_at = '2026-01-01T00:00:00.000000Z' where n = 1",
    "the worktree is gone": "update session set worktree = null where n = 1",
    "the worktree is no JSON": "update session set worktree = '{' where n = 1",
    "the link is something else": "update session set link = '[]' where n = 1",
    "the archive note": "update session set archive = null where state = 'archived'",
    "metadata, still JSON": "update session set metadata = {json} where n = 1",
}


def tamper(location: Location, statement: str, stored: bytes = b'{"a":0}') -> None:
    """Change the tables behind the store's back."""
    if location.kind == "sqlite":
        db: Any = apsw.Connection(location.address)
        db.execute(statement.replace("{json}", f"x'{stored.hex()}'"))
        assert db.changes() > 0, "nothing was spoiled"
    else:
        db = connect(location.address)
        done = db.execute(statement.replace("{json}", f"'\\x{stored.hex()}'::bytea"))
        assert done.rowcount > 0, "nothing was spoiled"
    db.close()


@pytest.mark.parametrize("what", TAMPERED)
async def test_a_view_is_made_anew_from_its_log(what: str, home: Home) -> None:
    """Whatever was changed by hand in header, tokens or tasks; the mirrors are not touched."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    good = mirrors(home)
    tamper(location, TAMPERED[what])

    report, after = await healed_once(location, home, deep=True)

    assert set(codes(report)) == {"view_drift"}
    assert (after, mirrors(home), quarantined(home)) == (before, good, {})


async def test_the_same_on_postgresql(postgres_url: str, home: Home) -> None:
    """All of it at once."""
    location = Location("postgres", postgres_url)
    _, before = await made(location, home)
    for what, statement in TAMPERED.items():
        if what != "a task in another session":  # it is gone by then
            tamper(location, statement)
    report, after = await healed_once(location, home, deep=True)
    assert set(codes(report)) == {"view_drift"}
    assert after == before


async def test_a_quick_heal_does_not_look_at_views(home: Home) -> None:
    """That would cost more than one `stat`; nor does it claim to have looked."""
    location = Location("sqlite", home.database)
    await made(location, home)
    tamper(location, TAMPERED["a token renamed"])
    report, _ = await healed(location, home)
    assert (report.compared, report.findings) == (0, [])


UNREADABLE = {
    "torn": b'{"a": 1, "b',
    "null": b"null",
    "a list": b"[1, 2]",
    "a string": b'"text"',
    "empty": b"",
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "NULs": b"\0\0\0\0",
    "nested without end": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_unreadable_metadata_is_rebuilt_and_kept(what: str, home: Home) -> None:
    """From the log, with its version; the old bytes are kept, byte for byte, with a note."""
    await _unreadable(Location("sqlite", home.database), home, UNREADABLE[what])


async def test_unreadable_metadata_on_postgresql(postgres_url: str, home: Home) -> None:
    """The same there."""
    await _unreadable(Location("postgres", postgres_url), home, UNREADABLE["no UTF-8"])


async def _unreadable(location: Location, home: Home, stored: bytes) -> None:
    world, before = await made(location, home)
    tamper(location, TAMPERED["metadata, still JSON"], stored)

    quick, shown = await healed(location, home)
    assert quick.findings == []
    header = shown[f"header {world.rich}"]
    assert header.metadata is None and header.metadata_problem

    report, after = await healed_once(location, home, deep=True)

    assert (codes(report), after) == (["metadata_unreadable"], before)
    assert list(quarantined(home).values()) == [stored]
    (kept,) = report.done[0].kept
    assert json.loads(read(kept + ".note.json"))["why"] == report.findings[0].text


async def test_a_change_that_cannot_be_decoded_becomes_a_notice(home: Home) -> None:
    """Its row is JSON but not a change that exists; the other sessions are still checked."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    tamper(location, 'update log set body = \'{"op":"?"}\' where n = 1 and seq = 2')
    tamper(location, "update session set title = 'other' where n = 2")
    os.unlink(home.mirror(world.rich))  # else it would be a conflict with the mirror as well
    report, after = await healed_once(location, home, deep=True)
    assert codes(report) == ["mirror_missing", "record_damaged", "view_drift"]
    assert after[world.archived] == before[world.archived]
