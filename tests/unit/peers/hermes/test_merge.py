"""Sidecar and database of Hermes put together: neither is better for being longer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.event import NewEvent
from holdfast.peers.hermes import merge
from holdfast.peers.hermes.merge import ComparableMessage
from holdfast.peers.hermes.reader import HermesReader
from holdfast.transcripts.reader import Inspection

T0 = 1_750_000_000.0
SID = "abc123def456"
MARK, OTHER_MARK = "0123456789ab4cde8f0123456789abcd", "f0123456789a4bcd9ef0123456789abc"  # uuid4().hex

OLD = (
    "id integer primary key autoincrement, session_id text not null, role text not null,"
    " content text, timestamp real"
)
V22 = (
    OLD + ", tool_call_id text, tool_calls text, tool_name text, effect_disposition text, finish_reason text,"
    " reasoning text, reasoning_content text, reasoning_details text, platform_message_id text,"
    " observed integer default 0, active integer default 1, compacted integer default 0, api_content text"
)
V30 = V22 + ", _compressed_summary integer, display_kind text, display_order integer"


def database(
    home: Path, rows: list[dict[str, Any]], columns: str = V22, name: str = "state.db", **header: Any
) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with apsw.Connection(str(path)) as db:
        db.execute(
            "create table sessions (id text primary key, source text not null, title text, cwd text,"
            " started_at real)"
        )
        db.execute(f"create table messages ({columns})")
        db.execute("create index idx_messages_session on messages(session_id, timestamp)")
        db.execute(
            "insert into sessions values (?, ?, ?, ?, ?)",
            (SID, header.get("source", "webui"), header.get("title"), header.get("cwd"), T0),
        )
        add(db, rows)
    db.close()
    return path


def add(db: apsw.Connection, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        values = {"session_id": SID, "timestamp": T0, **row}
        if isinstance(values.get("content"), list):
            values["content"] = "\0json:" + json.dumps(values["content"])
        if isinstance(values.get("tool_calls"), list):
            values["tool_calls"] = json.dumps(values["tool_calls"])
        marks = ", ".join("?" for _ in values)
        db.execute(f"insert into messages ({', '.join(values)}) values ({marks})", tuple(values.values()))


def sidecar(home: Path, messages: list[Any], ending: str = ".json", **head: Any) -> Path:
    folder = home / "webui" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{SID}{ending}"
    value = {"session_id": SID, "title": "t", "message_count": len(messages), **head, "messages": messages}
    value.setdefault("context_messages", messages)
    path.write_text(json.dumps(value, indent=2))
    return path


def said(*words: str, start: float = T0) -> list[dict[str, Any]]:
    """A user and an assistant in turns."""
    return [
        {"role": "assistant" if n % 2 else "user", "content": word, "timestamp": start + n}
        for n, word in enumerate(words)
    ]


def call(*ids: str, text: str = "", at: float = T0) -> dict[str, Any]:
    calls = [
        {"id": i, "type": "function", "function": {"name": "terminal", "arguments": '{"cmd": "ls"}'}}
        for i in ids
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls, "timestamp": at}


def result(own: str, output: str = "ok", at: float = T0) -> dict[str, Any]:
    return {"role": "tool", "content": output, "tool_call_id": own, "tool_name": "terminal", "timestamp": at}


def events(home: Path) -> list[NewEvent]:
    reader = HermesReader()
    places = reader.find(str(home), SID)
    assert len(places) == 1
    return list(reader.events(places[0]))


def inspect(home: Path) -> Inspection:
    reader = HermesReader()
    return reader.inspect(reader.find(str(home), SID)[0])


def codes(home: Path) -> list[str]:
    return [problem.code for problem in inspect(home).problems]


def words(found: list[NewEvent]) -> list[str]:
    return [event.body["text"] for event in found if event.kind in ("user", "assistant")]


def shown(found: list[NewEvent]) -> list[tuple[Any, ...]]:
    return [
        (e.kind, *(e.body[name] for name in ("call", "outcome", "code", "text") if name in e.body))
        for e in found
    ]


def test_a_sidecar_that_is_ahead_and_one_that_is_behind(tmp_path: Path) -> None:
    database(tmp_path, said("a", "b", "c", "d"))
    sidecar(tmp_path, said("a", "b", "c", "d", "e", "f"))
    assert words(events(tmp_path)) == ["a", "b", "c", "d", "e", "f"]
    assert codes(tmp_path) == []
    sidecar(tmp_path, said("a", "b"))
    assert words(events(tmp_path)) == ["a", "b", "c", "d"]
    assert codes(tmp_path) == ["live_behind_db"]


def test_each_store_has_what_the_other_lacks(tmp_path: Path) -> None:
    both = said("a", "b", "c", "d", "e", "f")
    database(tmp_path, both[:2] + both[4:])
    sidecar(tmp_path, both[:4])
    assert words(events(tmp_path)) == ["a", "b", "c", "d", "e", "f"]


def test_an_older_part_that_only_the_sidecar_has_comes_first(tmp_path: Path) -> None:
    both = said("a", "b", "c", "d")
    database(tmp_path, both[2:])
    sidecar(tmp_path, both)
    assert words(events(tmp_path)) == ["a", "b", "c", "d"]


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    both = said("go on", "done", "go on", "done", "go on", "done")
    database(tmp_path, both[:4])
    sidecar(tmp_path, both)
    assert words(events(tmp_path)) == ["go on", "done"] * 3
    sidecar(tmp_path, said("go on", start=T0 + 200_000))  # said again, days later, after a wipe
    assert words(events(tmp_path)) == ["go on", "done", "go on", "done", "go on"]


def test_what_the_web_ui_adds_to_a_prompt_is_not_said(tmp_path: Path) -> None:
    rows = [
        {"role": "user", "content": "[Workspace::v1: /home/a \\] b]\nhello"},
        {"role": "assistant", "content": "hi "},
    ]
    database(tmp_path, rows)
    sidecar(tmp_path, said("hello\n\n[Attached files: a.png]", "hi"))
    assert words(events(tmp_path)) == ["hello", "hi "]
    assert codes(tmp_path) == []


def test_an_image_is_the_same_message_in_both_stores(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    database(tmp_path, [{"role": "user", "content": parts}, {"role": "assistant", "content": "ok"}])
    sidecar(
        tmp_path,
        [{"role": "user", "content": parts, "timestamp": T0}, {"role": "assistant", "content": "ok"}],
    )
    assert words(events(tmp_path)) == ["look\n[image_url]", "ok"]


def test_old_and_new_schemas(tmp_path: Path) -> None:
    for n, columns in enumerate((OLD, V22, V30)):
        home = tmp_path / str(n)
        database(home, said("a", "b"), columns)
        assert words(events(home)) == ["a", "b"]
        assert codes(home) == ["missing_sidecar"]
    summary = [*said("a", "b"), {"role": "user", "content": "summed up", "_compressed_summary": 1}]
    database(tmp_path / "s", summary, V30)
    assert shown(events(tmp_path / "s"))[-1] == ("notice", "compacted", "summed up")


def test_sessions_of_other_surfaces_need_no_sidecar(tmp_path: Path) -> None:
    database(tmp_path, said("a", "b"), source="telegram")
    assert (codes(tmp_path), inspect(tmp_path).sound) == ([], True)


def test_undone_rows_become_a_notice(tmp_path: Path) -> None:
    rows = said("a", "b", "c", "d")
    rows[2]["active"] = rows[3]["active"] = 0
    database(tmp_path, [*rows, *said("e", "f", start=T0 + 9)])
    found = events(tmp_path)
    assert shown(found) == [
        ("user", "a"),
        ("assistant", "b"),
        ("notice", "undone", "the user undid 2 messages"),
        ("user", "e"),
        ("assistant", "f"),
    ]


def test_rows_that_the_web_ui_cut_off_stay_off(tmp_path: Path) -> None:
    database(tmp_path, [*said("a", "b", "c", "d"), *said("e", "f", start=T0 + 100)])
    cut: dict[str, Any] = {"truncation_boundary": T0 + 1, "truncation_watermark": T0 + 100}
    sidecar(tmp_path, [*said("a", "b"), *said("e", start=T0 + 100)], **cut)
    assert words(events(tmp_path)) == ["a", "b", "e", "f"]  # the answer to `e` is in the database only
    sidecar(tmp_path, [], truncation_boundary=0.0, truncation_watermark=0.0, clear_generation="x")
    assert words(events(tmp_path)) == []
    assert "live_behind_db" not in codes(tmp_path)
    sidecar(tmp_path, [])  # nobody cleared it
    assert len(words(events(tmp_path))) == 6
    assert codes(tmp_path) == ["live_behind_db"]


def test_a_compaction_is_marked_and_what_it_kept_is_not_told_again(tmp_path: Path) -> None:
    before = [
        *said("a", "b", "c"),
        call("call_9f8e7d6c5b4a"),
        result("call_9f8e7d6c5b4a"),
        *said("x", "d")[1:],
    ]
    old = [{**row, "active": 0, "compacted": 1} for row in before]
    summary = {"role": "user", "content": "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns …"}
    kept = [{**row, "timestamp": T0 + 500} for row in before[:1]]
    tail = [{**row, "timestamp": T0 + 500} for row in before[2:]]
    database(tmp_path, [*old, *kept, summary, *tail, *said("a", "after", start=T0 + 600)])
    found = events(tmp_path)
    assert [event.kind for event in found] == [
        "user",
        "assistant",
        "user",
        "tool_progress",
        "tool_summary",
        "assistant",
        "notice",
        "user",
        "assistant",
    ]
    assert words(found) == ["a", "b", "c", "d", "a", "after"]


def test_a_dangling_call_ends_where_its_turn_ends(tmp_path: Path) -> None:
    rows = [*said("a"), call("call_1", "call_2"), result("call_1"), *said("b", "c")]
    database(tmp_path, rows)
    assert shown(events(tmp_path)) == [
        ("user", "a"),
        ("tool_progress", "call_1"),
        ("tool_progress", "call_2"),
        ("tool_summary", "call_1", "ok"),
        ("tool_summary", "call_2", "interrupted"),
        ("user", "b"),
        ("assistant", "c"),
    ]
    seen = inspect(tmp_path)
    assert seen.dangling == [{"call": "call_2", "name": "terminal", "input": {"cmd": "ls"}}]
    assert "dangling_call" in codes(tmp_path) and not seen.sound
    assert (seen.turns, seen.last_complete) == (2, 2)


def test_a_result_that_comes_late_is_the_result(tmp_path: Path) -> None:
    database(
        tmp_path, [*said("a"), call("call_1"), *said("b"), result("call_1", "late"), *said("x", "c")[1:]]
    )
    assert shown(events(tmp_path))[2:4] == [("user", "b"), ("tool_summary", "call_1", "ok")]
    assert inspect(tmp_path).dangling == []


def test_ids_that_count_anew_in_every_turn_are_other_calls(tmp_path: Path) -> None:
    turn = [call("call_1"), result("call_1")]
    rows = [*said("a"), *turn, *said("b"), *turn, *said("x", "c")[1:]]
    database(tmp_path, rows)
    sidecar(tmp_path, rows)
    found = events(tmp_path)
    assert [event.kind for event in found].count("tool_progress") == 2
    assert [e.body["outcome"] for e in found if e.kind == "tool_summary"] == ["ok", "ok"]
    origins = [event.origin for event in found]
    assert None not in origins and len(set(origins)) == len(found)


def test_an_id_that_is_used_again_ends_the_call_that_had_it(tmp_path: Path) -> None:
    database(tmp_path, [*said("a"), call("call_1"), call("call_1"), result("call_1"), *said("x", "b")[1:]])
    assert shown(events(tmp_path))[1:5] == [
        ("tool_progress", "call_1"),
        ("tool_summary", "call_1", "interrupted"),
        ("tool_progress", "call_1"),
        ("tool_summary", "call_1", "ok"),
    ]


def test_results_say_how_a_tool_ended(tmp_path: Path) -> None:
    outputs = {
        '{"output": "", "exit_code": 0}': "ok",
        '{"output": "", "exit_code": 2, "error": "x"}': "error",
        '{"output": "[Command interrupted]", "exit_code": 130}': "interrupted",
        '{"success": false, "error": "no such file"}': "error",
        "Error: unknown tool": "error",
        "[Tool execution cancelled — terminal was skipped]": "interrupted",
        "plain": "ok",
    }
    rows = [*said("a"), call(*[f"c{n}" for n in range(len(outputs))])]
    rows += [result(f"c{n}", output) for n, output in enumerate(outputs)]
    rows += [call("d"), {**result("d"), "effect_disposition": "unknown"}, *said("x", "end")[1:]]
    database(tmp_path, rows)
    found = [e.body["outcome"] for e in events(tmp_path) if e.kind == "tool_summary"]
    assert found == [*outputs.values(), "interrupted"]


def test_orphan_and_doubled_results(tmp_path: Path) -> None:
    rows = [
        *said("a"),
        call("call_1"),
        result("call_1"),
        result("call_1", "again"),
        result("gone"),
        *said("x", "b")[1:],
    ]
    database(tmp_path, rows)
    assert shown(events(tmp_path))[2:4] == [("tool_summary", "call_1", "ok"), ("tool_summary", "gone", "ok")]
    assert codes(tmp_path) == ["missing_sidecar", "orphan_tool_row", "duplicate_result"]


def test_marks_of_the_web_ui_are_no_answers(tmp_path: Path) -> None:
    marker = {
        "role": "assistant",
        "content": "**Response interrupted.**",
        "_error": True,
        "type": "interrupted",
    }
    failed = {"role": "assistant", "content": "no credit", "_error": True, "type": "quota_exhausted"}
    partial = {
        "role": "assistant",
        "content": "half an ans",
        "_partial": True,
        "_partial_tool_calls": [{"name": "terminal", "args": {"cmd": "ls"}, "done": True, "snippet": "out"}],
    }
    sidecar(tmp_path, [*said("a"), partial, partial, marker, *said("b"), failed])
    found = events(tmp_path)
    assert shown(found) == [
        ("user", "a"),
        ("assistant", "half an ans"),
        ("tool_progress", "sidecar-1-0"),
        ("tool_summary", "sidecar-1-0", "ok"),
        ("notice", "interrupted", "**Response interrupted.**"),
        ("user", "b"),
        ("error", "quota_exhausted", "no credit"),
    ]
    assert found[1].body["partial"] is True
    seen = inspect(tmp_path)
    assert (seen.turns, seen.last_complete) == (2, None)
    assert codes(tmp_path) == ["duplicate_partials", "no_reply"]


def test_tool_cards_that_are_nowhere_else_are_calls(tmp_path: Path) -> None:
    messages = [*said("a", "b"), call("call_1"), result("call_1"), *said("x", "c")[1:]]
    cards = [
        {
            "name": "terminal",
            "tid": "call_1",
            "assistant_msg_idx": 2,
            "args": {},
            "snippet": "ok",
            "done": True,
        },
        {
            "name": "read",
            "tid": "journal-4",
            "assistant_msg_idx": 1,
            "args": {"p": 1},
            "snippet": "text",
            "done": False,
            "_recovered_from_run_journal": True,
        },
        {"name": "odd", "assistant_msg_idx": 99},
        "no card",
    ]
    sidecar(tmp_path, messages, tool_calls=cards)
    found = [(e.kind, e.body["call"]) for e in events(tmp_path) if e.kind.startswith("tool")]
    assert found == [
        ("tool_progress", "journal-4"),
        ("tool_progress", "call_1"),
        ("tool_summary", "call_1"),
        ("tool_summary", "journal-4"),
    ]


def test_a_run_that_the_web_ui_recovered_is_not_told_twice(tmp_path: Path) -> None:
    recovered = {
        "role": "assistant",
        "content": "half",
        "_recovered_from_run_journal": True,
        "_recovered_stream_id": "s1",
    }
    path = sidecar(
        tmp_path,
        [*said("a"), recovered],
        active_stream_id="s1",
        pending_user_message="a",
        pending_started_at=T0,
    )
    folder = path.parent / "_run_journal" / SID
    folder.mkdir(parents=True)
    line = {"event": "token", "seq": 1, "payload": {"text": "half"}}
    (folder / "s1.jsonl").write_text(json.dumps(line) + "\n")
    assert words(events(tmp_path)) == ["a", "half"]
    assert "stale_stream" in codes(tmp_path)


def test_a_prompt_under_way_is_told_once(tmp_path: Path) -> None:
    pending: dict[str, Any] = {
        "active_stream_id": "s1",
        "pending_user_message": "b",
        "pending_started_at": T0 + 5,
    }
    path = sidecar(tmp_path, said("b", "earlier"), **pending)
    folder = path.parent / "_turn_journal"
    folder.mkdir()
    turn = {"event": "submitted", "turn_id": "t1", "stream_id": "s1", "content": "b", "created_at": T0 + 6}
    (folder / f"{SID}~1.jsonl").write_text(json.dumps(turn) + "\n")
    assert words(events(tmp_path)) == ["b", "earlier", "b"]
    database(tmp_path, [*said("b", "earlier"), *said("b", start=T0 + 5)])
    assert words(events(tmp_path)) == ["b", "earlier", "b"]


def test_a_turn_that_ended_is_not_lost(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said("a", "b"))
    folder = path.parent / "_turn_journal"
    folder.mkdir()
    lines = [
        {"event": "completed", "turn_id": "t1", "created_at": T0 + 9},
        {"event": "submitted", "turn_id": "t1", "content": "x\u2028y", "created_at": T0},
        {"event": "worker_started", "turn_id": "t2", "created_at": T0 + 20},
        {"event": "submitted", "turn_id": "t2", "content": "lost", "created_at": T0 + 19},
    ]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (folder / f"{SID}~1.jsonl").write_text(text + "\n")
    assert words(events(tmp_path)) == ["a", "b", "lost"]
    assert codes(tmp_path) == ["journal_pending_turn", "no_reply"]


def test_backup_and_sidecar_are_compared_by_content(tmp_path: Path) -> None:
    sidecar(tmp_path, said("a", "b", "c", "d"), ".json.bak")
    sidecar(tmp_path, said("a", "b", "c", "d", "e", "f"))
    assert codes(tmp_path) == []
    sidecar(tmp_path, said("n", "o", start=T0 + 50))
    assert words(events(tmp_path)) == ["a", "b", "c", "d", "n", "o"]
    assert codes(tmp_path) == ["shrunken_live"]
    sidecar(tmp_path, said("n", "o", "p", "q", "r", "s", start=T0 + 50))
    assert len(words(events(tmp_path))) == 10
    assert codes(tmp_path) == ["content_diverged"]


@pytest.mark.parametrize(
    ("mine", "theirs", "shrunk"),
    [
        (MARK, None, False),
        (MARK, OTHER_MARK, False),
        ("0" * 32, None, True),
        (MARK.upper(), None, True),
        (MARK, "garbage", True),
        (True, None, True),
        (None, MARK, True),
        (MARK, MARK, True),  # the backup is from after the shrink: what it has more was lost
    ],
)
def test_only_a_real_mark_makes_a_shrink_meant(tmp_path: Path, mine: Any, theirs: Any, shrunk: bool) -> None:
    sidecar(tmp_path, said("a", "b", "c", "d"), ".json.bak", intentional_shrink_generation=theirs)
    sidecar(tmp_path, said("a", "b"), intentional_shrink_generation=mine)
    assert codes(tmp_path) == (["shrunken_live"] if shrunk else ["intentional_shrink"])
    assert len(words(events(tmp_path))) == (4 if shrunk else 2)


def test_a_loss_after_a_compaction_is_a_loss(tmp_path: Path) -> None:
    marked = [{"role": "user", "content": "[CONTEXT COMPACTION] x"}, *said("e", "f")]
    head = {"compression_anchor_mode": "manual"}
    sidecar(tmp_path, said("a", "b", "c", "d"), ".json.bak", context_messages=marked, **head)
    sidecar(tmp_path, said("a", "b"), context_messages=marked[:1], **head)
    assert codes(tmp_path) == ["shrunken_live"]


def test_torn_and_odd_sidecars_beside_a_whole_database(tmp_path: Path) -> None:
    database(tmp_path, said("a", "b", "c", "d"))
    path = sidecar(tmp_path, said("a", "b", "c", "d", "e", "f"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b'"f"')])
    assert words(events(tmp_path)) == ["a", "b", "c", "d", "e"]
    assert "torn_live" in codes(tmp_path)
    path.write_bytes(whole.replace(b'"c"', b'"c', 1))  # in the middle: what follows is read too
    assert words(events(tmp_path)) == ["a", "b", "c", "d", "e", "f"]
    for data, code in (
        (b"", "empty_live"),
        (b"\0" * 100, "empty_live"),
        (b"[1]", "malformed_session"),  # its row tells that a session was there
        (b'{"session_id": "x", "messages": 3}', "malformed_session"),
        (whole.replace(SID.encode(), b"other", 1), "session_id_mismatch"),
        (whole.replace(b'"a"', b'"\\ud83d"'), "lone_surrogate"),
    ):
        path.write_bytes(data)
        assert code in codes(tmp_path)
        assert [w for w in words(events(tmp_path)) if w in "abcd"][-3:] == ["b", "c", "d"]
    os.unlink(path)
    assert codes(tmp_path) == ["missing_sidecar"]


def test_a_profile_has_its_own_database(tmp_path: Path) -> None:
    database(tmp_path, said("a", "b"), name="profiles/work/state.db")
    assert words(events(tmp_path)) == ["a", "b"]
    sidecar(tmp_path, said("a", "b", "c"), profile="work")
    assert words(events(tmp_path)) == ["a", "b", "c"]


def test_a_hot_database_is_read_with_its_log(tmp_path: Path) -> None:
    path = database(tmp_path, said("a", "b"))
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode=wal; pragma wal_autocheckpoint=0")
    add(db, said("c", "d"))
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    assert words(events(tmp_path)) == ["a", "b", "c", "d"]
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    db.close()


def test_a_database_that_is_none_is_a_problem_and_no_end(tmp_path: Path) -> None:
    sidecar(tmp_path, said("a", "b"))
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert words(events(tmp_path)) == ["a", "b"]
    assert "store_damaged" in codes(tmp_path)
    os.unlink(tmp_path / "state.db")
    apsw.Connection(str(tmp_path / "state.db")).execute("create table t (x)").connection.close()
    assert "schema_unknown" in codes(tmp_path)


def test_who_writes_to_a_session_owns_it(tmp_path: Path) -> None:
    path = sidecar(tmp_path, said("a", "b"))
    folder = path.parent / "_turn_journal"
    folder.mkdir()
    line = {"event": "submitted", "turn_id": "t", "content": "x", "created_at": T0}
    shard = folder / f"{SID}~{os.getpid()}.jsonl"
    shard.write_text(json.dumps(line) + "\n")
    reader = HermesReader()
    place = reader.find(str(tmp_path), SID)[0]
    assert reader.owners(str(tmp_path), place) == [os.getpid()]
    shard.write_text(json.dumps(line) + "\n" + json.dumps({**line, "event": "completed"}) + "\n")
    assert reader.owners(str(tmp_path), place) == []


items = st.lists(
    st.builds(
        ComparableMessage,
        st.sampled_from([b"a", b"b", b"c", b"d"]),
        st.none() | st.floats(0, 1e6),
        st.just(b""),
        st.just(False),
    ),
    max_size=12,
)


@given(items, items)
@settings(max_examples=500)
def test_no_message_of_either_copy_is_lost_or_doubled(
    first: list[ComparableMessage], second: list[ComparableMessage]
) -> None:
    plan = merge.plan_merge(first, second)
    alone = [n for places in plan.after.values() for n in places]
    assert sorted([*plan.pairs, *alone]) == list(range(len(second)))
    assert len(set(plan.pairs.values())) == len(plan.pairs)
    assert all(first[theirs].key == second[mine].key for mine, theirs in plan.pairs.items())
    assert all(-1 <= place < max(len(first), 1) for place in plan.after)


@given(items, st.data())
def test_a_copy_adds_nothing_and_a_longer_one_only_its_end(
    first: list[ComparableMessage], data: st.DataObject
) -> None:
    first = [ComparableMessage(item.key, float(n)) for n, item in enumerate(first)]
    assert merge.plan_merge(first, first) == merge.MergePlan({n: n for n in range(len(first))}, {})
    part = data.draw(st.integers(0, len(first)))
    plan = merge.plan_merge(first[:part], first)
    assert [n for places in plan.after.values() for n in places] == list(range(part, len(first)))
    assert merge.plan_merge(first, first[:part]).after == {}
