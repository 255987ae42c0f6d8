"""A mirror that is not as it was written: made anew from the database, the old bytes kept in quarantine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from holdfast.home import Home
from holdfast.store.location import Location
from tests.crash.heal_support import (
    Photo,
    World,
    codes,
    healed,
    healed_once,
    made,
    mirrors,
    opened,
    quarantined,
    read,
    seal_as,
    write,
)

Spoiler = Callable[[bytes], bytes]


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Spoiler:
    return lambda data: b"".join(change(data.splitlines(keepends=True)))


def _inside_a_character(data: bytes) -> bytes:
    return data[: data.rindex("😀".encode()) + 2]


def _edited(data: bytes) -> bytes:
    return data.replace(b"the end", b"the END")


# What `plain` has: its creation (1), three events (2-4), one event (5), a queued task (6).
SPOILED: dict[str, tuple[str, Spoiler]] = {
    "empty": ("mirror_empty", lambda data: b""),
    "cut at the end of a commit": ("mirror_short", _lines(lambda lines: lines[:4])),
    "cut inside a commit, at the end of a line": ("mirror_torn", _lines(lambda lines: lines[:3])),
    "last line torn": ("mirror_torn", lambda data: data[:-30]),
    "last newline gone": ("mirror_torn", lambda data: data[:-1]),
    "torn inside a multi-byte character": ("mirror_torn", _inside_a_character),
    "torn in the middle": (
        "mirror_torn",
        _lines(lambda lines: [*lines[:2], lines[2][:40] + b"\n", *lines[3:]]),
    ),
    "a line that ends at a line separator": (
        "mirror_torn",
        _lines(
            lambda lines: [lines[0], lines[1].replace(b"assistant", b"assi\xe2\x80\xa8\nstant"), *lines[2:]]
        ),
    ),
    "the middle cut out": ("mirror_damaged", _lines(lambda lines: [*lines[:1], *lines[4:]])),
    "a NUL block, as a power cut leaves": ("mirror_torn", lambda data: data[:200] + bytes(4096)),
    "lines swapped": ("mirror_damaged", _lines(lambda lines: [*lines[:4], lines[5], lines[4]])),
    "lines swapped inside a commit": ("mirror_damaged", _lines(lambda ls: [ls[0], ls[2], ls[1], *ls[3:]])),
    "a line doubled": ("mirror_damaged", _lines(lambda lines: [*lines, lines[-1]])),
    "a commit doubled": ("mirror_damaged", _lines(lambda lines: [*lines[:4], *lines[1:]])),
    "all of it doubled": ("mirror_damaged", lambda data: data + data),
    "two lines glued": ("mirror_torn", _lines(lambda ls: [*ls[:2], ls[2][:-1], *ls[3:]])),
    "a checksum altered": ("mirror_damaged", lambda data: data[:-4] + bytes([data[-4] ^ 1]) + data[-3:]),
    "garbage behind": ("mirror_torn", lambda data: data + b"\xff\xfe garbage"),
    "a blank line behind": ("mirror_torn", lambda data: data + b"\n"),
    "no JSON at all": ("mirror_torn", lambda data: b"\x00\xffhello\n" * 50),
    "a JSON list": ("mirror_damaged", lambda data: b"[1, 2, 3]\n"),
    "an edited line, still JSON": ("conflict", _edited),
    "other line ends": ("mirror_damaged", lambda data: data.replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("how", SPOILED)
async def test_a_spoiled_mirror_is_made_anew_byte_for_byte(how: str, home: Home) -> None:
    """The database wins, and the old bytes are in quarantine with a note; nothing else changes."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    await _spoil_and_heal(how, location, home, world, before)


async def test_the_same_on_postgresql(postgres_url: str, home: Home) -> None:
    """One after the other; every third is enough, since the comparing is the same code."""
    location = Location("postgres", postgres_url)
    world, before = await made(location, home)
    for how in list(SPOILED)[::3]:
        await _spoil_and_heal(how, location, home, world, before)


async def _spoil_and_heal(how: str, location: Location, home: Home, world: World, before: Photo) -> None:
    code, spoil = SPOILED[how]
    good, path, kept_before = mirrors(home), home.mirror(world.plain), set(quarantined(home))
    bad = spoil(read(path))
    assert bad != read(path)
    write(path, bad)

    report, after = await healed_once(location, home)

    assert codes(report) == [code], how
    assert after == before
    assert mirrors(home) == good
    (kept,) = set(quarantined(home)) - kept_before
    assert quarantined(home)[kept] == bad
    assert report.done[0].kept == [os.path.join(home.quarantine, kept)]
    note = json.loads(read(os.path.join(home.quarantine, kept) + ".note.json"))
    assert note["from"] == path and note["why"] == report.findings[0].text and note["at"]


async def test_a_missing_mirror_is_made_anew(location: Location, home: Home) -> None:
    """Every mirror gone: all come back byte for byte, without anything in quarantine."""
    _, before = await made(location, home)
    good = mirrors(home)
    for name in good:
        os.unlink(os.path.join(home.sessions, name))

    report, after = await healed_once(location, home)

    assert codes(report) == ["mirror_missing"] * len(good)
    assert (after, mirrors(home), quarantined(home)) == (before, good, {})


async def test_the_whole_folder_of_mirrors_is_gone(location: Location, home: Home) -> None:
    """`rm -r sessions` loses nothing."""
    _, before = await made(location, home)
    good = mirrors(home)
    for name in os.listdir(home.sessions):
        os.unlink(os.path.join(home.sessions, name))
    os.rmdir(home.sessions)

    _, after = await healed_once(location, home)

    assert (after, mirrors(home)) == (before, good)


async def test_a_mirror_with_the_records_of_another_session(location: Location, home: Home) -> None:
    """A file copied over the wrong name is recognised as such, and kept."""
    world, before = await made(location, home)
    good = mirrors(home)
    write(home.mirror(world.plain), good[world.rich + ".jsonl"])

    report, after = await healed_once(location, home)

    assert codes(report) == ["mirror_wrong_session"]
    assert (after, mirrors(home)) == (before, good)
    assert list(quarantined(home).values()) == [good[world.rich + ".jsonl"]]


async def test_a_mirror_that_only_lags_after_a_crash_is_levelled(location: Location, home: Home) -> None:
    """Nobody cut it: the database never saw it longer. It goes on where it ended; nothing to keep."""
    world, before = await made(location, home)
    good, path = mirrors(home), home.mirror(world.plain)
    write(path, b"".join(read(path).splitlines(keepends=True)[:4]))
    behind = os.stat(path)
    async with opened(location, home) as store:
        await seal_as(store, world.plain, f"4/{behind.st_size}/{behind.st_mtime_ns}")

    report, after = await healed_once(location, home)

    assert codes(report) == ["mirror_behind"]
    assert (after, mirrors(home), quarantined(home)) == (before, good, {})
    assert os.stat(path).st_ino == behind.st_ino


@pytest.mark.parametrize("seal", [None, "", "x", "1/2", "-/-/-", "1/²/3", "99999999999999999999999/0/0"])
async def test_a_seal_that_says_nothing(seal: str | None, home: Home) -> None:
    """Without a readable seal the mirror is read and, being level, sealed again; no repair."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    async with opened(location, home) as store:
        await seal_as(store, world.plain, seal)
    report, after = await healed(location, home)
    assert (report.compared, report.findings, report.done, after) == (1, [], [], before)
    assert (await healed(location, home))[0].compared == 0


async def test_every_session_spoiled_in_another_way(location: Location, home: Home) -> None:
    """One bad mirror never stops the next."""
    world, before = await made(location, home)
    good = mirrors(home)
    ways = ("empty", "last line torn", "no JSON at all", "all of it doubled", "other line ends")
    for session, how in zip(world.present, ways, strict=True):
        write(home.mirror(session), SPOILED[how][1](good[session + ".jsonl"]))

    report, after = await healed_once(location, home)

    assert sorted(codes(report)) == sorted(SPOILED[how][0] for how in ways)
    assert (after, mirrors(home), len(quarantined(home))) == (before, good, 5)


@pytest.mark.parametrize("cut", range(0, 100, 7))
async def test_a_mirror_cut_anywhere(cut: int, home: Home) -> None:
    """At whatever byte it ends, it comes back whole."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    good, path = mirrors(home), home.mirror(world.rich)
    write(path, read(path)[: len(read(path)) * cut // 100])
    _, after = await healed_once(location, home)
    assert (after, mirrors(home)) == (before, good)


async def test_what_no_checksum_vouches_for_is_not_believed(home: Home) -> None:
    """A line beyond the log's end that was altered, or made of another: no new record of a whole database."""
    location = Location("sqlite", home.database)
    for odd in (b"garbage\n", b""):
        world, before = await made(location, home)
        good = read(home.mirror(world.plain))
        last = good.splitlines(keepends=True)[-1].replace(b'"seq":6,', b'"seq":7,')
        write(home.mirror(world.plain), good + odd + last)
        report, after = await healed_once(location, home)
        assert (after, read(home.mirror(world.plain))) == (before, good)
        assert (report.findings[0].evidence["new"], report.findings[0].evidence["beyond"]) == (0, 0)
        assert list(quarantined(home).values()) == [good + odd + last]
