"""A home of the first schema, kept in tests/fixtures/store-v1: every version opens it, from either copy."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.recovery.heal import open_healed
from holdfast.store.location import Location
from holdfast.store.sqlite import migrations
from tests.crash.heal_support import RULES, codes, drop_database, read
from tests.fixtures.make_store_v1 import describe, make

KEPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "fixtures", "store-v1")
WAYS = ("both", "database alone", "mirrors alone")


@pytest.fixture
def copy(home: Home) -> Home:
    """A copy of the kept home, for us alone."""
    shutil.rmtree(home.path)
    shutil.copytree(KEPT, home.path)
    os.unlink(os.path.join(home.path, "expected.json"))
    home.make()
    return home


def expected() -> dict[str, Any]:
    """What is in it."""
    found: dict[str, Any] = json.loads(read(os.path.join(KEPT, "expected.json")))
    return found


def as_known(wanted: Any, found: Any) -> Any:
    """What was found, without what only later versions know."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {name: as_known(wanted.get(name), value) for name, value in found.items() if name in wanted}
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [as_known(one, other) for one, other in zip(wanted, found, strict=True)]
    return found


async def _open(home: Home, deep: bool) -> tuple[list[str], Any]:
    store, report = await open_healed(Location("sqlite", home.database), home, RULES, deep=deep)
    try:
        assert report.problems == []
        return codes(report), as_known(expected(), await describe(store))
    finally:
        await store.close()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_all_that_was_in_it_is_there(way: str, deep: bool, copy: Home) -> None:
    """Headers, tokens, tasks, events byte for byte, lists, queue and resume targets."""
    if way == "database alone":
        shutil.rmtree(copy.sessions)
        shutil.rmtree(copy.trash)
    elif way == "mirrors alone":
        drop_database(copy)
    found, now = await _open(copy, deep)
    assert now == expected()
    codes_of = {
        "both": set[str](),
        "database alone": {"mirror_missing", "tombstone_missing"},
        "mirrors alone": {"database_missing", "session_missing", "deleted_not_in_database"},
    }
    assert set(found) == codes_of[way]
    assert (await _open(copy, True)) == ([], expected())


@pytest.mark.parametrize("way", WAYS)
async def test_its_mirrors_are_what_they_were(way: str, copy: Home) -> None:
    """Made anew or not, they are the same bytes; opening an old home rewrites none of them."""
    if way == "database alone":
        shutil.rmtree(copy.sessions)
    elif way == "mirrors alone":
        drop_database(copy)
    await _open(copy, False)
    kept = os.path.join(KEPT, "sessions")
    names = sorted(os.listdir(kept))
    assert [name for name in sorted(os.listdir(copy.sessions)) if name != ".lock"] == names
    for name in names:
        assert read(os.path.join(copy.sessions, name)) == read(os.path.join(kept, name))


def test_it_is_what_it_claims_to_be() -> None:
    """Of schema 1, one file, small, and with one of everything."""
    assert not [name for name in os.listdir(KEPT) if name.startswith("state.db-")]
    assert read(os.path.join(KEPT, "state.db"))[60:64] == (1).to_bytes(4, "big")  # its user_version
    size = sum(
        os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(KEPT) for name in names
    )
    assert size < 300_000
    sessions = expected()["sessions"].values()
    assert {s["header"]["state"] for s in sessions} == {"live", "archived", "deleted"}
    assert {t["status"] for s in sessions for t in s["tokens"]} == {"current", "superseded", "revoked"}
    assert {t["status"] for s in sessions for t in s["tasks"]} == {
        *("queued", "running", "unreachable", "succeeded", "failed", "cancelled", "interrupted")
    }
    assert any(s["header"]["worktree"] for s in sessions)
    texts = json.dumps(list(sessions))
    for awkward in ("\\u2028", "\\u0000", "\\ud83d", "\\udbff\\udfff"):
        assert awkward in texts


@pytest.mark.skipif(migrations.newest() != 1, reason="later schemas have fixtures of their own")
async def test_the_first_schema_still_writes_it_so(tmp_path: object) -> None:
    """As long as the schema is the first one: made again it is the same, so the form has not slipped."""
    folder = os.path.join(str(tmp_path), "again")
    await make(folder)
    assert json.loads(read(os.path.join(folder, "expected.json"))) == expected()
    for part in ("sessions", "trash"):
        for name in os.listdir(os.path.join(KEPT, part)):
            assert read(os.path.join(folder, part, name)) == read(os.path.join(KEPT, part, name))
