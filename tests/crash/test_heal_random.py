"""Random damage to random files of a small home: heal never fails, ends in one go, loses nothing whole."""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.home import Home
from holdfast.recovery.findings import Report
from holdfast.store.location import Location
from tests.crash.heal_support import Photo, World, healed, made, quarantined, read, write
from tests.crash.support import TORTURE, scratch

FILES = ("rich", "archived", "plain", "restored", "worktree", "deleted", "tombstone")


class Damage(NamedTuple):
    """What befalls one file: where is a share of its size or of its lines."""

    file: str
    how: str
    where: float
    other: float
    noise: bytes


def damages(*files: str) -> st.SearchStrategy[list[Damage]]:
    """One to four of them."""
    hows = ("cut", "flip", "swap", "delete", "duplicate", "garbage", "hole", "append", "empty")
    share = st.floats(0, 1, exclude_max=True)
    one = st.builds(
        Damage, st.sampled_from(files), st.sampled_from(hows), share, share, st.binary(min_size=1)
    )
    return st.lists(one, min_size=1, max_size=4)


def inflict(home: Home, world: World, damage: Damage) -> None:
    """Do it."""
    path = _path(home, world, damage.file)
    if not os.path.exists(path):
        return
    data = read(path)
    at, end = sorted((int(damage.where * len(data)), int(damage.other * len(data))))
    lines = data.splitlines(keepends=True)
    one, two = int(damage.where * len(lines)), int(damage.other * len(lines))
    match damage.how:
        case "delete":
            os.unlink(path)
            return
        case "empty":
            data = b""
        case "cut":
            data = data[:at]
        case "flip" if data:
            data = data[:at] + bytes([data[at] ^ (damage.noise[0] or 1)]) + data[at + 1 :]
        case "garbage":
            data = data[:at] + damage.noise + data[at + len(damage.noise) :]
        case "hole":
            data = data[:at] + bytes(end - at) + data[end:]
        case "append":
            data += damage.noise
        case "swap" if lines:
            lines[one], lines[two] = lines[two], lines[one]
            data = b"".join(lines)
        case "duplicate" if lines:
            data = b"".join([*lines[:one], lines[two], *lines[one:]])
    write(path, data)


def _path(home: Home, world: World, file: str) -> str:
    if file in ("database", "wal"):
        return home.database + ("-wal" if file == "wal" else "")
    if file == "tombstone":
        return home.tombstone(world.deleted)
    return home.trashed(world.deleted) if file == "deleted" else home.mirror(getattr(world, file))


def all_lines(home: Home) -> set[bytes]:
    """Every line of every file that could be of a mirror, in quarantine too."""
    found: set[bytes] = set()
    for folder in (home.sessions, home.trash):
        for name in os.listdir(folder):
            if name.endswith(".jsonl"):
                found.update(read(os.path.join(folder, name)).splitlines(keepends=True))
    for data in quarantined(home).values():
        found.update(data.splitlines(keepends=True))
    return found


async def _damage_and_heal(list_of: list[Damage], deep: bool = False) -> tuple[Photo, Photo, Report]:
    with scratch() as folder:
        home = Home(os.path.join(folder, "home"))
        home.make()
        location = Location("sqlite", home.database)
        world, before = await made(location, home)
        good = all_lines(home)
        for damage in list_of:
            inflict(home, world, damage)
        whole = good & all_lines(home)  # what the files still had, line by line

        first, after = await healed(location, home, deep)
        second, same = await healed(location, home, deep)

        assert second.done == []
        assert set(second.problems) <= set(first.problems)
        assert same == after
        assert whole <= all_lines(home), "a whole record is gone from every file"
        for session in world:
            if session in after:
                seqs = [line.split(",", 1)[0] for line in after[session].lines]
                assert seqs == [f'{{"seq":{i}' for i in range(1, len(seqs) + 1)]
        return before, after, first


RARE = settings(
    deadline=None,
    max_examples=max(30, TORTURE // 10),
    suppress_health_check=[HealthCheck.too_slow],
)


@RARE
@given(damages(*FILES))
@example([Damage(file, "delete", 0, 0, b"x") for file in FILES])
def test_with_a_whole_database_everything_is_as_before(list_of: list[Damage]) -> None:
    """Whatever becomes of mirrors, trash and tombstone."""
    before, after, _ = asyncio.run(_damage_and_heal(list_of))
    assert after == before


@RARE
@given(damages("database", "wal"))
@example([Damage("database", "delete", 0, 0, b"x"), Damage("wal", "delete", 0, 0, b"x")])
def test_with_whole_mirrors_everything_is_as_before(list_of: list[Damage]) -> None:
    """Whatever becomes of the database: the mirrors' checksums prove what was in it."""
    try:
        before, after, _ = asyncio.run(_damage_and_heal(list_of, deep=True))
    except errors.SchemaNewer:
        return  # its header says so
    assert after == before


@RARE
@given(damages(*FILES, "database", "wal"), st.booleans())
def test_with_everything_damaged(list_of: list[Damage], deep: bool) -> None:
    """No exception, one round is enough, and what was whole is still somewhere."""
    try:
        asyncio.run(_damage_and_heal(list_of, deep))
    except errors.SchemaNewer:
        return
