"""Somebody is at work while a home is healed: the live file wins, and nothing is overwritten."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time

import pytest

from holdfast import durable_io
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery import database
from holdfast.recovery.findings import Finding
from holdfast.recovery.heal import heal, look, open_healed, repair_all
from holdfast.recovery.mirror_repair import RECREATED, UNTOUCHED
from holdfast.store.location import Location
from holdfast.store.store import Store
from tests.conftest import Opener
from tests.crash.heal_support import (
    RULES,
    codes,
    drop_database,
    healed_once,
    made,
    mirrors,
    photo,
    quarantined,
    read,
    say,
    write,
)


async def _append(store: Store, session: str) -> None:
    await store.commit(Commit(session, [say("meanwhile")]))
    await store.with_mirrors(lambda files: None)


async def test_a_missing_mirror_appears(location: Location, home: Home, opener: Opener) -> None:
    """A second writer makes it between the look and the repair: that file stays, the very same one."""
    world, _ = await made(location, home)
    os.unlink(home.mirror(world.plain))
    healer, writer = await opener(), await opener()
    found = (await look(healer, home, location)).findings
    assert [f.code for f in found] == ["mirror_missing"]
    await _append(writer, world.plain)
    live = os.stat(home.mirror(world.plain))

    done, problems = await repair_all(healer, home, found)

    assert ([d.result for d in done], problems) == ([RECREATED], [])
    assert os.stat(home.mirror(world.plain)).st_ino == live.st_ino
    assert read(home.mirror(world.plain)).count(b"meanwhile") == 1
    assert (await look(healer, home, location)).findings == []


async def test_a_short_mirror_goes_on(location: Location, home: Home, opener: Opener) -> None:
    """It was cut; a second writer levels it before the repair, which then leaves it alone."""
    world, _ = await made(location, home)
    path = home.mirror(world.plain)
    write(path, b"".join(read(path).splitlines(keepends=True)[:4]))
    healer, writer = await opener(), await opener()
    found = (await look(healer, home, location)).findings
    assert [f.code for f in found] == ["mirror_short"]
    await _append(writer, world.plain)
    live, inode = read(path), os.stat(path).st_ino

    done, _ = await repair_all(healer, home, found)

    assert [(d.result, d.kept) for d in done] == [(UNTOUCHED, [])]
    assert (read(path), os.stat(path).st_ino, quarantined(home)) == (live, inode, {})
    assert (await look(healer, home, location)).findings == []


async def test_a_torn_mirror_while_its_session_grows(location: Location, home: Home, opener: Opener) -> None:
    """The writer cannot add to a torn file; the repair brings what it wrote meanwhile."""
    world, _ = await made(location, home)
    path = home.mirror(world.plain)
    torn = read(path)[:-5]
    write(path, torn)
    healer, writer = await opener(), await opener()
    found = (await look(healer, home, location)).findings
    await _append(writer, world.plain)
    assert read(path) == torn

    await repair_all(healer, home, found)
    await _append(writer, world.plain)

    assert list(quarantined(home).values()) == [torn]
    assert read(path).count(b"meanwhile") == 2
    assert (await look(healer, home, location)).findings == []


async def test_a_file_that_changed_by_other_hands(home: Home) -> None:
    """Replaced, grown or gone between look and repair: it is not what was judged, so it is left alone."""
    location = Location("sqlite", home.database)
    for change in ("replaced", "grown", "gone"):
        world, _ = await made(location, home)
        path = home.mirror(world.plain)
        write(path, b"bad")
        store, _ = await open_healed(location, Home(home.path + "-else"), RULES)
        found = (await look(store, home, location)).findings
        if change == "replaced":
            os.unlink(path)
            write(path, b"new")
        elif change == "grown":
            write(path, b"bad and more")
        else:
            os.unlink(path)
        now = read(path) if os.path.exists(path) else None
        done, _ = await repair_all(store, home, found)
        await store.close()
        assert [d.result for d in done] == [UNTOUCHED], change
        assert (read(path) if os.path.exists(path) else None) == now
        assert quarantined(home) == {}


async def test_records_written_between_look_and_repair_do_not_look_like_a_conflict(
    location: Location, home: Home, opener: Opener
) -> None:
    """The mirror is ahead of the healer's view of the database only because time went on."""
    world, _ = await made(location, home)
    healer, writer = await opener(), await opener()

    async def write_on() -> None:
        for i in range(15):
            await writer.commit(Commit(world.plain, [say(f"live {i}")]))
            await writer.with_mirrors(lambda files: None)

    going = asyncio.create_task(write_on())
    while not going.done():
        report = await heal(healer, home, location)
        assert set(codes(report)) <= {"mirror_behind", "database_behind"}
        assert (report.problems, quarantined(home)) == ([], {})
        await asyncio.sleep(0.01)
    await going
    lines = await healer.event_lines(world.plain, limit=500)
    assert [line.count("live ") for line in lines][-15:] == [1] * 15
    assert read(home.mirror(world.plain)).count(b'"live ') == 15


async def test_a_file_that_vanishes_while_the_folder_is_read(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its name and its `stat`: another process's temporary file, or a delete."""
    from holdfast.recovery import scan

    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    entries = scan._entries

    def then_gone(folder: str) -> list[os.DirEntry[str]]:
        write(os.path.join(folder, ".x.tmp-1-2-3"), b"")
        found = entries(folder)
        os.unlink(os.path.join(folder, ".x.tmp-1-2-3"))
        return found

    monkeypatch.setattr(scan, "_entries", then_gone)
    report, after = await healed_once(location, home)
    assert (report.findings, after) == ([], before)


async def test_a_database_that_appears_is_not_put_aside(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process began the rebuild after we saw that the database was gone."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    whole = {name: read(home.database + name) for name in ("", "-wal")}
    drop_database(home)
    examine = database.examine

    def then_there(path: str, home: Home, deep: bool) -> Finding | None:
        found = examine(path, home, deep)
        for name, data in whole.items():
            write(home.database + name, data)
        monkeypatch.setattr(database, "examine", examine)
        return found

    monkeypatch.setattr(database, "examine", then_there)
    report, after = await healed_once(location, home)
    assert (report.done, after, quarantined(home)) == ([], before, {})


async def test_two_heal_at_once(location: Location, home: Home) -> None:
    """Everything to do, by two openers at the same time: done once, and all as before."""
    world, before = await made(location, home)
    good = mirrors(home)
    os.unlink(home.mirror(world.rich))
    write(home.mirror(world.plain), b"torn")
    write(home.mirror(world.archived), b"")
    both = await asyncio.gather(*(open_healed(location, home, RULES) for _ in range(2)))
    assert [await photo(store) for store, _ in both] == [before, before]
    for store, _ in both:
        await store.close()
    report, after = await healed_once(location, home)
    assert (report.done, after, mirrors(home)) == ([], before, good)
    assert sorted(quarantined(home).values()) == [b"", b"torn"]


def test_temporary_names_are_unique_per_process_and_thread() -> None:
    """However many ask at the same moment."""
    names: list[str] = []
    threads = [threading.Thread(target=lambda: names.extend(_names())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for found in pool.map(_names, [None, None]):
            names += found
    assert len(set(names)) == len(names) == 10 * 500
    assert all(durable_io.is_temp(os.path.basename(name)) for name in names)
    assert all(os.path.dirname(name) == "/home/sessions" for name in names)
    assert len({os.path.basename(name).split("-")[1] for name in names}) >= 2  # the process's id


def _names(_: object = None) -> list[str]:
    return [durable_io.temp_name("/home/sessions/s.jsonl") for _ in range(500)]


def test_of_many_that_create_a_file_one_wins(tmp_path: object) -> None:
    """The others are told; the content is one writer's, whole."""
    path = os.path.join(str(tmp_path), "file")
    won: list[int] = []

    def create(number: int) -> None:
        try:
            durable_io.create(path, [str(number).encode() * 5000] * 20)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert read(path) == str(won[0]).encode() * 100_000
    assert os.listdir(str(tmp_path)) == ["file"]


async def test_temporary_files_are_swept_when_old(home: Home) -> None:
    """In every folder that has such; young ones belong to somebody."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    old: list[str] = []
    young: list[str] = []
    for folder in (home.sessions, home.trash, home.quarantine, home.reports):
        for files, age in ((old, durable_io.TEMP_OLD_S + 60), (young, durable_io.TEMP_OLD_S - 600)):
            files.append(durable_io.temp_name(os.path.join(folder, "x.jsonl")))
            write(files[-1], b"left behind")
            os.utime(files[-1], (time.time() - age,) * 2)

    report, after = await healed_once(location, home)

    assert (codes(report), after) == (["temp_litter"] * 4, before)
    assert sorted(f.subject for f in report.findings) == sorted(os.path.basename(name) for name in old)
    assert [os.path.exists(name) for name in old] == [False] * 4
    assert [os.path.exists(name) for name in young] == [True] * 4
