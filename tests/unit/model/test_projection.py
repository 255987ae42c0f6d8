"""Fold: what a log comes to, and merge patches as RFC 7396 has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import StoreUnreadable
from holdfast.model import changes as c
from holdfast.model.event import Record
from holdfast.model.json_codec import encode
from holdfast.model.projection import View, fold, merge_patch
from holdfast.model.task import Owner

SESSION = "s0123456789abcde"
TASK = "t0123456789abcde"
OWNER = Owner("here", 1, 2.0, "b")


def log(*entries: c.Change | str, task: str | None = TASK) -> list[Record]:
    """Records of changes, and of events where only the kind is given; one second apart."""
    records = []
    for i, entry in enumerate(entries, 1):
        at = f"2026-01-01T00:00:{i:02d}.000000Z"
        if isinstance(entry, str):
            records.append(Record(i, entry, at, task, False, None, None, True, '{"text":"x"}'))
        else:
            kind = c.KIND_OF[type(entry)]
            records.append(Record(i, kind, at, task, False, None, None, True, encode(entry).decode()))
    return records


CREATE = c.Create(agent="claude", key="k", metadata={"a": 1})


def seen(native_id: str, protocol: str | None = None) -> c.SeeToken:
    return c.SeeToken(agent="claude", native_id=native_id, seen_in="stream", protocol=protocol)


def revoked(native_id: str) -> c.RevokeToken:
    return c.RevokeToken(agent="claude", native_id=native_id, reason="why")


def reinstated(native_id: str) -> c.ReinstateToken:
    return c.ReinstateToken(agent="claude", native_id=native_id, reason="why not")


def test_a_header_counts_its_records() -> None:
    session = fold(SESSION, log(CREATE, "user", "assistant", "notice", "error", "thinking")).session
    assert session is not None
    assert (session.id, session.agent, session.key, session.metadata) == (SESSION, "claude", "k", {"a": 1})
    assert (session.events, session.messages, session.version) == (6, 3, 1)
    assert (session.created_at[17:19], session.updated_at[17:19]) == ("01", "06")


def test_a_replayed_old_event_does_not_turn_the_clock_back() -> None:
    records = log(CREATE, "user")
    records[1] = records[1]._replace(at="1999-01-01T00:00:00.000000Z")
    session = fold(SESSION, records).session
    assert session is not None and session.updated_at == records[0].at


@pytest.mark.parametrize(
    ("changes", "lineage"),
    [
        ([seen("A")], [("A", None, "current")]),
        ([seen("A"), seen("A", "acp")], [("A", "acp", "current")]),
        ([seen("A", "acp"), seen("B")], [("A", "acp", "superseded"), ("B", None, "current")]),
        (
            [seen("A"), seen("B"), seen("A")],
            [("A", None, "superseded"), ("B", None, "superseded"), ("A", None, "current")],
        ),
        ([seen("A", "p"), revoked("A")], [("A", "p", "revoked")]),
        ([seen("A", "p"), revoked("A"), reinstated("A")], [("A", "p", "current")]),
        ([seen("A"), revoked("A"), seen("B")], [("A", None, "revoked"), ("B", None, "current")]),
    ],
)
def test_a_lineage_only_grows(changes: list[c.Change], lineage: list[tuple[str, str | None, str]]) -> None:
    records = log(CREATE, *changes)
    tokens = fold(SESSION, records).tokens
    assert [(t.native_id, t.protocol, t.status) for t in tokens] == lineage
    known: list[str] = []
    for end in range(1, len(records) + 1):
        now = [t.native_id for t in fold(SESSION, records[:end]).tokens]
        assert now[: len(known)] == known
        known = now


def test_a_session_goes_away_and_comes_back_as_it_was() -> None:
    steps = log(
        CREATE,
        c.Archive(by="me", reason="completed"),
        c.Delete(id="d1", by="me", reason="gone"),
        c.Restore(by="me", undoes="d1"),
        c.Unarchive(by="me"),
    )
    states = [fold(SESSION, steps[:end]).session for end in range(1, 6)]
    assert [s.state for s in states if s] == ["live", "archived", "deleted", "archived", "live"]
    last = states[-1]
    assert last is not None and (last.archive, last.deletion, last.undone) == (None, None, "d1")


def test_a_task_goes_its_way() -> None:
    steps = log(
        CREATE,
        c.QueueTask(prompt="hi"),
        c.ClaimTask(owner=OWNER, generation=1, lease_until="later"),
        c.Deliver(delivery="sent"),
        c.SetStatus(status="queued", reason="host gone"),
        c.ClaimTask(owner=OWNER, generation=2, lease_until="later"),
        c.SetStatus(status="failed", outcome={"code": 1}),
    )
    tasks = [fold(SESSION, steps[:end]).tasks[TASK] for end in range(2, 8)]
    assert [t.status for t in tasks] == ["queued", "running", "running", "queued", "running", "failed"]
    assert [t.delivery for t in tasks] == ["waiting", "waiting", "sent", "waiting", "waiting", "waiting"]
    assert [t.generation for t in tasks] == [0, 1, 1, 1, 2, 2]
    assert [t.owner for t in tasks] == [None, OWNER, OWNER, None, OWNER, OWNER]
    assert tasks[-1].ended_at is not None and tasks[-1].lease_until is None
    assert tasks[-1].started_at == tasks[1].started_at
    session = fold(SESSION, steps).session
    assert session is not None and session.tasks == 1


def test_a_spool_offset_is_its_tasks() -> None:
    records = log(CREATE, c.QueueTask(prompt="hi"), "user")
    records[2] = records[2]._replace(spool=99)
    assert fold(SESSION, records).tasks[TASK].spool == 99
    records[2] = records[2]._replace(task=None)
    assert fold(SESSION, records).tasks[TASK].spool == 0


@given(st.integers(0, 9))
def test_a_fold_can_be_taken_up_where_it_was_left(cut: int) -> None:
    records = log(
        CREATE, "user", seen("A"), c.QueueTask(prompt="hi"), "notice", seen("B"), revoked("B"), "user"
    )
    assert fold(SESSION, records[cut:], fold(SESSION, records[:cut]) if cut else View()) == fold(
        SESSION, records
    )


@pytest.mark.parametrize(
    "records",
    [
        log("user"),
        log(c.Archive(by="me", reason="r"))[:0] + log("notice"),
        [log(CREATE)[0]._replace(body='{"op":"nonsense"}')],
        [log(CREATE)[0]._replace(body='{"op":"create"}')],
        [log(CREATE)[0]._replace(body="not JSON")],
        [log(CREATE)[0], log(seen("A"))[0]._replace(seq=2, body='{"op":"seen","agent":5}')],
    ],
)
def test_a_log_that_cannot_be_read_is_said_to_be(records: list[Record]) -> None:
    with pytest.raises(StoreUnreadable):
        fold(SESSION, records)


# The examples of RFC 7396, appendix A: target, patch, result.
RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396)
def test_patches_merge_as_the_rfc_says(target: Any, patch: Any, result: Any) -> None:
    before = encode(target)
    assert merge_patch(target, patch) == result
    assert encode(target) == before, "the target is left as it was"


OBJECTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 3) | st.lists(st.none() | st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


@given(st.dictionaries(st.sampled_from("abc"), OBJECTS), st.dictionaries(st.sampled_from("abc"), OBJECTS))
def test_a_patch_twice_is_a_patch_once_and_keeps_what_it_does_not_name(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert {k: v for k, v in once.items() if k not in patch} == {
        k: v for k, v in target.items() if k not in patch
    }
    assert merge_patch(target, {}) == target
    assert merge_patch({}, patch) == without_nulls(patch)
