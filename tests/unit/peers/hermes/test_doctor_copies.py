"""The doctor of hermes-webui on copies that disagree: what is lost comes back, what was meant stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hermes.install import HermesInstall
from tests.unit.peers.hermes.test_merge import (
    MARK,
    OLD,
    SID,
    T0,
    V30,
    add,
    call,
    database,
    result,
    said,
    sidecar,
)

LETTERS = [*"abcdefgh"]


def look(home: Path) -> Diagnosis:
    return HermesInstall(str(home), {}).diagnose()


def found(home: Path) -> dict[str, bool]:
    """Findings of the session, and whether each is mended; the index is no matter here."""
    return {f.code: f.safe for f in look(home).findings if f.subject == SID}


def mended(home: Path) -> dict[str, Any]:
    """The sidecar after a repair; a second look finds nothing to do, and undo gives the same bytes."""
    install, ours = HermesInstall(str(home), {}), Home(str(home) + "-holdfast")
    before = {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    receipt = operation.apply(ours, install, install.diagnose().fingerprint)
    assert receipt.problems == []
    assert install.diagnose().steps == []
    side: dict[str, Any] = json.loads((home / f"webui/sessions/{SID}.json").read_text())
    assert side["message_count"] == len(side["messages"])
    after = {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    operation.undo(ours, install, receipt)
    assert {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()} == before
    for path, data in after.items():
        Path(path).write_bytes(data)
    return side


def words(side: dict[str, Any], name: str = "messages") -> list[Any]:
    return [message["content"] for message in side[name]]


def test_messages_after_a_wipe_stay(tmp_path: Path) -> None:
    sidecar(tmp_path, said(*LETTERS), ".json.bak")
    sidecar(tmp_path, said("x", "y", start=T0 + 100), extra={"kept": 1})
    assert found(tmp_path) == {"shrunken_live": True}
    side = mended(tmp_path)
    assert words(side) == words(side, "context_messages") == [*LETTERS, "x", "y"]
    assert side["extra"] == {"kept": 1}


def test_a_poorer_backup_and_the_rest_in_the_database(tmp_path: Path) -> None:
    database(tmp_path, said(*LETTERS))
    sidecar(tmp_path, said("g", "h", start=T0 + 6), ".json.bak")
    sidecar(tmp_path, [])
    assert found(tmp_path) == {"shrunken_live": True, "live_behind_db": True}
    assert words(mended(tmp_path)) == LETTERS


@pytest.mark.parametrize("cut", [0, 1, 300, 700])
def test_a_torn_file_beside_a_whole_database(tmp_path: Path, cut: int) -> None:
    database(tmp_path, said(*LETTERS), cwd="/w", title="From the row")
    path = sidecar(tmp_path, said(*LETTERS, "i"))
    path.write_bytes(path.read_bytes()[:cut])
    code = "empty_live" if cut == 0 else "torn_live"
    assert found(tmp_path) == {code: True}
    side = mended(tmp_path)
    assert words(side) == LETTERS
    assert side["session_id"] == SID and side["workspace"] == "/w"


def test_a_torn_file_keeps_what_only_it_has(tmp_path: Path) -> None:
    database(tmp_path, said(*LETTERS))
    path = sidecar(tmp_path, said(*LETTERS, "i", "j"))
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b'"j"')])
    assert words(mended(tmp_path)) == [*LETTERS, "i"]


def test_a_wipe_with_a_torn_backup_is_mended_from_the_database(tmp_path: Path) -> None:
    database(tmp_path, said(*LETTERS))
    backup = sidecar(tmp_path, said(*LETTERS), ".json.bak")
    backup.write_bytes(backup.read_bytes()[:600])
    sidecar(tmp_path, [])
    assert found(tmp_path) == {"malformed_backup": False, "live_behind_db": True}
    assert words(mended(tmp_path)) == LETTERS


def test_content_that_differs_at_equal_length_is_left_to_the_user(tmp_path: Path) -> None:
    sidecar(tmp_path, said(*"abcd"), ".json.bak")
    sidecar(tmp_path, said(*"wxyz"))
    assert found(tmp_path) == {"content_diverged": False}
    os.unlink(tmp_path / f"webui/sessions/{SID}.json.bak")
    database(tmp_path, said(*"abcd"))
    assert found(tmp_path) == {"content_diverged": False}


def test_undone_and_summarized_rows_do_not_come_back(tmp_path: Path) -> None:
    rows = [*said(*"abcd"), *({**m, "active": 0} for m in said("e", "f", start=T0 + 4))]
    rows += [{**m, "active": 0, "compacted": 1} for m in said("g", "h", start=T0 + 6)]
    database(tmp_path, rows)
    assert found(tmp_path) == {"missing_sidecar": True}
    assert words(mended(tmp_path)) == [*"abcd"]


def test_a_backup_does_not_bring_back_what_was_undone(tmp_path: Path) -> None:
    database(tmp_path, [*said(*"abcd"), *({**m, "active": 0} for m in said("e", "f", start=T0 + 4))])
    sidecar(tmp_path, said(*"abcdef"), ".json.bak")
    sidecar(tmp_path, [])
    assert words(mended(tmp_path)) == [*"abcd"]


@pytest.mark.parametrize("with_backup", [True, False])
def test_a_deliberate_undo_stays_although_the_database_has_more(tmp_path: Path, with_backup: bool) -> None:
    database(tmp_path, said(*"abcdef"))
    if with_backup:
        sidecar(tmp_path, said(*"abcdef"), ".json.bak")
    mark: dict[str, Any] = {"intentional_shrink_generation": MARK, "updated_at": T0 + 50}
    sidecar(tmp_path, said(*"abcd"), truncation_watermark=T0 + 3, truncation_boundary=T0 + 3, **mark)
    sidecar_index(tmp_path)
    assert found(tmp_path) == ({"intentional_shrink": False} if with_backup else {})
    assert look(tmp_path).steps == []


def test_a_deliberate_clear_stays_although_the_database_has_more(tmp_path: Path) -> None:
    database(tmp_path, said(*"abcdef"))
    sidecar(
        tmp_path,
        [],
        truncation_watermark=0.0,
        truncation_boundary=0.0,
        clear_generation=MARK,
        intentional_shrink_generation=MARK,
        updated_at=T0 + 50,
    )
    sidecar_index(tmp_path)
    assert look(tmp_path).findings == []


def test_a_compaction_by_hand_stays(tmp_path: Path) -> None:
    database(tmp_path, said(*LETTERS))
    summary = [{"role": "user", "content": "[CONTEXT COMPACTION] x"}]
    sidecar(tmp_path, said(*LETTERS), ".json.bak")
    head: dict[str, Any] = {"compression_anchor_mode": "manual", "updated_at": T0 + 50}
    sidecar(tmp_path, said(*LETTERS[:4]), context_messages=summary, **head)
    sidecar_index(tmp_path)
    assert found(tmp_path) == {"intentional_shrink": False}


def sidecar_index(home: Path) -> None:
    (home / "webui/sessions/_index.json").write_text(json.dumps([{"session_id": SID}]))


def test_a_lossy_copy_gets_its_calls_back(tmp_path: Path) -> None:
    rows = [*said("a"), call("c1", text="I look", at=T0 + 1), result("c1", "file", T0 + 2)]
    rows += said("b", "c", start=T0 + 3)
    database(tmp_path, rows)
    lossy = [{k: m[k] for k in ("role", "content", "timestamp")} for m in rows]
    sidecar(tmp_path, lossy[:-1], context_messages=[])
    assert found(tmp_path) == {"orphan_tool_row": True, "live_behind_db": True}
    side = mended(tmp_path)
    assert words(side) == ["a", "I look", "file", "b", "c"]
    assert side["messages"][1]["tool_calls"] and side["messages"][2]["tool_call_id"] == "c1"


def test_cards_stay_beside_their_messages(tmp_path: Path) -> None:
    card = {"name": "terminal", "tid": "t1", "assistant_msg_idx": 1, "done": True, "snippet": "ok"}
    sidecar(tmp_path, said(*"abcdef"), ".json.bak")
    sidecar(tmp_path, said("x", "y", start=T0 + 100), tool_calls=[card])
    side = mended(tmp_path)
    assert [c["assistant_msg_idx"] for c in side["tool_calls"]] == [7]
    assert words(side)[7] == "y"


@pytest.mark.parametrize("columns", [OLD, V30])
def test_databases_of_every_age_are_read(tmp_path: Path, columns: str) -> None:
    database(tmp_path, said(*LETTERS), columns=columns)
    assert found(tmp_path) == {"missing_sidecar": True}
    assert words(mended(tmp_path)) == LETTERS


def test_a_newer_database_is_reported_and_not_guessed_at(tmp_path: Path) -> None:
    path = database(tmp_path, said(*LETTERS))
    with apsw.Connection(str(path)) as db:
        db.execute("create table schema_version (version integer); insert into schema_version values (99)")
    db.close()
    sidecar(tmp_path, said("a", "b"))
    sidecar_index(tmp_path)
    seen = look(tmp_path)
    assert [(f.code, f.subject, f.safe) for f in seen.findings] == [("schema_unknown", "state.db", False)]


def test_a_damaged_database_does_not_stop_the_rest(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    sidecar(tmp_path, said(*LETTERS), ".json.bak")
    sidecar(tmp_path, [])
    codes = {f.code: f.safe for f in look(tmp_path).findings}
    assert codes == {"store_damaged": False, "shrunken_live": True, "index_missing": True}


def test_odd_files(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said(*"abcd"))
    (path.parent / "foreign.json").write_text('{"hello": 1}')
    (path.parent / "_index.json").write_text("[{")
    seen = {(f.code, f.subject, f.safe) for f in look(tmp_path).findings}
    assert seen == {("foreign_file", "foreign.json", False), ("index_corrupt", "_index.json", True)}
    mended(tmp_path)
    path.write_text(path.read_text().replace(SID, "another"))
    assert found(tmp_path) == {"session_id_mismatch": False}
    assert look(tmp_path).steps == []


def test_half_a_character_is_marked(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said(*"abcd"))
    path.write_text(path.read_text().replace('"b"', '"b\\ud83d"'))
    assert found(tmp_path) == {"lone_surrogate": True}
    assert words(mended(tmp_path)) == ["a", "b\ufffd", "c", "d"]


def test_an_orphan_backup_without_a_database_comes_back(tmp_path: Path) -> None:
    sidecar(tmp_path, said(*"abcd"), ".json.bak")
    assert found(tmp_path) == {"orphan_backup": True}
    assert words(mended(tmp_path)) == [*"abcd"]


def test_a_backup_that_nobody_can_read_is_reported(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said(*"abcd"), ".json.bak")
    path.write_bytes(b"{")
    assert found(tmp_path) == {"malformed_backup": False}
    database(tmp_path, said(*"abcd"))
    assert found(tmp_path) == {"malformed_backup": False, "missing_sidecar": True}
    assert words(mended(tmp_path)) == [*"abcd"]


def journal(home: Path, *lines: dict[str, Any], run: str = "") -> None:
    folder = home / "webui/sessions" / (f"_run_journal/{SID}" if run else "_turn_journal")
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{run}.jsonl" if run else f"{SID}~1.jsonl"
    (folder / name).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def test_a_prompt_whose_later_event_lacks_it_comes_back_with_its_answer(tmp_path: Path) -> None:
    sidecar(tmp_path, said(*"abcd"))
    first = {"event": "submitted", "turn_id": "t", "content": "lost", "created_at": T0 + 9, "stream_id": "s"}
    journal(tmp_path, first, {"event": "worker_started", "turn_id": "t", "created_at": T0 + 10})
    token = {
        "event": "token",
        "seq": 1,
        "payload": {"text": "one\u2028two\u0085three"},
        "created_at": T0 + 11,
    }
    journal(tmp_path, token, run="s")
    assert found(tmp_path) == {"journal_pending_turn": True}
    side = mended(tmp_path)
    assert words(side)[:6] == [*"abcd", "lost", "one\u2028two\u0085three"]
    assert side["messages"][6]["type"] == "interrupted"


def test_a_turn_that_the_database_has_in_full_is_not_called_interrupted(tmp_path: Path) -> None:
    database(tmp_path, [*said(*"abcd"), *said("[Workspace::v1: /w]\nlost", "answer", start=T0 + 9)])
    pending: dict[str, Any] = {
        "active_stream_id": "s",
        "pending_user_message": "lost",
        "pending_started_at": T0 + 9,
    }
    sidecar(tmp_path, said(*"abcd"), **pending)
    assert found(tmp_path) == {"stale_stream": True, "live_behind_db": True}
    side = mended(tmp_path)
    assert words(side) == [*"abcd", "lost", "answer"]
    assert side["active_stream_id"] is None


def test_a_session_that_another_continues_keeps_its_stream(tmp_path: Path) -> None:
    pending: dict[str, Any] = {
        "active_stream_id": "s",
        "pending_user_message": "p",
        "pending_started_at": T0 + 9,
    }
    path = sidecar(tmp_path, said(*"abcd"), **pending)
    child = {"session_id": "child", "parent_session_id": SID, "messages": []}
    (path.parent / "child.json").write_text(json.dumps(child))
    assert found(tmp_path) == {"stale_stream": False}


def test_a_temp_file_with_new_messages_stays(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said(*"abcd"))
    sidecar_index(tmp_path)
    (path.parent / f"{SID}.tmp.999999.1").write_text(json.dumps({"messages": said(*"abcd")}))
    (path.parent / f"{SID}.tmp.999999.2").write_text(json.dumps({"messages": said(*"abcdef")}))
    removed = [os.path.basename(step.path) for step in look(tmp_path).steps]
    assert removed == [f"{SID}.tmp.999999.1"]


def test_a_running_web_ui_is_reported(tmp_path: Path) -> None:
    path = database(tmp_path, said("a"))
    with open(path, "rb") as held:
        pid = os.fork()
        if pid == 0:
            os.read(os.pipe()[0], 1)
        signs = HermesInstall(str(tmp_path), {}).running()
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        assert held and any(f"process {pid} " in sign for sign in signs)
    assert HermesInstall(str(tmp_path), {}).running() == []


def test_rows_added_while_looking_do_not_matter_to_the_file(tmp_path: Path) -> None:
    path = database(tmp_path, said("a", "b"))
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode=wal; pragma wal_autocheckpoint=0")
    add(db, said("c", "d", start=T0 + 2))
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in os.listdir(tmp_path)}
    assert found(tmp_path) == {"missing_sidecar": True}
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in os.listdir(tmp_path)} == before
    db.close()


def test_a_worktree_comes_along_on_import() -> None:
    """Whichever store tells of it."""
    from holdfast.peers.hermes.reader import HermesReader
    from tests.unit.peers.hermes.test_doctor import FIXTURES

    (row,) = HermesReader().find(str(FIXTURES / "missing_sidecar_state_db" / "hermes-home"), "dbonly0001")
    assert row.worktree is not None and row.worktree.branch == "hermes/hermes-1234"
    assert row.worktree.repo_root == "/home/u/proj" and row.worktree.path == row.cwd
    (side,) = HermesReader().find(str(FIXTURES / "worktree_session_sidecar" / "hermes-home"), "wt0003")
    assert side.worktree is not None and side.worktree.path.endswith(side.worktree.branch.split("/")[1])


def test_nothing_is_recreated_that_may_be_deleted(tmp_path: Path) -> None:
    database(tmp_path, said(*"abcd"))
    sidecar(tmp_path, said(*"abcd"), ".json.bak")
    tombstones = tmp_path / "webui/sessions/_deleted_webui_sessions.json"
    tombstones.write_text('{"version": 1, "ids": ["ab')
    assert found(tmp_path) == {"orphan_backup": False}
    assert "tombstones_corrupt" in [f.code for f in look(tmp_path).findings]
    tombstones.write_text(json.dumps({"version": 1, "ids": [SID]}))
    assert found(tmp_path) == {"deleted_tombstone": False}
    assert look(tmp_path).steps == []


def test_a_fifo_in_the_folder_does_not_block(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said(*"abcd"))
    sidecar_index(tmp_path)
    os.mkfifo(path.parent / "fifo.json")
    (path.parent / "folder.json").mkdir()
    (path.parent / "folder.json.bak").mkdir()
    os.mkfifo(path.parent / "x.json.recover.tmp")
    seen = {(f.code, f.subject, f.safe) for f in look(tmp_path).findings}
    assert seen == {
        ("malformed_session", "fifo", False),
        ("malformed_session", "folder", False),
        ("malformed_backup", "folder", False),
        ("tmp_litter", "sessions/", False),
    }


def transcript(home: Path, messages: list[dict[str, Any]], **fields: Any) -> Path:
    """The agent's own, which has no times."""
    (home / "sessions").mkdir(exist_ok=True)
    path = home / "sessions" / f"session_{SID}.json"
    told = [{name: value for name, value in m.items() if name != "timestamp"} for m in messages]
    path.write_text(json.dumps({"session_id": SID, "platform": "webui", **fields, "messages": told}))
    return path


@pytest.mark.parametrize("live", ["wiped", "torn", "empty", "missing", "new"])
def test_the_agents_own_transcript_replaces_rows(tmp_path: Path, live: str) -> None:
    asked = [*said(*LETTERS), call("call-1234-a"), {**result("call-1234-a"), "unknown": 1}]
    transcript(tmp_path, asked)
    database(tmp_path, [], cwd="/w", title="t")
    codes = {
        "wiped": "live_behind_db",
        "torn": "torn_live",
        "empty": "empty_live",
        "missing": "missing_sidecar",
    }
    if live != "missing":
        path = sidecar(tmp_path, [] if live == "wiped" else said("x", "y"), context_messages=[])
        size = {"torn": 60, "empty": 0}.get(live, 1 << 20)
        path.write_bytes(path.read_bytes()[:size])
    if live == "new":
        assert found(tmp_path) == {}, "what is there may well be all that the user left"
        return
    assert found(tmp_path) == {codes[live]: True}
    side = mended(tmp_path)
    assert words(side) == [*LETTERS, "", "ok"]
    assert side["messages"][-1]["unknown"] == 1 and side["messages"][-2]["tool_calls"]


def test_a_transcript_does_not_bring_back_removed_messages(tmp_path: Path) -> None:
    transcript(tmp_path, said(*LETTERS))
    sidecar(tmp_path, [], truncation_boundary=0.0, truncation_watermark=0.0)
    assert found(tmp_path) == {}
    transcript(tmp_path, said(*LETTERS), session_id="another")
    sidecar(tmp_path, [])
    assert found(tmp_path) == {}


def test_rows_win_over_a_transcript(tmp_path: Path) -> None:
    transcript(tmp_path, said(*"vwxyz"))
    database(tmp_path, said(*LETTERS))
    sidecar(tmp_path, [])
    assert words(mended(tmp_path)) == LETTERS


def test_the_place_of_a_compaction_moves_with_its_message(tmp_path: Path) -> None:
    shown = [result("call-1234-a"), *said("x", "y", "z", start=T0 + 100)]
    sidecar(
        tmp_path, [*said("a", "b"), call("call-1234-a", at=T0 + 3), *said(*"cde", start=T0 + 5)], ".json.bak"
    )
    sidecar(tmp_path, shown, compression_anchor_visible_idx=1)  # at y
    side = mended(tmp_path)
    visible = [m["content"] for m in side["messages"] if m["role"] != "tool"]
    assert visible[side["compression_anchor_visible_idx"]] == "y"
    assert side["compression_anchor_visible_idx"] == 7


def test_a_journal_alone_does_not_make_a_session(tmp_path: Path) -> None:
    folder = tmp_path / "webui/sessions/_turn_journal"
    folder.mkdir(parents=True)
    line = {"turn_id": "t", "event": "submitted", "content": "asked", "created_at": T0, "stream_id": "s"}
    (folder / f"{SID}~99999999.jsonl").write_text(json.dumps(line))
    assert found(tmp_path) == {"journal_pending_turn": False}
    (tmp_path / "webui/sessions/_index.json").write_text(json.dumps([{"session_id": SID, "title": "Listed"}]))
    assert found(tmp_path) == {"journal_pending_turn": True}
    assert words(mended(tmp_path))[0] == "asked"


def test_a_folder_without_hermes_is_refused(tmp_path: Path) -> None:
    from holdfast import errors

    (tmp_path / "plan.json").write_text('{"a": 1}')
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(errors.NotFound, match="no Hermes"):
        HermesInstall(str(tmp_path), {})
    sidecar(tmp_path / "h", said(*LETTERS))
    for below in ("", "webui", "webui/sessions"):
        assert HermesInstall(str(tmp_path / "h" / below), {}).diagnose().findings
    os.rename(tmp_path / "h/webui/sessions", tmp_path / "copied")
    assert [f.code for f in HermesInstall(str(tmp_path / "copied"), {}).diagnose().findings] == [
        "index_missing"
    ]


@pytest.mark.parametrize("version", ["31", "'9000'", "'later'", "30.5", "x'ff'"])
def test_an_unknown_schema_is_reported(tmp_path: Path, version: str) -> None:
    database(tmp_path, said(*LETTERS))
    db = apsw.Connection(str(tmp_path / "state.db"))
    db.execute(
        f"create table if not exists schema_version (version); delete from schema_version;"
        f"insert into schema_version values ({version})"
    )
    db.close()
    sidecar(tmp_path, [])
    assert {f.code for f in look(tmp_path).findings if f.subject != "_index.json"} == {"schema_unknown"}


def test_the_database_with_messages_is_used(tmp_path: Path) -> None:
    database(tmp_path, [])
    database(tmp_path / "profiles/work", said(*LETTERS))
    assert words(mended(tmp_path)) == LETTERS


def test_lines_of_another_session_are_skipped(tmp_path: Path) -> None:
    sidecar(
        tmp_path, said(*LETTERS), active_stream_id="s", pending_user_message="p", pending_started_at=T0 + 50
    )
    folder = tmp_path / "webui/sessions"
    (folder / "_turn_journal").mkdir()
    (folder / f"_run_journal/{SID}").mkdir(parents=True)
    line = {
        "turn_id": "t",
        "event": "submitted",
        "content": "foreign",
        "created_at": T0,
        "session_id": "another",
    }
    (folder / f"_turn_journal/{SID}~99999999.jsonl").write_text(json.dumps(line))
    lines = [
        {"event": "token", "seq": 1, "session_id": "another", "run_id": "s", "payload": {"text": "foreign"}},
        {"event": "token", "seq": 2, "session_id": SID, "run_id": "other", "payload": {"text": "foreign"}},
        {"event": "token", "seq": 3, "session_id": SID, "run_id": "s", "payload": {"text": "own"}},
    ]
    (folder / f"_run_journal/{SID}/s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert found(tmp_path) == {"stale_stream": True}
    assert words(mended(tmp_path))[:-1] == [*LETTERS, "p", "own"]
