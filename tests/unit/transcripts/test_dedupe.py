"""Live and replayed copies of one thing meet; what the log lacks is told, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.event import Event, NewEvent, Origin
from holdfast.transcripts.dedupe import REPLAY_MARKER, KnownEvents

AT = "2026-01-01T00:00:00.000000Z"


def said(text: str, id: str | None = None) -> NewEvent:
    return NewEvent("assistant", {"text": text}, origin=Origin("a", "n", id) if id else None)


def call(id: str, origin: bool = True) -> list[NewEvent]:
    here = [Origin("a", "n", f"{what}:{id}") if origin else None for what in ("call", "result")]
    return [
        NewEvent("tool_progress", {"call": id, "name": "sh", "input": {"x": 1}}, origin=here[0]),
        NewEvent("tool_summary", {"call": id, "name": "sh", "outcome": "ok", "output": "y"}, origin=here[1]),
    ]


def known(*events: NewEvent) -> KnownEvents:
    found = KnownEvents()
    for seq, event in enumerate(events, 1):
        found.add(Event(seq, event.kind, event.body, AT, "t", event.replayed, event.origin))
    return found


def missing(log: list[NewEvent], past: list[NewEvent]) -> list[NewEvent]:
    return list(known(*log).missing(past))


def test_the_same_origin_meets_whatever_the_words() -> None:
    assert missing([said("one", "1")], [said("One, reworded", "1"), said("two", "2")]) == [said("two", "2")]


def test_the_same_words_meet_once_each() -> None:
    assert missing([said("ok")], [said("ok", "1"), said(" ok\n", "2")]) == [said(" ok\n", "2")]


def test_a_call_that_was_begun_here_is_ended_here() -> None:
    begun, ended = call("item_1", origin=False)
    cut = NewEvent("tool_summary", {**ended.body, "outcome": "interrupted", "output": "unknown"})
    other_id = [
        NewEvent("tool_progress", {**begun.body, "call": "call_9"}),
        NewEvent("tool_summary", {**ended.body, "call": "call_9"}),
    ]
    assert missing([begun, cut], other_id) == []
    assert missing([], other_id) == other_id


def test_a_border_that_is_missing_is_noticed() -> None:
    replayed = NewEvent("user", {"text": "x"}, replayed=True)
    border = NewEvent("notice", {"text": "", "code": REPLAY_MARKER}, replayed=True)
    assert known(replayed).unmarked
    assert not known(replayed, border).unmarked
    assert not known(NewEvent("user", {"text": "x"})).unmarked


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.sampled_from("123"))).map(
            lambda p: [said(p[0], f"{p[0]}{p[1]}" if p[1] else None)]
        ),
        st.sampled_from("pq").map(call),
    ),
    max_size=12,
).map(lambda parts: [event for part in parts for event in part])


@given(EVENTS, st.integers(0, 30))
def test_replaying_a_past_of_which_some_is_here_adds_the_rest_and_then_nothing(
    past: list[NewEvent], cut: int
) -> None:
    log = past[:cut]
    added = missing(log, past)
    assert missing([*log, *added], past) == []
    assert missing(past, past) == []
    rest = iter(past)
    assert all(event in rest for event in added), "in the order of the past"


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(0, 12))
def test_where_every_record_has_its_own_id_exactly_the_rest_is_added(texts: list[str], cut: int) -> None:
    past = [said(text, str(number)) for number, text in enumerate(texts)]
    assert missing(past[:cut], past) == past[cut:]


def test_a_call_that_is_open_here_gets_the_end_that_the_store_has_under_its_name_here() -> None:
    begun, ended = call("item_1", origin=False)
    past = [
        NewEvent("tool_progress", {**begun.body, "call": "call_9"}),
        NewEvent("tool_summary", {**ended.body, "call": "call_9"}),
    ]
    assert missing([begun], past) == [ended]


def test_a_call_that_is_not_here_is_not_ended_by_the_end_of_one_that_said_the_same() -> None:
    first, second = call("one"), call("two")
    assert missing(first, [*first, *second]) == second


def test_what_was_cut_off_here_meets_as_much_of_it_and_not_more() -> None:
    cut = NewEvent("assistant", {"text": "I was about", "cut": True})
    assert missing([cut], [said("I was ", "1")]) == []
    assert missing([cut], [said("I was about", "1")]) == []
    whole = said("I was about to go", "1")
    assert missing([cut], [whole]) == [whole]
    assert missing([cut], [said("I was", "1"), said("I was", "2")]) == [said("I was", "2")]


@given(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=6))
def test_a_block_that_the_log_has_in_parts_meets_the_whole_one(texts: list[str]) -> None:
    parts = [
        NewEvent(
            "assistant", {"text": text, "part": number, **({"more": True} if number < len(texts) else {})}
        )
        for number, text in enumerate(texts, 1)
    ]
    whole = said("".join(texts), "1")
    assert missing(parts, [whole, said("and more", "2")]) == [said("and more", "2")]
    assert missing(parts[:-1], [whole]) == [whole]
