"""How tasks end: one table, and what must hold whatever the facts are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.driver import FinalResult
from holdfast.runner.finish import MAX_TRIES, ExitFacts, ending

OK = FinalResult(ok=True)
BAD = FinalResult(ok=False, reason="rate limit")
STOPPED = FinalResult(ok=False, cancelled=True)

TABLE = [
    # its own final word decides
    (ExitFacts(OK, 0, True), "succeeded"),
    (ExitFacts(OK, 1, True), "succeeded"),
    (ExitFacts(OK, None, True), "succeeded"),
    (ExitFacts(BAD, 0, True), "failed"),
    (ExitFacts(STOPPED, 0, True), "cancelled"),
    (ExitFacts(OK, 0, True, cancelled_by="ann"), "succeeded"),  # it was quicker than the wish
    (ExitFacts(BAD, 0, True, cancelled_by="ann"), "cancelled"),
    # exit status 0 alone is not success
    (ExitFacts(None, 1, False, passing=True), "queued"),  # sent once more
    (ExitFacts(BAD, 1, False, passing=True), "queued"),
    (ExitFacts(None, 1, False, tries=2, passing=True), "failed"),
    (ExitFacts(BAD, 1, True, passing=True), "failed"),  # it had taken the prompt
    (ExitFacts(None, 1, True, passing=True), "interrupted"),
    (ExitFacts(None, 1, False, cancelled_by="ann", passing=True), "cancelled"),
    (ExitFacts(None, 0, True), "interrupted"),
    (ExitFacts(None, 1, True), "interrupted"),
    (ExitFacts(None, 137, True), "interrupted"),
    (ExitFacts(None, None, True), "interrupted"),
    (ExitFacts(None, 143, True, cancelled_by="ann"), "cancelled"),
    # a prompt that was not taken is still there, unless the agent itself refuses to start
    (ExitFacts(None, 1, False), "failed"),
    (ExitFacts(None, 0, False), "failed"),
    (ExitFacts(None, 127, False), "failed"),
    (ExitFacts(None, 137, False), "queued"),
    (ExitFacts(None, None, False), "queued"),
    (ExitFacts(None, 137, False, tries=MAX_TRIES), "failed"),
    (ExitFacts(None, 137, False, cancelled_by="ann"), "cancelled"),
]


@pytest.mark.parametrize(("facts", "status"), TABLE)
def test_how_a_task_ends(facts: ExitFacts, status: str) -> None:
    decided = ending(facts)
    assert decided.status == status
    assert (decided.reason is None) == (status == "succeeded")


FACTS = st.builds(
    ExitFacts,
    st.sampled_from([None, OK, BAD, STOPPED]),
    st.one_of(st.none(), st.integers(0, 255)),
    st.booleans(),
    st.integers(1, 5),
    st.sampled_from([None, "ann"]),
)


@given(FACTS)
def test_only_the_agents_own_word_is_success_and_a_taken_prompt_is_never_run_again(facts: ExitFacts) -> None:
    status = ending(facts).status
    assert (status == "succeeded") == (facts.final is not None and facts.final.ok)
    if status == "queued":
        assert not facts.accepted and facts.cancelled_by is None
        assert facts.final is None or facts.passing
    if status == "interrupted":
        assert facts.final is None and facts.accepted
