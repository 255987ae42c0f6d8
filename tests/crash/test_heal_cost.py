"""What a heal costs when nothing is wrong: one `stat` per session. And what it writes down otherwise."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec
import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery.findings import Report, fingerprint
from holdfast.recovery.heal import heal, look, open_healed
from holdfast.store.location import Location
from tests.crash.heal_support import (
    RULES,
    codes,
    drop_database,
    healed,
    healed_once,
    made,
    opened,
    photo,
    quarantined,
    read,
    say,
    write,
)
from tests.crash.support import scratch


class Watch:
    """Counts what is asked of the files of one folder."""

    def __init__(self, folder: str, monkeypatch: pytest.MonkeyPatch):
        self.stats: dict[str, int] = {}
        self.opened: list[str] = []
        self.listed = 0
        self._folder = folder
        scan, stat, os_open, py_open = os.scandir, os.stat, os.open, builtins.open

        def counted(path: Any, *args: Any, **more: Any) -> os.stat_result:
            self._note_stat(path)
            return stat(path, *args, **more)

        def noted(path: Any, *args: Any, **more: Any) -> int:
            self._note_open(path)
            return os_open(path, *args, **more)

        def noted_too(path: Any, *args: Any, **more: Any) -> Any:
            self._note_open(path)
            return py_open(path, *args, **more)

        def listed(path: Any) -> Scan:
            self.listed += str(path) == folder
            return Scan(scan(path), self)

        monkeypatch.setattr(os, "scandir", listed)
        monkeypatch.setattr(os, "stat", counted)
        monkeypatch.setattr(os, "lstat", counted)
        monkeypatch.setattr(os, "open", noted)
        monkeypatch.setattr(builtins, "open", noted_too)

    def _note_stat(self, path: Any) -> None:
        if isinstance(path, str) and os.path.dirname(path) == self._folder:
            self.stats[path] = self.stats.get(path, 0) + 1

    def _note_open(self, path: Any) -> None:
        if isinstance(path, str) and path.endswith(".jsonl"):
            self.opened.append(path)


class Entry:
    """A folder's entry that tells when it is asked for more than its name."""

    def __init__(self, entry: os.DirEntry[str], watch: Watch):
        self.name, self.path = entry.name, entry.path
        self._entry, self._watch = entry, watch

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self._watch._note_stat(self.path)
        return self._entry.stat(follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._entry.is_file(follow_symlinks=follow_symlinks)


class Scan:
    """`os.scandir` with such entries."""

    def __init__(self, scan: Any, watch: Watch):
        self._scan, self._watch = scan, watch

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scan.close()

    def __iter__(self) -> Iterator[Entry]:
        return (Entry(entry, self._watch) for entry in self._scan)


async def test_one_stat_per_session_and_no_mirror_opened(
    location: Location, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing is wrong, on both stores."""
    world, _ = await made(location, home)
    async with opened(location, home) as store:
        with monkeypatch.context() as patch:
            watch = Watch(home.sessions, patch)
            report = await heal(store, home, location)
    assert (report.findings, report.done, report.compared) == ([], [], 0)
    assert {name: n for name, n in watch.stats.items() if name.endswith(".jsonl")} == {
        home.mirror(session): 1 for session in world.present
    }
    assert (watch.opened, watch.listed) == ([], 1)


async def test_the_watch_sees_what_it_should(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter of the test above does count: a deep heal opens every mirror."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    async with opened(location, home) as store:
        with monkeypatch.context() as patch:
            watch = Watch(home.sessions, patch)
            await heal(store, home, location, deep=True)
    assert set(watch.opened) == {*map(home.mirror, world.present), home.trashed(world.deleted)}


async def test_two_thousand_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One `stat` each; and of one that is wrong only that one is read."""
    with scratch() as folder:
        home = Home(os.path.join(folder, "home"))
        location = Location("sqlite", home.database)
        async with opened(location, home) as store:
            sessions = await asyncio.gather(*(store.create_session("claude") for _ in range(2000)))
        async with opened(location, home) as store:
            with monkeypatch.context() as patch:
                watch = Watch(home.sessions, patch)
                report = await heal(store, home, location)
            assert (report.sessions, report.compared, report.findings) == (2000, 0, [])
            assert sorted(watch.stats.values()) == [1] * 2000
            assert watch.opened == []

            bad = home.mirror(sessions[777].id)
            write(bad, b"torn")
            with monkeypatch.context() as patch:
                watch = Watch(home.sessions, patch)
                looked = await look(store, home, location)
            assert looked.compared == 1 and set(watch.opened) == {bad}


async def test_three_hundred_sessions_rebuilt_from_their_mirrors() -> None:
    """The order of events in each, the lists, the queue and a usable feed."""
    with scratch() as folder:
        home = Home(os.path.join(folder, "home"))
        location = Location("sqlite", home.database)
        async with opened(location, home) as store:
            made = await asyncio.gather(*(store.create_session("claude", key=f"k{i}") for i in range(300)))
            for turn in range(3):
                events = [say(f"{turn}.{j}", f"{turn}.{j}") for j in range(5)]
                await asyncio.gather(*(store.commit(Commit(s.id, events)) for s in made))
            for session in made[::7]:
                await store.enqueue(session.id, "queued in this order")
            before = await photo(store)
        drop_database(home)

        store, report = await open_healed(location, home, RULES)
        try:
            assert (report.problems, len(report.done), report.sessions) == ([], 301, 300)
            assert await photo(store) == before
            place: dict[str, int] = {}
            changes = await store.changes()
            found = list(changes.changes)
            while changes.more:
                changes = await store.changes(changes.cursor)
                found += changes.changes
            for change in found:
                assert change.event.seq == place.get(change.session, 0) + 1
                place[change.session] = change.event.seq
            assert set(place.values()) == {16, 17} and len(place) == 300
            follow = store.follow(changes.cursor)
            await store.commit(Commit(made[0].id, [say("on")]))
            assert [c.event.body for c in (await anext(follow)).changes] == [{"text": "on"}]
            await follow.aclose()  # type: ignore[attr-defined]
        finally:
            await store.close()
        assert (await healed(location, home))[0].done == []


async def test_a_session_longer_than_one_transaction(home: Home) -> None:
    """Rebuilt in several: all of it, and with a key that was another's on the way."""
    location = Location("sqlite", home.database)
    async with opened(location, home) as store:
        long = (await store.create_session("claude", key="k")).id
        for turn in range(5):
            await store.commit(Commit(long, [say(f"{turn}.{i}", f"{turn}.{i}") for i in range(1000)]))
        await store.archive(long, "me", "handed off")
        await store.create_session("claude", key="k")
        before = await photo(store)
    drop_database(home)
    report, after = await healed_once(location, home)
    assert (report.problems, after) == ([], before)


async def test_what_was_done_is_written_down(location: Location, home: Home) -> None:
    """In reports/, the same as was returned, and nothing where nothing was done."""
    world, _ = await made(location, home)
    await healed(location, home)
    assert os.listdir(home.reports) == []
    write(home.mirror(world.plain), b"torn")
    os.unlink(home.mirror(world.rich))
    write(os.path.join(home.sessions, "_index.json"), b"[]")

    report, _ = await healed_once(location, home)

    (name,) = os.listdir(home.reports)
    assert name.startswith("heal-") and name.endswith(".json")
    assert msgspec.json.decode(read(os.path.join(home.reports, name)), type=Report) == report
    told = json.loads(read(os.path.join(home.reports, name)))
    assert {f["code"] for f in told["findings"]} == {"mirror_torn", "mirror_missing", "foreign_file"}
    assert {d["result"] for d in told["done"]} == {"recreated from the database"}
    assert [d["kept"] for d in told["done"] if d["code"] == "mirror_torn"] == [
        [os.path.join(home.quarantine, name) for name in quarantined(home)]
    ]


async def test_a_report_that_cannot_be_written_stops_nothing(home: Home) -> None:
    """The home is healed; that the note is missing is said."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    write(home.mirror(world.plain), b"torn")
    os.rmdir(home.reports)
    os.symlink("/proc/self/nothing-can-be-made-here", home.reports)
    home.make = lambda: None  # type: ignore[method-assign]
    report, after = await healed(location, home)
    assert (codes(report), after) == (["mirror_torn"], before)
    assert len(report.done) == 1 and "report could not be written" in report.problems[0]


async def test_looking_changes_nothing_and_names_the_state(location: Location, home: Home) -> None:
    """`look` writes no byte; its fingerprint is the same until something changes."""
    world, _ = await made(location, home)
    write(home.mirror(world.plain), b"torn")
    async with opened(location, home) as store:
        before = {path: os.stat(path).st_mtime_ns for path in _all_files(home)}
        first = fingerprint((await look(store, home, location, deep=True)).findings)
        again = fingerprint((await look(store, home, location, deep=True)).findings)
        assert {path: os.stat(path).st_mtime_ns for path in _all_files(home)} == before
        write(home.mirror(world.plain), b"torn otherwise")
        other = fingerprint((await look(store, home, location, deep=True)).findings)
    assert first == again != other


def _all_files(home: Home) -> list[str]:
    found = []
    for folder, _, names in os.walk(home.path):
        found += [os.path.join(folder, name) for name in names if not name.startswith(("state.db-", ".lock"))]
    return found
