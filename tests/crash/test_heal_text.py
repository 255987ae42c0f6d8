"""Text in the database that is not UTF-8: no other row is hidden, the doctor names it, a start repairs it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from holdfast import errors
from holdfast.doctor import own_home
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.recovery import database
from holdfast.store.location import Location
from tests.crash.heal_support import codes, healed_once, made, mirrors, opened, say
from tests.hub.asking import ask, get
from tests.hub.running_hub import running
from tests.hub.test_sessions import done

BAD = "cast(x'41ff42' as text)"  # A, a byte that no UTF-8 has, B
TEXTS = {
    "title": f"update session set title = {BAD} where n = 1",
    "key": f"update session set key = {BAD} where n = 1",
    "worktree": f"update session set worktree = {BAD} where n = 1",
    "search": f"update session set search = {BAD} where n = 1",
    "prompt": f"update task set prompt = {BAD} where n = 1",
    "outcome": f"update task set outcome = {BAD} where n = 1",
    "native id": f"update token set native_id = {BAD} where n = 1",
    "kind": f"update log set kind = {BAD} where n = 1 and seq = 5",
    "body": f"update log set body = {BAD} where n = 1 and seq = 5",
    "origin": f"update log set origin = {BAD} where n = 1 and seq = 9",
    "a body that is a number": "update log set body = 7.5, spool = 'x' where n = 1 and seq = 5",
}


def spoil(home: Home, statement: str) -> None:
    """Change the database behind everybody's back."""
    db = apsw.Connection(home.database)
    db.execute("pragma ignore_check_constraints = on")
    db.execute(statement)
    assert db.changes() > 0
    db.close()


@pytest.mark.parametrize("what", TEXTS)
async def test_it_is_a_finding_with_a_repair_and_all_is_as_before(what: str, home: Home) -> None:
    """The doctor looks without failing; a start rebuilds from the mirrors."""
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    good = mirrors(home)
    spoil(home, TEXTS[what])

    found = (await own_home.diagnose(home, location)).findings
    assert [(f.code, bool(f.action)) for f in found if f.code == "database_damaged"] == [
        ("database_damaged", True)
    ]
    report, after = await healed_once(location, home)

    assert codes(report)[0] == "database_damaged"
    assert (after, mirrors(home)) == (before, good)


@pytest.mark.parametrize("what", TEXTS)
async def test_a_large_database_is_checked_where_every_list_reads(
    what: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers, tokens and tasks at every start; the log when it is read, or by the doctor."""
    monkeypatch.setattr(database, "SMALL", 0)
    location = Location("sqlite", home.database)
    _, before = await made(location, home)
    spoil(home, TEXTS[what])
    deep = "log" in TEXTS[what].split()
    report, after = await healed_once(location, home, deep=deep)
    assert (codes(report)[0], after) == ("database_damaged", before)


@pytest.mark.parametrize("what", [what for what in TEXTS if what != "a body that is a number"])
async def test_one_bad_row_does_not_hide_the_others(what: str, home: Home) -> None:
    """Every list, the overview and the events: all rows are there, each readable one unchanged."""
    location = Location("sqlite", home.database)
    world, before = await made(location, home)
    async with opened(location, home) as store:
        tasks = {task.id: task for task in await store.latest_tasks(limit=1000)}
        spoil(home, TEXTS[what])
        headers, _ = await store.headers(state="all", limit=100, empty=True)
        page = await store.sessions(state="all", limit=100, empty=True)
        assert {header.id for header in headers} == {one.id for one in page.sessions} == set(world)
        for header in page.sessions:
            if header.id != world.rich:
                assert header == before[f"header {header.id}"]
        listed = {task.id: task for task in await store.latest_tasks(limit=1000)}
        assert set(listed) == set(tasks)
        for name, task in tasks.items():
            assert listed[name] == task or task.session == world.rich
        assert (await store.overview("2000", 100)).sessions
        lines = await store.event_lines(world.rich)
        assert len(lines) == len(before[world.rich].lines)
        assert len([line for line in lines if line not in before[world.rich].lines]) <= 1
        assert len(await store.events(world.rich)) == len(lines)


async def test_what_is_written_or_run_is_never_made_of_replaced_text(home: Home) -> None:
    """The writer and the worker's own questions fail with a clear error rather than use a changed text."""
    location = Location("sqlite", home.database)
    world, _ = await made(location, home)
    async with opened(location, home) as store:
        (running,) = await store.tasks(session=world.rich, status="running")
        spoil(home, TEXTS["prompt"])
        spoil(home, TEXTS["title"])
        with pytest.raises(errors.StoreUnreadable, match="not UTF-8"):
            await store.task(running.id)
        with pytest.raises(errors.StoreUnreadable, match="not UTF-8"):
            await store.commit(Commit(world.rich, [say("more")]))
        await store.commit(Commit(world.plain, [say("more")]))


def test_a_person_sees_the_rest_and_the_way_out(home: Home, tmp_path: Path) -> None:
    """A bad title under a running hub: list, overview, show, `ls`; the doctor's plan; a start repairs it."""
    with running(home, str(tmp_path / "work")) as hub:
        bad, good = done(hub), done(hub)
        hub.terminal.until(lambda: get(hub, "/api/doctor?target=self")["findings"] == [])
        spoil(home, f"update session set title = {BAD} where id = '{bad}'")
        titles = {one["id"]: one["title"] for one in get(hub, "/api/sessions")["sessions"]}
        assert set(titles) == {bad, good} and titles[bad] == "A\ufffdB"
        assert get(hub, "/api/overview")["sessions"]["live"] == 2
        for session in (bad, good):
            assert get(hub, f"/api/sessions/{session}")["session"]["id"] == session
            assert session in hub.terminal.give("ls").stdout
            assert session in hub.terminal.give("show", session).stdout
        found = get(hub, "/api/doctor?target=self")
        (finding,) = [one for one in found["findings"] if one["code"] == "database_damaged"]
        assert "title" in finding["text"] and "not UTF-8" in finding["text"] and finding["safe"]
        refused = ask(hub, "POST", "/api/doctor/apply", {"fingerprint": found["fingerprint"]})
        assert refused.status == 409 and "holdfast up" in refused.json["hint"]
        hub.kill()
        hub.start()
        after = {one["id"]: one["title"] for one in get(hub, "/api/sessions")["sessions"]}
        assert set(after) == {bad, good} and "\ufffd" not in (after[bad] or "")
        assert get(hub, "/healthz")["healed"]["done"][0]["code"] == "database_damaged"
        assert get(hub, "/api/doctor?target=self")["findings"] == []
