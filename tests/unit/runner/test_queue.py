"""Whose turn it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runner.queue import QueueCandidate, startable


def waiting(*shown: str) -> list[QueueCandidate]:
    """`t1/s1/claude` and so on."""
    return [QueueCandidate(*one.split("/")) for one in shown]


def test_in_order_within_the_limit() -> None:
    queued = waiting("t1/s1/a", "t2/s2/a", "t3/s3/b")
    assert startable(queued, [], 2, lambda _: None) == ["t1", "t2"]
    assert startable(queued, waiting("t0/s0/a"), 2, lambda _: None) == ["t1"]
    assert startable(queued, waiting("t0/s0/a", "t9/s9/b"), 2, lambda _: None) == []


def test_one_at_a_time_per_session_and_per_agents_limit_without_holding_up_others() -> None:
    queued = waiting("t1/s1/a", "t2/s1/a", "t3/s3/a", "t4/s4/b")
    assert startable(queued, [], 9, lambda agent: 1 if agent == "a" else None) == ["t1", "t4"]
    assert startable(queued, [], 9, lambda _: None) == ["t1", "t3", "t4"]
    assert startable(queued, waiting("t0/s1/a"), 9, lambda _: None) == ["t3", "t4"]


def test_what_is_held_takes_no_slot_and_keeps_its_place_in_its_session() -> None:
    queued = waiting("t1/s1/a", "t2/s1/a", "t3/s3/a", "t4/s4/b")
    assert startable(queued, [], 2, lambda _: None, held={"t1"}) == ["t3", "t4"]
    assert startable(queued, [], 1, lambda _: None, held={"t1", "t3"}) == ["t4"]


ANY = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("ab")).map(lambda p: QueueCandidate("", f"s{p[0]}", p[1])),
    max_size=12,
).map(lambda made: [w._replace(task=f"t{i}") for i, w in enumerate(made)])


@given(ANY, st.integers(1, 5), st.integers(1, 3))
def test_limits_hold_and_nobody_is_overtaken_without_a_reason(
    queued: list[QueueCandidate], at_once: int, per_agent: int
) -> None:
    started = startable(queued, [], at_once, lambda _: per_agent)
    chosen = [w for w in queued if w.task in started]
    assert len(chosen) <= at_once
    assert len({w.session for w in chosen}) == len(chosen)
    for agent in "ab":
        assert sum(w.agent == agent for w in chosen) <= per_agent
    assert [w.task for w in chosen] == started
    if len(chosen) < at_once:  # there was room: whoever waits has a session or an agent that is busy
        for left in queued:
            if left.task not in started:
                busy = any(w.session == left.session for w in chosen)
                assert busy or sum(w.agent == left.agent for w in chosen) >= per_agent
