"""OpenCode's database with damaged pages, flipped bits and cut ends: what can be read is read."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.agents.opencode.reader import OpenCodeReader
from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import encode
from holdfast.transcripts.reader import SessionRef
from tests.support import paths

FIXTURES = os.path.join(paths.FIXTURES, "history", "opencode")
SESSION = "ses_e1ebc097affed8WqPs88eCJsFR"
PAGE = 4096
FIELDS = ["type", "text", "tool", "callID", "state", "status", "input", "output", "metadata", "time", "start"]
FIELDS += ["error", "name", "data", "files"]


def read(folder: str, id: str = SESSION) -> tuple[list[NewEvent], list[str]]:
    """Everything a reader can be asked of a session, whatever the file holds."""
    reader = OpenCodeReader()
    path = os.path.join(folder, "opencode.db")
    list(reader.sessions(folder))
    for place in reader.find(folder, id) or [SessionRef(agent="opencode", native_id=id, path=path)]:
        events = list(reader.events(place))
        for event in events:
            check(event)
            encode(event.body)
        seen = reader.inspect(place)
        assert seen.sound == (not seen.problems)
        return events, [problem.code for problem in seen.problems]
    raise AssertionError


def table_pages(path: str, table: str) -> list[int]:
    db = apsw.Connection(path)
    sql = "select distinct pageno from dbstat where name = ? and pagetype = 'leaf'"
    pages = [int(number) for (number,) in db.execute(sql, (table,))]
    db.close()
    return pages


def many_messages(folder: str) -> str:
    """The recorded database with so many messages that they take many pages."""
    shutil.copytree(os.path.join(FIXTURES, "tool_call"), folder, dirs_exist_ok=True)
    path = os.path.join(folder, "opencode.db")
    db = apsw.Connection(path)
    with db:
        db.execute("delete from part; delete from message; delete from event")
        for n in range(200):
            role = "assistant" if n % 2 else "user"
            message = f'{{"role":"{role}","time":{{"created":1,"completed":2}},"finish":"stop"}}'
            db.execute("insert into message values(?,?,?,?,?)", (f"msg_{n:08d}", SESSION, n, n, message))
            said = f'{{"type":"text","text":"number {n} {"x" * 500}"}}'
            db.execute(
                "insert into part values(?,?,?,?,?,?)", (f"prt_{n:08d}", f"msg_{n:08d}", SESSION, n, n, said)
            )
    db.execute("vacuum")
    db.close()
    return path


def numbers(events: list[NewEvent]) -> list[int]:
    return [int(e.body["text"].split()[1]) for e in events if e.kind in ("user", "assistant")]


@pytest.mark.parametrize("table", ["message", "part"])
def test_one_bad_page_costs_what_is_on_it(tmp_path: Path, table: str) -> None:
    path = many_messages(str(tmp_path))
    pages = table_pages(path, table)
    with open(path, "rb") as file:
        whole = file.read()
    assert len(pages) > 5 and numbers(read(str(tmp_path))[0]) == list(range(200))
    for page in random.Random(1).sample(pages, 3):
        with open(path, "wb") as file:
            file.write(whole[: (page - 1) * PAGE] + b"\xaa" * PAGE + whole[page * PAGE :])
        events, problems = read(str(tmp_path))
        kept = numbers(events)
        assert 140 <= len(kept) < 200 and kept == sorted(kept)
        assert "store_damaged" in problems
        assert any(event.body.get("code") == "store_damaged" for event in events)


@pytest.mark.parametrize("name", ["message", "part"])
def test_a_bad_index_costs_nothing(tmp_path: Path, name: str) -> None:
    path = many_messages(str(tmp_path))
    db = apsw.Connection(path)
    sql = "select pageno from dbstat join sqlite_schema using(name) where tbl_name = ? and type = 'index'"
    pages = [int(number) for (number,) in db.execute(sql, (name,))]
    db.close()
    with open(path, "r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(b"\xaa" * PAGE)
    events, problems = read(str(tmp_path))
    assert numbers(events) == list(range(200)) and "store_damaged" in problems


def test_an_index_that_is_bad_further_on_repeats_nothing(tmp_path: Path) -> None:
    path = many_messages(str(tmp_path))
    db = apsw.Connection(path)
    sql = "select pageno from dbstat where name glob 'message_*' and pagetype = 'leaf' order by path"
    pages = [int(number) for (number,) in db.execute(sql)]
    db.close()
    assert len(pages) > 2
    with open(path, "r+b") as file:
        file.seek((pages[-1] - 1) * PAGE)
        file.write(b"\xaa" * PAGE)
    events, problems = read(str(tmp_path))
    assert numbers(events) == list(range(200)) and "store_damaged" in problems


def test_a_message_of_many_parts_loses_only_those_on_the_bad_page(tmp_path: Path) -> None:
    path = many_messages(str(tmp_path))
    db = apsw.Connection(path)
    db.execute("update part set message_id = 'msg_00000000'; vacuum")
    db.close()
    page = table_pages(path, "part")[5]
    with open(path, "r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xaa" * PAGE)
    events, problems = read(str(tmp_path))
    kept = numbers(events)
    assert 170 <= len(kept) < 200 and kept == sorted(set(kept)) and kept[-1] == 199
    assert "store_damaged" in problems


def test_each_page_lost_in_turn(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, "tool_call"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "opencode.db"
    whole = path.read_bytes()
    good, _ = read(str(tmp_path))
    same = 0
    for page in range(len(whole) // PAGE):
        path.write_bytes(whole[: page * PAGE] + bytes(PAGE) + whole[(page + 1) * PAGE :])
        events, _ = read(str(tmp_path))
        same += events == good
    assert same > len(whole) // PAGE // 2  # most pages are of other tables


def test_cut_short(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, "tool_call"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "opencode.db"
    whole = path.read_bytes()
    for size in [0, 1, 15, 16, 99, 100, 511, 512, 4095, 4096, *range(4097, len(whole), 20_011)]:
        path.write_bytes(whole[:size])
        _, problems = read(str(tmp_path))
        assert problems


def test_a_cut_wal_shows_an_earlier_commit(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, "crash_midtool"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "opencode.db-wal"
    whole = path.read_bytes()
    counts = []
    for size in range(len(whole), 0, -50_021):
        path.write_bytes(whole[:size])
        counts.append(len(read(str(tmp_path), "ses_e1ea80fb8ffeLgO727mf4Oq0Gk")[0]))
    assert counts[0] == 4 and counts[-1] <= 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=40))
def test_any_bytes(tmp_path: Path, flips: Any) -> None:
    folder = tmp_path / "flipped"
    folder.mkdir(exist_ok=True)
    with open(os.path.join(FIXTURES, "two_sessions", "opencode.db"), "rb") as file:
        data = bytearray(file.read())
    for place, value in flips:
        data[place % len(data)] ^= value
    (folder / "opencode.db").write_bytes(data)
    began = time.monotonic()
    read(str(folder), "ses_e1e72e878ffeSqAR70RJaGEEwV")
    assert time.monotonic() - began < 20


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=5,
            )
        ),
        max_leaves=15,
    ),
    st.sampled_from(
        ["text", "tool", "reasoning", "file", "patch", "retry", "subtask", "compaction", "agent"]
    ),
    st.sampled_from(["user", "assistant"]),
)
def test_any_value_in_every_field(value: Any, kind: Any, role: Any) -> None:
    from holdfast.agents.opencode.database import OpenCodeRow, OpenCodeSession
    from holdfast.agents.opencode.events import OpenCodeConversation

    part = (
        {**value, "type": kind} if isinstance(value, dict) else {"type": kind, "state": value, "text": value}
    )
    message = {"role": role, "error": value, "time": value, "finish": value, "summary": value}
    conversation = OpenCodeConversation("opencode", OpenCodeSession(id="ses_1"))
    events = [
        *conversation.on_message(OpenCodeRow(id="msg_1", data=message), [OpenCodeRow(id="prt_1", data=part)]),
        *conversation.end(),
    ]
    for event in events:
        check(event)
    conversation.turns.problems()
