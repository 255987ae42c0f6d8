"""The commands as a user runs them, on both stores."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.store.location import Location
from holdfast.store.store import Store
from tests.conftest import Opener

sqlite_only = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def holdfast(home: Home, location: Location) -> Run:
    """Runs `python -m holdfast` on the test's store."""
    environment = {**os.environ, "HOLDFAST_HOME": home.path, "PYTHONUTF8": "1"}
    if location.kind == "postgres":
        environment["HOLDFAST_STORE"] = location.address

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", *arguments]
        return subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, check=False
        )

    return run


async def fill(store: Store, count: int = 3) -> list[str]:
    """Some sessions with a word in each."""
    made = []
    for i in range(count):
        session = await store.create_session("claude", key=f"forgejo:dev:o/r:{i}", title=f"Task {i}")
        await store.commit(Commit(session.id, [NewEvent("user", {"text": f"hello {i} \u2028 \0"})]))
        await store.see_token(session.id, "claude", f"native-{i}")
        made.append(session.id)
    return made


def one_line(text: str) -> str:
    """An error must be one line, and no traceback."""
    assert text.count("\n") == 1 and "Traceback" not in text, text
    return text


async def test_list_show_and_log_tell_what_the_store_has(opener: Opener, holdfast: Run) -> None:
    store = await opener()
    made = await fill(store)
    listed = json.loads(holdfast("ls", "--json").stdout)
    assert [s["id"] for s in listed] == made[::-1]
    assert listed[0]["title"] == "Task 2"
    page = json.loads(holdfast("ls", "--json", "-n", "2").stdout)
    rest = json.loads(holdfast("ls", "--json", "--before", page[-1]["cursor"]).stdout)
    assert [s["id"] for s in page + rest] == made[::-1]
    assert [s["id"] for s in json.loads(holdfast("ls", "--json", "-q", "TASK 1").stdout)] == [made[1]]
    shown = json.loads(holdfast("show", made[0][:9], "--json").stdout)
    assert shown["session"]["id"] == made[0]
    assert [t["native_id"] for t in shown["tokens"]] == ["native-0"]
    lines = holdfast("log", "forgejo:dev:o/r:1", "--json").stdout.split("\n")[:-1]
    events = [json.loads(line) for line in lines]
    assert [e["kind"] for e in events] == ["session", "user", "token"]
    assert list(events[0]) == ["seq", "kind", "body", "at", "task", "replayed", "origin"]
    assert events[1]["body"]["text"] == "hello 1 \u2028 \0"
    for command in (["ls"], ["show", made[0]], ["log", made[0]]):
        result = holdfast(*command)
        assert result.returncode == 0 and not result.stderr
        assert "\0" not in result.stdout and "\u2028" not in result.stdout


async def test_archive_rm_and_restore_change_the_store(opener: Opener, holdfast: Run) -> None:
    store = await opener()
    (session,) = await fill(store, 1)
    assert (
        json.loads(holdfast("archive", session, "--reason", "done", "--json").stdout)["state"] == "archived"
    )
    note = (await store.session(session)).archive
    assert note is not None and note.reason == "done"
    assert holdfast("unarchive", session).returncode == 0
    assert holdfast("rm", session).returncode == 0
    assert json.loads(holdfast("ls", "--json").stdout) == []
    assert [s["id"] for s in json.loads(holdfast("ls", "--state", "deleted", "--json").stdout)] == [session]
    assert holdfast("restore", session[:6]).returncode == 0
    header = await store.session(session)
    assert header.state == "live" and header.events == 3 + 4
    assert (await store.resume_target(session)).native_id == "native-0"


async def test_wrong_names_and_options_are_one_clear_line(opener: Opener, holdfast: Run) -> None:
    await fill(await opener(), 1)
    for arguments, status in (
        (["show", "nope"], 3),
        (["log", "s0000000000000000"], 3),
        (["rm", "t"], 3),
        (["show"], 2),
        (["ls", "--frobnicate"], 2),
        (["frobnicate"], 2),
        (["ls", "--store", "mysql://x"], 2),
        (["ls", "--before", "garbage"], 3),
        (["doctor", "self", "--apply", "0123456789abcdef"], 4),
    ):
        result = holdfast(*arguments)
        assert result.returncode == status, (arguments, result)
        assert "holdfast" in one_line(result.stderr)
        assert not result.stdout


async def test_an_error_in_json_has_a_code_and_a_hint(opener: Opener, holdfast: Run) -> None:
    await opener()
    error = json.loads(one_line(holdfast("show", "nope", "--json").stderr))
    assert error["code"] == "not_found" and error["hint"]


def test_a_missing_home_is_said_and_not_made(tmp_path: Path) -> None:
    home = tmp_path / "none"
    for command in (["show", "x"], ["log", "x"], ["rm", "x"], ["doctor"]):
        result = subprocess.run(
            [sys.executable, "-m", "holdfast", *command],
            env={**os.environ, "HOLDFAST_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 5, result
        assert str(home) in one_line(result.stderr)
        assert not home.exists()


def test_a_store_that_is_just_being_made_is_waited_for(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.make()
    db = apsw.Connection(home.database)
    db.execute("pragma journal_mode = wal")  # as its maker has it before the tables come
    db.close()
    words = [sys.executable, "-m", "holdfast"]
    env = {**os.environ, "HOLDFAST_HOME": home.path, "HOLDFAST_STORE": ""}
    with subprocess.Popen([*words, "tasks", "--json"], env=env, stdout=subprocess.PIPE, text=True) as reader:
        with pytest.raises(subprocess.TimeoutExpired):
            reader.wait(0.7)
        subprocess.run([*words, "init"], env=env, check=True, capture_output=True)
        said, _ = reader.communicate(timeout=60)
    assert (reader.returncode, json.loads(said)) == (0, [])


@pytest.mark.parametrize("location", ["postgres"], indirect=True)
def test_a_postgres_store_that_is_not_there_is_said(holdfast: Run) -> None:
    result = holdfast("ls")
    assert result.returncode == 5
    assert "Holdfast" in one_line(result.stderr) and "init" in result.stderr
    away = holdfast("ls", HOLDFAST_STORE="postgresql://me:secret@127.0.0.1:1/x")
    assert away.returncode == 9
    assert "secret" not in one_line(away.stderr)


@sqlite_only
async def test_an_unreadable_store_is_said_and_the_doctor_mends_it(
    opener: Opener, home: Home, holdfast: Run
) -> None:
    store = await opener()
    made = await fill(store)
    before = holdfast("log", made[0], "--json").stdout
    await store.close()
    Path(home.database).write_bytes(b"this is no database" * 1000)
    result = holdfast("ls")
    assert result.returncode == 7 and "doctor" in one_line(result.stderr)
    found = json.loads(holdfast("doctor", "self", "--json").stdout)
    assert {f["code"] for f in found["findings"]} == {"database_damaged", "session_missing"}
    assert all(set(f) >= {"id", "code", "subject", "text", "safe", "action"} for f in found["findings"])
    assert holdfast("ls").returncode == 7  # looking has changed nothing
    plan = Path(home.path) / "plan.json"
    plan.write_text(json.dumps(found))
    applied = holdfast("doctor", "self", "--apply", str(plan))
    assert applied.returncode == 0, applied
    assert holdfast("log", made[0], "--json").stdout == before
    again = json.loads(holdfast("doctor", "--json").stdout)
    assert again["findings"] == []
    assert holdfast("doctor", "self", "--apply", found["fingerprint"]).returncode == 4


@sqlite_only
async def test_a_database_that_is_gone_is_not_taken_for_an_empty_home(
    opener: Opener, home: Home, holdfast: Run
) -> None:
    store = await opener()
    (session,) = await fill(store, 1)
    await store.close()
    for ending in ("", "-wal", "-shm"):
        os.unlink(home.database + ending)
    for command in (["ls"], ["rm", session]):
        result = holdfast(*command)
        assert result.returncode == 7 and "mirrors" in one_line(result.stderr)
    assert not os.path.exists(home.database)
    assert holdfast("init").returncode == 0
    assert [s["id"] for s in json.loads(holdfast("ls", "--json").stdout)] == [session]


@sqlite_only
async def test_a_held_home_names_its_holder(opener: Opener, home: Home, holdfast: Run) -> None:
    await opener()
    plan = json.loads(holdfast("doctor", "--json").stdout)["fingerprint"]
    with home.lock("up"):
        result = holdfast("doctor", "--apply", plan)
    assert result.returncode == 6
    assert f"process {os.getpid()}" in one_line(result.stderr)


@sqlite_only
async def test_reading_commands_change_no_file(opener: Opener, home: Home, holdfast: Run) -> None:
    store = await opener()
    made = await fill(store)
    await store.close()

    def state() -> dict[str, tuple[str, int]]:
        found = {}
        for path in Path(home.path).rglob("*"):
            if path.is_file() and not path.name.endswith("-shm"):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path)] = (digest, path.stat().st_mtime_ns)
        return found

    before = state()
    for command in (["ls"], ["show", made[0]], ["log", made[0]], ["doctor"], ["ls", "--json"]):
        assert holdfast(*command).returncode == 0
    assert state() == before


def test_help_names_every_command(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments], capture_output=True, text=True, check=True
        )
        return result.stdout

    shown = re.findall(r"^  (\w+)  ", run("--help"), re.MULTILINE)
    assert {"ls", "show", "log", "rm", "restore", "archive", "unarchive", "doctor"} <= set(shown)
    for command in shown:
        assert f"usage: holdfast {command}" in run(command, "--help")
    assert run("--version").startswith("holdfast ")
