"""Any bytes at all in Hermes's files: never an exception, and what is readable is read."""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.commit import Commit, prepare
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import encode
from holdfast.peers.hermes import sidecar
from holdfast.peers.hermes.reader import HermesReader
from holdfast.transcripts.reader import SessionRef
from tests.support import paths
from tests.unit.peers.hermes.test_merge import SID, T0, V30, add, call, database, result, said
from tests.unit.peers.hermes.test_merge import sidecar as write

FIXTURES = paths.FIXTURES / "history" / "hermes"
NOW = "2026-01-01T00:00:00.000000Z"


def read_all(home: Path) -> dict[str, list[NewEvent]]:
    """Everything that can be asked of a home; all events must be storable."""
    reader = HermesReader()
    found: dict[str, list[NewEvent]] = {}
    places = {place.native_id: place for place in reader.sessions(str(home))}
    for native_id, place in places.items():
        found[native_id] = list(reader.events(place))
        prepare(Commit("s", found[native_id]), NOW)
        calls = [e.body["call"] for e in found[native_id] if e.kind == "tool_progress"]
        ends = [e.body["call"] for e in found[native_id] if e.kind == "tool_summary"]
        assert set(calls) <= set(ends)
        encode(reader.inspect(place))
        reader.files(place), reader.owners(str(home), place)
    return found


def words(events: list[NewEvent]) -> list[str]:
    return [event.body["text"] for event in events if event.kind in ("user", "assistant")]


def test_a_sidecar_cut_at_every_byte(tmp_path: Path) -> None:
    messages = [
        *said("first é", "second"),
        call("c1", text="😀"),
        result("c1", "out"),
        *said("x", "last")[1:],
    ]
    whole = write(tmp_path, messages).read_bytes()
    ends = [whole.index(mark) + len(mark) for mark in (b'"first \\u00e9"', b'"second"', b'"last"')]
    for cut in range(len(whole)):
        side = sidecar.read("p", whole[:cut])
        complete = sum(1 for end in ends if cut > whole.index(b"}", end))
        got = [m.get("content") for m in side.messages if isinstance(m, dict)]
        assert len([w for w in got if w in ("first é", "second", "last")]) == complete
        if cut % 37 == 0:
            write(tmp_path, messages).write_bytes(whole[:cut])
            read_all(tmp_path)


def test_one_bad_message_costs_only_itself(tmp_path: Path) -> None:
    messages = said(*[f"m{n}" for n in range(20)])
    path = write(tmp_path, messages, context_messages=[])
    whole = path.read_bytes()
    for n in (0, 7, 19):
        mark = f'"m{n}"'.encode()
        for bad in (b'"m', b"m", b"\xff\xfe", b'"m\n"', b"}", b"[[[[", b""):
            path.write_bytes(whole.replace(mark, bad, 1))
            found = words(read_all(tmp_path)[SID])
            assert [w for w in found if w.startswith("m") and w[1:].isdigit()] == [
                f"m{k}" for k in range(20) if k != n
            ]


@pytest.mark.parametrize("case", sorted(p.name for p in FIXTURES.iterdir() if p.is_dir()))
def test_fixtures_with_flipped_doubled_and_swapped_bytes(case: str, tmp_path: Path) -> None:
    chance = random.Random(case)
    source = FIXTURES / case / "hermes-home"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    for n in range(6):
        home = tmp_path / str(n)
        shutil.copytree(source, home)
        for _ in range(chance.randint(1, 3)):
            path = home / chance.choice(files)
            path.write_bytes(mutated(path.read_bytes(), chance))
        read_all(home)


def mutated(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return bytes(chance.randrange(256) for _ in range(20))
    at, to = sorted(chance.randrange(len(data)) for _ in range(2))
    way = chance.randrange(7)
    if way == 0:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if way == 1:
        return data[:at]
    if way == 2:
        return data[:to] + data[at:]
    if way == 3:
        return data[to:] + data[:at] + data[at:to]
    if way == 4:
        return data[:at] + b"\0" * (to - at) + data[to:]
    if way == 5:
        return data[:at] + bytes(chance.randrange(256) for _ in range(16)) + data[at + 16 :]
    return data + data


def test_a_database_with_every_page_spoiled_in_turn(tmp_path: Path) -> None:
    path = database(tmp_path, said(*[f"m{n} " + "x" * 900 for n in range(40)]))
    whole = path.read_bytes()
    size = 4096
    for page in range(len(whole) // size):
        path.write_bytes(whole[: page * size] + b"\xa5" * size + whole[(page + 1) * size :])
        found = read_all(tmp_path)
        if found:
            assert len(words(found[SID])) >= 30 or page < 8
    place = SessionRef(agent="hermes", native_id=SID, path=str(path))
    path.write_bytes(whole[: size * 8])
    assert "store_damaged" in [p.code for p in HermesReader().inspect(place).problems]


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**30), 1e308, 0.0, -5.5, math.nan, math.inf]),
    st.text(st.characters(codec=None), max_size=12),
    st.sampled_from(
        ["\ud83d", "\0json:[{}", '\0json:{"text": 3}', "\0", "tool", "assistant", "user", "{", '{"a": 1}']
    ),
    st.recursive(
        st.just({}),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
)
names = st.sampled_from(
    [
        "role",
        "content",
        "timestamp",
        "id",
        "message_id",
        "tool_calls",
        "tool_call_id",
        "tool_name",
        "name",
        "reasoning",
        "reasoning_content",
        "_error",
        "type",
        "_partial",
        "_partial_tool_calls",
        "_recovered_stream_id",
        "_compressed_summary",
        "observed",
        "interruption_cause",
    ]
)
calls = st.lists(
    st.dictionaries(
        st.sampled_from(["id", "function", "name", "args", "arguments", "tid", "done", "snippet"]), odd
    )
    | st.fixed_dictionaries(
        {"id": odd, "function": st.dictionaries(st.sampled_from(["name", "arguments"]), odd)}
    ),
    max_size=3,
)
message = st.one_of(
    st.dictionaries(names, odd, max_size=6),
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system", "x"])},
        optional={
            "content": odd | st.lists(odd, max_size=2),
            "tool_calls": calls,
            "tool_call_id": odd,
            "timestamp": odd,
        },
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "_partial": st.just(True), "_partial_tool_calls": calls}
    ),
    odd,
)
head = st.dictionaries(
    st.sampled_from(
        [
            "session_id",
            "title",
            "workspace",
            "worktree_path",
            "updated_at",
            "active_stream_id",
            "pending_user_message",
            "pending_started_at",
            "clear_generation",
            "intentional_shrink_generation",
            "truncation_watermark",
            "truncation_boundary",
            "message_count",
            "compression_anchor_mode",
            "compression_anchor_summary",
            "context_messages",
            "pre_compression_snapshot",
        ]
    ),
    odd,
    max_size=6,
)
slow = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@given(st.lists(message, max_size=5), st.lists(message, max_size=3), head, calls)
@slow
def test_wrong_types_in_every_field(tmp_path: Path, live: Any, backup: Any, fields: Any, cards: Any) -> None:
    folder = tmp_path / "webui" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    cards = [{**card, "assistant_msg_idx": n} for n, card in enumerate(cards)]
    (folder / f"{SID}.json").write_text(json.dumps({**fields, "messages": live, "tool_calls": cards}))
    (folder / f"{SID}.json.bak").write_text(json.dumps({**fields, "messages": backup}))
    read_all(tmp_path)


column = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=20)
    | st.sampled_from(
        ["\0json:[[", '[{"id": "a", "function": {"name": 3}}]', "\0json:" + "[" * 3000, "[" * 5000, "x"]
    )
)
COLUMNS = (
    "content",
    "timestamp",
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "reasoning",
    "active",
    "compacted",
)
row = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"])}, optional=dict.fromkeys(COLUMNS, column)
)


@given(st.lists(row, min_size=1, max_size=5))
@settings(slow, max_examples=60)
def test_wrong_types_in_every_column(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "state.db"
    if not path.exists():
        database(tmp_path, [], V30)
    with apsw.Connection(str(path)) as db:
        db.execute("delete from messages")
        add(db, [{**row, "timestamp": row.get("timestamp", T0)} for row in rows])
    db.close()
    assert SID in read_all(tmp_path)


@given(
    st.lists(
        st.binary(max_size=40)
        | st.dictionaries(
            st.sampled_from(
                [
                    "event",
                    "turn_id",
                    "stream_id",
                    "seq",
                    "content",
                    "created_at",
                    "payload",
                    "type",
                    "terminal_state",
                ]
            ),
            odd,
        ).map(lambda d: json.dumps(d).encode()),
        max_size=8,
    )
)
@slow
def test_journals_of_any_bytes(tmp_path: Path, lines: list[bytes]) -> None:
    path = write(
        tmp_path, said("a", "b"), active_stream_id="s1", pending_user_message="c", pending_started_at=T0
    )
    turns, runs = path.parent / "_turn_journal", path.parent / "_run_journal" / SID
    turns.mkdir(exist_ok=True)
    runs.mkdir(parents=True, exist_ok=True)
    (turns / f"{SID}~1.jsonl").write_bytes(b"\n".join(lines))
    (runs / "s1.jsonl").write_bytes(b"\n".join(lines))
    assert words(read_all(tmp_path)[SID])[:3] == ["a", "b", "c"]


def test_deep_and_large_things_take_their_time_but_no_more(tmp_path: Path) -> None:
    def seconds(write_it: Callable[[int], object], count: int) -> float:
        write_it(count)
        began = time.process_time()
        read_all(tmp_path)
        return time.process_time() - began

    path = write(tmp_path, [])
    path.write_bytes(b'{"messages": ' + b"[" * 100_000)
    read_all(tmp_path)
    partial = {"role": "assistant", "content": "", "_partial": True}
    for write_it in (
        lambda n: path.write_bytes(b'{"messages": [' + b'{"role":"user","content":"a"},' * n),
        lambda n: path.write_bytes(b'{\n  "messages": [' + b'\n    {"role": "user", "content": x},' * n),
        lambda n: path.write_bytes(b'{\n  "messages": [' + b'\n    {"role": "user", "content": x}\n  ],' * n),
        lambda n: write(tmp_path, [*said("a", "b"), *[partial] * n]),
        lambda n: write(tmp_path, said("go on", "done") * n),
        lambda n: write(tmp_path, [call(f"c{k}") for k in range(n)]),
    ):
        few, many = seconds(write_it, 250), seconds(write_it, 2000)
        assert many < 24 * few + 1  # linear, with room for a busy machine
