"""Things among the mirrors that are none: named in the report, left alone, never in the way of the rest."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.scan import printable
from holdfast.store.location import Location
from tests.crash.heal_support import (
    codes,
    drop_database,
    healed,
    healed_once,
    made,
    mirrors,
    opened,
    quarantined,
    read,
    say,
    write,
)
from tests.crash.support import scratch

STRANGER = "szzzzzzzzzzzzzzz"  # a name that a session could have


def _outside(home: Home) -> str:
    path = os.path.join(os.path.dirname(home.path), "outside.jsonl")
    if not os.path.exists(path):
        write(path, b"somebody else's\n")
    return path


FOREIGN: dict[str, tuple[str, Callable[[Home, str], None]]] = {
    "_index.json": ("_index.json", lambda home, at: write(at, b'{"sessions": []}')),
    "a JSON list": ("list.jsonl", lambda home, at: write(at, b"[1, 2]\n")),
    "a directory": ("x.jsonl", lambda home, at: os.mkdir(at)),
    "a directory named like a session": (STRANGER + ".jsonl", lambda home, at: os.mkdir(at)),
    "a dangling link": (STRANGER + ".jsonl", lambda home, at: os.symlink("/nowhere/at/all", at)),
    "a link to itself": (STRANGER + ".jsonl", lambda home, at: os.symlink(at, at)),
    "a link to a file outside": (STRANGER + ".jsonl", lambda home, at: os.symlink(_outside(home), at)),
    "a fifo": (STRANGER + ".jsonl", lambda home, at: os.mkfifo(at)),
    "nothing but an ending": (".jsonl", lambda home, at: write(at, b"")),
    "a hidden file": (".DS_Store", lambda home, at: write(at, b"\0\0")),
    "a session's name without an ending": (STRANGER, lambda home, at: write(at, b"{}")),
    "an id of another kind": ("tzzzzzzzzzzzzzzz.jsonl", lambda home, at: write(at, b"{}")),
    "an id in capitals": (STRANGER.upper() + ".jsonl", lambda home, at: write(at, b"{}")),
    "a name that is no UTF-8": ("\udcff\udcfe.jsonl", lambda home, at: write(at, b"{}")),
    "a name with a temporary file's mark": ("notes.tmp-1.jsonl", lambda home, at: _old(at)),
    "a directory like a temporary file": (".x.tmp-1", lambda home, at: os.mkdir(at)),
}


def _old(path: str) -> None:
    write(path, b"keep me")
    os.utime(path, (1, 1))


@pytest.mark.parametrize("folder", ["sessions", "trash"])
@pytest.mark.parametrize("what", FOREIGN)
async def test_it_is_named_and_left_alone(what: str, folder: str, home: Home) -> None:
    """In the report as text, also while the database is rebuilt beside it, with every session as before."""
    name, put = FOREIGN[what]
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    path = os.path.join(home.path, folder, name)
    put(home, path)
    was = os.lstat(path)

    for gone in (False, True):
        if gone:
            drop_database(home)
        report, after = await healed_once(location, home)
        assert after == before
        (found,) = [f for f in report.findings if f.code == "foreign_file"]
        assert (found.subject, found.action) == (printable(name), None)
        assert "left alone" in found.text

    now = os.lstat(path)
    assert (now.st_ino, now.st_mode, now.st_mtime_ns) == (was.st_ino, was.st_mode, was.st_mtime_ns)
    assert quarantined(home) == {}


@pytest.mark.parametrize("what", ["a directory", "a fifo", "a dangling link", "a link to a copy of it"])
async def test_something_else_in_the_place_of_a_mirror(what: str, home: Home) -> None:
    """The session works on; nothing is written through the link, the fifo hangs nobody, all else is level."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    path, copy = home.mirror(world.plain), os.path.join(os.path.dirname(home.path), "copy.jsonl")
    os.rename(path, copy)
    if what == "a directory":
        os.mkdir(path)
    elif what == "a fifo":
        os.mkfifo(path)
    else:
        os.symlink(copy if "copy" in what else "/nowhere/at/all", path)
    outside = read(copy)
    was = os.lstat(path)

    report, after = await healed_once(location, home)
    assert after == before
    assert codes(report) == ["foreign_file"]
    async with opened(location, home) as store:
        await store.commit(Commit(world.plain, [say("more")]))
        await store.commit(Commit(world.rich, [say("more")]))
        await store.with_mirrors(lambda files: None)
    assert b"more" in mirrors_of(home, world.rich)
    assert (os.lstat(path).st_ino, os.lstat(path).st_mode) == (was.st_ino, was.st_mode)
    assert read(copy) == outside
    report, _ = await healed_once(location, home)
    assert (codes(report), quarantined(home)) == (["foreign_file"], {})

    (os.rmdir if what == "a directory" else os.unlink)(path)  # a person has seen to it
    report, _ = await healed_once(location, home)
    assert codes(report) == ["mirror_missing"]
    assert read(path).startswith(outside) and b"more" in read(path)


def mirrors_of(home: Home, session: str) -> bytes:
    return read(home.mirror(session))


UNPRIVILEGED = """
import asyncio, json, os, sys
from holdfast.home import Home
from holdfast.store.location import Location
from tests.crash.heal_support import healed
def heal(path):
    home = Home(path)
    return asyncio.run(healed(Location("sqlite", home.database), home))
heal(sys.argv[1] + "-first")  # so that all modules are loaded that nobody may not read
os.setgid(65534); os.setuid(65534)
report, after = heal(sys.argv[1])
print(json.dumps({
    "found": sorted([f.code, f.subject] for f in report.findings),
    "problems": report.problems,
    "sessions": after["listed all"],
}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("database", ["there", "gone"])
async def test_a_mirror_without_read_permission(database: str) -> None:
    """Named and left alone; every other session is healed, by a user who cannot read that file."""
    with scratch() as folder:
        os.chmod(folder, 0o755)
        home = Home(os.path.join(folder, "home"))
        home.make()
        world, before = await made(Location("sqlite", home.database), home)
        write(home.mirror(world.rich), b"")  # something to do
        if database == "gone":
            drop_database(home)
        for where, _, names in os.walk(home.path):
            for path in (where, *(os.path.join(where, name) for name in names)):
                os.chown(path, 65534, 65534)
        os.chmod(home.mirror(world.plain), 0)
        os.utime(home.mirror(world.plain), (1, 1))  # else it would not be looked into at all
        done = _as_nobody(home)

    rest = {"there": "mirror_empty", "gone": "mirror_unreadable"}[database]
    assert ["unreadable_file", world.plain + ".jsonl"] in done["found"]
    assert [rest, world.rich] in done["found"]
    assert done["problems"] == []
    missing = {world.plain, world.rich} if database == "gone" else set()
    assert done["sessions"] == [s for s in before["listed all"] if s not in missing]


def _as_nobody(home: Home) -> dict[str, list[object]]:
    found = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, home.path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert found.returncode == 0, found.stderr
    answer: dict[str, list[object]] = json.loads(found.stdout)
    return answer


async def test_a_mirror_without_a_readable_beginning(home: Home) -> None:
    """Whose session is nowhere else: it cannot be guessed, so it is named and kept where it is."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    for number, data in enumerate([b"", b"\n", b"garbage", b"[1]\n", b'{"seq":1}\n', b"\0" * 5000]):
        write(os.path.join(home.sessions, f"s{number:015}.jsonl"), data)
    good = mirrors(home)
    report, after = await healed_once(location, home)
    assert codes(report) == ["mirror_unreadable"] * 6
    assert (after, mirrors(home), quarantined(home)) == (before, good, {})


async def test_one_bad_repair_never_stops_the_rest(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with one session, the others are healed, and the report says so."""
    from holdfast.recovery import mirror_repair, repair

    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    for session in world.present:
        os.unlink(home.mirror(session))

    async def fail(store: object, home: object, finding: object, terms: object) -> mirror_repair.RepairResult:
        if getattr(finding, "subject", "") == world.rich:
            raise ZeroDivisionError("unforeseen")
        return await repair.recreate_mirror(store, home, finding, terms)  # type: ignore[arg-type]

    monkeypatch.setitem(repair.REPAIRS, "mirror_missing", fail)
    report, after = await healed(location, home)
    assert after == before
    assert report.problems == [f"mirror_missing {world.rich}: unforeseen"]
    assert len(report.done) == len(world.present) - 1
    assert set(mirrors(home)) == {session + ".jsonl" for session in world.present if session != world.rich}


@pytest.fixture(autouse=True)
def _never_hang() -> Iterator[None]:
    """A fifo that is opened by mistake would be waited for without end: end the process instead."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
