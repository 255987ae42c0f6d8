"""How tasks end: one table, and what must hold whatever the facts are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.driver import FinalResult
from holdfast.runner.finish import MAX_TRIES, Facts, ending

OK = FinalResult(ok=True)
BAD = FinalResult(ok=False, reason="rate limit")
STOPPED = FinalResult(ok=False, cancelled=True)

TABLE = [
    # its own final word decides
    (Facts(OK, 0, True), "succeeded"),
    (Facts(OK, 1, True), "succeeded"),
    (Facts(OK, None, True), "succeeded"),
    (Facts(BAD, 0, True), "failed"),
    (Facts(STOPPED, 0, True), "cancelled"),
    (Facts(OK, 0, True, cancelled_by="ann"), "succeeded"),  # it was quicker than the wish
    (Facts(BAD, 0, True, cancelled_by="ann"), "cancelled"),
    # exit status 0 alone is not success
    (Facts(None, 1, False, passing=True), "queued"),  # sent once more
    (Facts(BAD, 1, False, passing=True), "queued"),
    (Facts(None, 1, False, tries=2, passing=True), "failed"),
    (Facts(BAD, 1, True, passing=True), "failed"),  # it had taken the prompt
    (Facts(None, 1, True, passing=True), "interrupted"),
    (Facts(None, 1, False, cancelled_by="ann", passing=True), "cancelled"),
    (Facts(None, 0, True), "interrupted"),
    (Facts(None, 1, True), "interrupted"),
    (Facts(None, 137, True), "interrupted"),
    (Facts(None, None, True), "interrupted"),
    (Facts(None, 143, True, cancelled_by="ann"), "cancelled"),
    # a prompt that was not taken is still there, unless the agent itself refuses to start
    (Facts(None, 1, False), "failed"),
    (Facts(None, 0, False), "failed"),
    (Facts(None, 127, False), "failed"),
    (Facts(None, 137, False), "queued"),
    (Facts(None, None, False), "queued"),
    (Facts(None, 137, False, tries=MAX_TRIES), "failed"),
    (Facts(None, 137, False, cancelled_by="ann"), "cancelled"),
]


@pytest.mark.parametrize(("facts", "status"), TABLE)
def test_how_a_task_ends(facts: Facts, status: str) -> None:
    decided = ending(facts)
    assert decided.status == status
    assert (decided.reason is None) == (status == "succeeded")


FACTS = st.builds(
    Facts,
    st.sampled_from([None, OK, BAD, STOPPED]),
    st.one_of(st.none(), st.integers(0, 255)),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([None, "ann"]),
)


@given(FACTS)
def test_only_the_agents_own_word_is_success_and_a_taken_prompt_is_never_run_again(facts: Facts) -> None:
    status = ending(facts).status
    assert (status == "succeeded") == (facts.final is not None and facts.final.ok)
    if status == "queued":
        assert not facts.accepted and facts.cancelled_by is None
        assert facts.final is None or facts.passing
    if status == "interrupted":
        assert facts.final is None and facts.accepted
