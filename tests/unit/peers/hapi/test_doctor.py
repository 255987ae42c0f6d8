"""The doctor of hapi: every recorded database, its findings, its repair, and the way back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import errors
from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hapi import database
from holdfast.peers.hapi.install import HapiInstall
from holdfast.transcripts import sqlite_snapshot
from tests.support.hapi_cases import CASES, SOUND, copied, expected, files, rows, session


def install(path: Path, home: Path | None = None, chosen: dict[str, str] | None = None) -> HapiInstall:
    return HapiInstall(str(path), {"HOME": str(home or path.parent / "nobody")}, chosen)


def codes(found: Diagnosis) -> dict[str, set[str]]:
    told: dict[str, set[str]] = defaultdict(set)
    for finding in found.findings:
        told[finding.subject].add(finding.code)
    return told


def edit(path: Path, sql: str, *values: Any) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql, values)
    assert db.changes() == 1
    db.close()


@pytest.mark.parametrize("case", SOUND)
def test_the_findings_are_the_expected_ones(case: str, tmp_path: Path) -> None:
    told = codes(install(copied(case, tmp_path)).diagnose())
    for name, want in expected(case)["sessions"].items():
        must = {code.lower() for code in want["findings"]}
        may = must | {code.lower() for code in want.get("optional_findings", [])}
        assert must <= told[name] <= may, (name, want["tag"])


@pytest.mark.parametrize("case", CASES)
def test_a_diagnosis_changes_nothing(case: str, tmp_path: Path) -> None:
    path = copied(case, tmp_path / "hapi")
    before = files(path.parent), [p.stat().st_mtime_ns for p in sorted(path.parent.iterdir())]
    install(path).diagnose()
    assert before == (files(path.parent), [p.stat().st_mtime_ns for p in sorted(path.parent.iterdir())])


@pytest.mark.parametrize("case", SOUND)
def test_the_repair_is_the_expected_one_and_can_be_undone(case: str, tmp_path: Path) -> None:
    path = copied(case, tmp_path / "hapi")
    home = Home(str(tmp_path / "home"))
    target = install(path)
    want = {
        n: s["repair"] for n, s in expected(case)["sessions"].items() if s.get("repair", {}).get("possible")
    }
    found = target.diagnose()
    safe = {finding.subject for finding in found.findings if finding.safe}
    assert safe == set(want)
    bytes_before, before = files(path.parent), rows(path, tmp_path / "a")
    if not want:
        with pytest.raises(errors.Refused):
            operation.apply(home, target, found.fingerprint)
        assert files(path.parent) == bytes_before
        return
    receipt = operation.apply(home, target, found.fingerprint)
    after = rows(path, tmp_path / "b")
    for table, kept in before.items():
        for key, row in kept.items():
            if table == "sessions" and row[0] in want:
                continue
            assert after[table][key] == row
    for name, repair in want.items():
        (tmp_path / "c").mkdir(exist_ok=True)
        now = session(path, tmp_path / "d", name)
        old = dict(zip(now, before["sessions"][repr(name)], strict=True))
        assert json.loads(now.pop("metadata")) == {**json.loads(old.pop("metadata")), **repair["set"]}
        assert now.pop("metadata_version") == old.pop("metadata_version") + 1
        assert now.pop("seq") == old.pop("seq") + 1
        assert now == old
    again = target.diagnose()
    assert not again.plan
    assert set(receipt.actions) == {f.id for f in found.findings if f.safe}
    with pytest.raises(errors.PlanChanged, match=f"already applied, as {receipt.id}"):
        operation.apply(home, target, found.fingerprint)
    operation.undo(home, target, receipt)
    assert files(path.parent) == bytes_before
    assert target.diagnose().fingerprint == found.fingerprint
    with pytest.raises(errors.Refused, match="already undone"):
        operation.undo(home, target, receipt)


def test_a_newer_schema_is_reported_and_not_changed(tmp_path: Path) -> None:
    found = install(copied("edited-schema-too-new.db", tmp_path)).diagnose()
    assert [f.code for f in found.findings] == ["schema_unknown"] and not found.steps


EDITED = "edited-token-removed.db"
K = "aae70d11-b180-4d2c-9bc3-53f191fa81e3"


def test_a_plan_is_refused_if_anything_changed(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path / "hapi")
    home, target = Home(str(tmp_path / "home")), install(path)
    found = target.diagnose()
    edit(path, "update messages set content = content || ' ' where rowid = (select min(rowid) from messages)")
    before = rows(path, tmp_path / "a")
    with pytest.raises(errors.PlanChanged):
        operation.apply(home, target, found.fingerprint)
    assert rows(path, tmp_path / "b") == before


def test_an_undo_is_refused_if_the_database_changed(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path / "hapi")
    home, target = Home(str(tmp_path / "home")), install(path)
    receipt = operation.apply(home, target, target.diagnose().fingerprint)
    edit(path, "update sessions set seq = seq + 1 where id = ?", K)
    before = files(path.parent)
    with pytest.raises(errors.Refused, match="changed since"):
        operation.undo(home, target, receipt)
    assert files(path.parent) == before


def test_an_undo_works_after_somebody_only_opened_the_database(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path / "hapi")
    home, target = Home(str(tmp_path / "home")), install(path)
    before = files(path.parent)
    receipt = operation.apply(home, target, target.diagnose().fingerprint)
    db = apsw.Connection(str(path))
    db.execute("select count(*) from sessions").fetchall()
    db.close()
    operation.undo(home, target, receipt)
    assert files(path.parent) == before


def test_a_running_hub_is_reported_with_its_process(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path / "hapi")
    home, target = Home(str(tmp_path / "home")), install(path)
    plan = target.diagnose().fingerprint
    script = (
        "import apsw, sys; db = apsw.Connection(sys.argv[1]); db.execute('pragma journal_mode = wal');"
        "db.execute('select count(*) from sessions').fetchall(); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as hub:
        assert hub.stdout is not None and hub.stdout.readline() == "open\n"
        with pytest.raises(errors.ProgramRunning, match=f"process {hub.pid} .* open"):
            operation.apply(home, target, plan)
        hub.communicate()
    assert operation.apply(home, target, target.diagnose().fingerprint).actions


def test_a_running_wrapper_is_not_a_ghost(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path)
    name = "98ea2942-c1cd-425c-89b2-041ac844ab0f"
    set_it = (
        "update sessions set metadata = json_set(metadata, '$.host', ?, '$.hostPid', ?), active_at = ?"
        " where id = ?"
    )
    now = 1 << 50
    edit(path, set_it, socket.gethostname(), os.getpid(), now, name)
    assert "ghost_running" not in codes(install(path).diagnose())[name]
    edit(path, set_it, socket.gethostname(), 4_000_000, now, name)
    assert "ghost_running" in codes(install(path).diagnose())[name]
    edit(path, set_it, socket.gethostname(), os.getpid(), 1000, name)
    edit(path, "update sessions set updated_at = 1000 where id = ?", name)
    assert "ghost_running" in codes(install(path).diagnose())[name], "another process has that pid now"


def test_the_user_chooses_between_two_tokens_in_the_messages(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path / "hapi")
    other = "7c1a7b1e-0000-4000-8000-0000000000bb"
    said = {"role": "agent", "content": {"type": "output", "data": {"type": "assistant", "sessionId": other}}}
    edit(
        path,
        "insert into messages (id, session_id, content, created_at, seq)"
        " values ('n', ?, ?, 1794780289999, 9)",
        K,
        json.dumps(said),
    )
    found = install(path).diagnose()
    (finding,) = [f for f in found.findings if f.subject == K and f.code == "token_missing"]
    assert not finding.safe and len(finding.evidence["candidates"]) == 2
    target = install(path, chosen={K: other})
    operation.apply(Home(str(tmp_path / "home")), target, target.diagnose().fingerprint)
    assert json.loads(session(path, tmp_path / "s", K)["metadata"])["claudeSessionId"] == other


FRESH = "/home/dev/hap/proj/fresh-claude-fgz8o"


def put_claude_transcript(user: Path, native: str, text: str) -> None:
    """One conversation in that user's store of Claude Code's."""
    store = user / ".claude/projects" / FRESH.replace("/", "-")
    store.mkdir(parents=True, exist_ok=True)
    common = {"sessionId": native, "cwd": FRESH, "version": "2.1.0", "timestamp": "2026-11-15T22:04:43.000Z"}
    said = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "done"}]}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": text}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": said},
    ]
    (store / f"{native}.jsonl").write_text("".join(json.dumps({**common, **x}) + "\n" for x in lines))


def test_a_token_is_found_in_the_agents_own_store(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path / "hapi")
    name, native = "d8c46382-136e-4293-b70a-4894309d50bf", "11111111-2222-4333-8444-555555555555"
    put_claude_transcript(tmp_path / "user", native, "please do step 0")
    put_claude_transcript(tmp_path / "user", "99999999-2222-4333-8444-555555555555", "something else")
    target = install(path, tmp_path / "user")
    found = target.diagnose()
    (finding,) = [f for f in found.findings if f.subject == name and f.code == "token_missing"]
    assert finding.safe and finding.evidence["candidates"][0]["source"] == "native store"
    operation.apply(Home(str(tmp_path / "home")), target, found.fingerprint)
    assert json.loads(session(path, tmp_path / "s", name)["metadata"])["claudeSessionId"] == native
    assert "token_missing" not in codes(target.diagnose())[name]


def test_a_second_conversation_with_the_same_prompts_needs_a_choice(tmp_path: Path) -> None:
    test_a_token_is_found_in_the_agents_own_store(tmp_path)
    store = next((tmp_path / "user/.claude/projects").iterdir())
    first = store / "11111111-2222-4333-8444-555555555555.jsonl"
    twin = "22222222-2222-4333-8444-555555555555"
    (store / f"{twin}.jsonl").write_text(first.read_text().replace(first.stem, twin))
    path = copied("v26-mixed.db", tmp_path / "again")
    found = install(path, tmp_path / "user").diagnose()
    (finding,) = [f for f in found.findings if f.code == "token_missing" and "candidates" in f.evidence]
    assert not finding.safe and len(finding.evidence["candidates"]) == 2 and not found.steps


def test_a_cursor_protocol_comes_from_the_store_that_has_the_id(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path / "hapi")
    name, native = "bd07dee1-f047-45e4-9132-211c854bfce1", "99999999-0000-4000-8000-000000000007"
    store = tmp_path / "user/.cursor/acp-sessions" / native
    store.mkdir(parents=True)
    db = apsw.Connection(str(store / "store.db"))
    db.execute("create table blobs (id text, data blob); create table meta (key text, value text)")
    db.close()
    (store / "meta.json").write_text("{}")
    target = install(path, tmp_path / "user")
    found = target.diagnose()
    operation.apply(Home(str(tmp_path / "home")), target, found.fingerprint)
    metadata = json.loads(session(path, tmp_path / "s", name)["metadata"])
    assert metadata["cursorSessionProtocol"] == "acp" and metadata["cursorSessionId"] == native
    assert "cursor_protocol_missing" not in codes(target.diagnose())[name]


def test_unreadable_rows_are_reported_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    path = copied(EDITED, tmp_path)
    edit(path, "update messages set content = x'28b52ffd0000' where rowid = 1")
    torn = "821e430c-3c96-43a0-b9f3-6247dbd97439"
    edit(path, "update sessions set metadata = '{\"path\":' where id = ?", torn)
    told = codes(install(path).diagnose())
    assert any("message_unreadable" in found for found in told.values())
    assert told[torn] == {"metadata_not_object"}
    assert "token_missing" in told[K]


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "hapi.db"
    path.write_bytes(b"not a database" * 500)
    assert [f.code for f in install(path).diagnose().findings] == ["database_unreadable"]


def test_stuck_attempts_and_other_tokens_are_reported(tmp_path: Path) -> None:
    path = copied("v26-mixed.db", tmp_path)
    name = "821e430c-3c96-43a0-b9f3-6247dbd97439"
    stuck = json.dumps({"state": "resuming", "machineId": "m", "startedAt": 1})
    edit(
        path,
        "update sessions set metadata = json_set(metadata, '$.piResumeAttempt', json(?),"
        " '$.codexSessionId', 'x', '$.supersededBySessionId', 'nobody') where id = ?",
        stuck,
        name,
    )
    told = codes(install(path).diagnose())[name]
    assert {"stuck_attempt", "token_other_flavor", "superseded_gone"} <= told


def test_a_large_idle_database_is_read_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(EDITED, tmp_path)
    want = install(path).diagnose().fingerprint
    monkeypatch.setattr(database, "LARGE", 1)
    monkeypatch.setattr(sqlite_snapshot, "snapshot", None)  # no copy is made
    before = files(tmp_path)
    assert install(path).diagnose().fingerprint == want
    assert files(tmp_path) == before
    with pytest.raises(errors.StoreBusy), database.open_database(str(path)):
        os.utime(path, (1, 1))
