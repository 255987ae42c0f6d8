"""`holdfast doctor` and `import hapi` as a user meets them: plan, receipt, undo, and life after hapi."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import termios
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from holdfast.home import Home
from holdfast.store.location import Location
from tests.conftest import Opener
from tests.contract.test_command_line import fill, sqlite_only
from tests.support.hapi_builder import build
from tests.support.hapi_cases import copied, expected, files
from tests.support.hapi_holes import holes, uuid
from tests.support.terminal import HOLDFAST, Terminal

EDITED = "edited-token-removed.db"
K = "aae70d11-b180-4d2c-9bc3-53f191fa81e3"


@pytest.fixture
def terminal(home: Home, location: Location, tmp_path: Path) -> Terminal:
    made = Terminal(home, str(tmp_path))
    made.env["HOME"] = str(tmp_path / "nobody")
    if location.kind == "postgres":
        made.env["HOLDFAST_STORE"] = location.address
    return made


@sqlite_only
def test_a_hapi_home_is_looked_at_mended_and_given_back(terminal: Terminal, tmp_path: Path) -> None:
    folder = copied(EDITED, tmp_path / "hapi").parent
    before = files(folder)
    found = json.loads(terminal.give("doctor", "hapi", str(folder), "--json", status=15).stdout)
    assert set(found) >= {"target", "findings", "plan", "fingerprint"} and found["target"] == "hapi"
    assert all(set(f) >= {"id", "code", "subject", "text", "safe", "action"} for f in found["findings"])
    assert [step["finding"] for step in found["plan"]] == [f"token_missing:{K}"]
    assert not os.path.exists(os.path.join(terminal.home.path, "doctor")), "looking makes nothing"
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(found))
    terminal.give("doctor", "self", "--apply", str(plan), status=2)
    done = json.loads(terminal.give("doctor", "hapi", str(folder), "--apply", str(plan), "--json").stdout)
    assert done["done"][0]["finding"] == f"token_missing:{K}" and not done["problems"]
    again = json.loads(terminal.give("doctor", "hapi", str(folder / "hapi.db"), "--json", status=15).stdout)
    assert again["plan"] == []
    terminal.give("doctor", "hapi", str(folder), "--apply", found["fingerprint"], status=4)
    terminal.give("doctor", "--undo", "rnothing0000000", status=2)
    told = terminal.give("doctor", "--undo", done["receipt"]).stdout
    assert done["receipt"] in told and files(folder) == before
    terminal.give("doctor", "--undo", done["receipt"], status=4)


@sqlite_only
def test_the_command_line_says_what_is_missing(terminal: Terminal, tmp_path: Path) -> None:
    terminal.give("doctor", "hapi", status=2)
    terminal.give("doctor", "self", str(tmp_path), status=2)
    terminal.give("doctor", "hapi", str(tmp_path / "none"), status=3)
    terminal.give("doctor", "hapi", str(tmp_path), status=3)
    terminal.give("doctor", "hapi", str(copied(EDITED, tmp_path)), "--choose", "x", status=2)


def on_a_screen(terminal: Terminal, *words: str, columns: int = 80) -> tuple[str, int]:
    """What a person at a terminal of that width reads, and the exit status."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (40, columns))
    process = subprocess.Popen(
        [*HOLDFAST, *words], env=terminal.env, cwd=terminal.cwd, stdin=its, stdout=its, stderr=its
    )
    os.close(its)
    read = b""
    with suppress(OSError), open(ours, "rb", buffering=0) as screen:  # an error when the other end is closed
        while data := screen.read(4096):
            read += data
    return read.decode(), process.wait()


@sqlite_only
def test_a_person_reads_every_word_of_it(terminal: Terminal, tmp_path: Path) -> None:
    folder = copied(EDITED, tmp_path / "hapi").parent
    found = json.loads(terminal.give("doctor", "hapi", str(folder), "--json", status=15).stdout)
    screen, status = on_a_screen(terminal, "doctor", "hapi", str(folder))
    shown = screen.rpartition("\x1b[K")[2].replace("\r", "")
    assert status == 15 and "doctor [" in screen and "doctor [" not in shown, "the bar is gone at the end"
    *told, summary, command = shown.rstrip().split("\n")
    assert all(len(line) <= 80 for line in told)
    words = " ".join(shown.split())
    for finding in found["findings"]:
        assert finding["text"] in words and finding["subject"] in words and finding["code"] in words
        assert finding["action"] is None or f"→ {finding['action']}" in words
    assert "29 findings, 1 of them can be repaired safely" in summary
    assert command == f"to repair: holdfast doctor hapi {folder} --apply {found['fingerprint']}"
    assert words.index("CAN BE REPAIRED") < words.index("LEFT UNCHANGED") < words.index("archived_resumable")


@sqlite_only
def test_candidates_and_a_running_hub_are_shown(terminal: Terminal, tmp_path: Path) -> None:
    names = ("sound elsewhere", "held by another", "two ids", "in messages")
    path = tmp_path / "a home/hapi.db"
    build(path, 26, {name: holes()[name].made for name in names})
    db = apsw.Connection(str(path))
    db.execute("begin immediate")
    screen, _ = on_a_screen(terminal, "doctor", "hapi", str(path.parent), columns=200)
    db.execute("rollback")
    db.close()
    for number in (4, 5, 7):
        assert f"? claudeSessionId {uuid(number)}, from messages" in screen
    assert f"doctor hapi '{path.parent}' --apply" in screen
    assert f"but hapi is running: process {os.getpid()} " in screen


@sqlite_only
def test_a_wrong_path_is_told_in_one_line(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd/hapi.db").mkdir(parents=True)
    for name in ("nothing", "empty", "odd"):
        told = terminal.give("doctor", "hapi", str(tmp_path / name), status=3).stderr
        assert told.count("\n") == 1 and str(tmp_path / name) in told and "~/.hapi" in told
    (tmp_path / "text.db").write_text("this is no database")
    (tmp_path / "zero.db").write_bytes(b"")
    for name, code in (("text.db", "database_unreadable"), ("zero.db", "schema_unknown")):
        shown = terminal.give("doctor", "hapi", str(tmp_path / name), status=15).stdout
        assert code in shown and "0 of them can be repaired" in shown and "--apply" not in shown


@sqlite_only
async def test_what_doctor_self_mended_can_be_taken_back(
    terminal: Terminal, opener: Opener, home: Home
) -> None:
    store = await opener()
    made = await fill(store)
    await store.close()
    db = apsw.Connection(home.database)
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.close()
    mirror = Path(home.mirror(made[0]))
    mirror.write_bytes(mirror.read_bytes()[:-20])
    os.unlink(home.mirror(made[1]))
    watched = {path: path.read_bytes() for path in Path(home.sessions).iterdir()}
    database = Path(home.database).read_bytes()
    plan = json.loads(terminal.give("doctor", "--json", status=15).stdout)
    assert len(plan["findings"]) == 2
    done = json.loads(terminal.give("doctor", "--apply", plan["fingerprint"], "--json").stdout)
    assert done["undo"] and len(done["done"]) == 2
    assert json.loads(terminal.give("doctor", "--json").stdout)["findings"] == []
    terminal.give("doctor", "--undo", done["receipt"])
    assert {path: path.read_bytes() for path in Path(home.sessions).iterdir()} == watched
    assert Path(home.database).read_bytes() == database
    assert json.loads(terminal.give("doctor", "--json", status=15).stdout)["plan"]


@sqlite_only
async def test_even_a_damaged_database_of_ours_comes_back_as_it_was(
    terminal: Terminal, opener: Opener, home: Home
) -> None:
    store = await opener()
    await fill(store)
    await store.close()
    Path(home.database).write_bytes(b"this is no database" * 1000)
    Path(home.database + "-wal").write_bytes(b"nor is this its log" * 100)
    before = Path(home.database).read_bytes(), Path(home.database + "-wal").read_bytes()
    plan = json.loads(terminal.give("doctor", "--json", status=15).stdout)
    done = json.loads(terminal.give("doctor", "--apply", plan["fingerprint"], "--json").stdout)
    assert json.loads(terminal.give("doctor", "--json").stdout)["findings"] == []
    terminal.give("doctor", "--undo", done["receipt"])
    assert (Path(home.database).read_bytes(), Path(home.database + "-wal").read_bytes()) == before


async def test_a_hapi_install_lives_on_in_holdfast(
    terminal: Terminal, opener: Opener, tmp_path: Path
) -> None:
    path = copied("v26-mixed.db", tmp_path / "hapi")
    db = apsw.Connection(str(path))
    worktree = {"basePath": "/repo", "branch": "side", "name": "n", "worktreePath": "/repo-side"}
    sql = "update sessions set metadata = json_set(metadata, '$.worktree', json(?)) where id = ?"
    db.execute(sql, (json.dumps(worktree), K))
    db.close()
    before = files(path.parent)
    store = await opener()
    first = json.loads(terminal.give("import", "hapi", str(path.parent), "--json").stdout)
    assert not first["failed"] and files(path.parent) == before
    told = expected("v26-mixed.db")["sessions"]
    ours = {one["native_id"]: one["session"] for one in first["adopted"]}
    assert ours.keys() == told.keys() and len(set(ours.values())) == len(told)
    for name, want in told.items():
        header = await store.session(ours[name])
        tokens = await store.tokens(ours[name])
        assert [token.native_id for token in tokens] == ([want["token"]] if want.get("token") else [])
        if want.get("flavor"):
            assert header.agent == want["flavor"]
        log = await store.events(ours[name], limit=1000)
        assert len([e for e in log if e.origin is not None]) == want["messages"]
        assert all(e.replayed for e in log if e.origin is not None)
    kept = (await store.session(ours[K])).worktree
    assert kept is not None and (kept.path, kept.branch, kept.repo_root) == ("/repo-side", "side", "/repo")
    cursor = "cc9f1151-10cb-4ec0-b05a-5f2ef05ba758"
    kinds = [e.kind for e in await store.events(ours[cursor])]
    assert kinds.count("user") == 2 and {"assistant", "tool_progress", "tool_summary"} <= set(kinds)
    again = json.loads(terminal.give("import", "hapi", str(path), "--json").stdout)
    assert all(not one["new"] and one["events"] == 0 for one in again["adopted"]) and not again["failed"]
