"""A crew does every job once, says what came of it, and says so when one of its hands was lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import Any

import pytest

from holdfast import errors
from holdfast.cli import process_pool
from tests.crash import children


def answers(hands: int, jobs: int, work: process_pool.Work) -> dict[int, Any]:
    found: dict[int, Any] = {}

    def tell(job: int, came: Any) -> None:
        assert job not in found, "told twice"
        found[job] = came

    process_pool.share(hands, jobs, work, tell)
    return found


def square(jobs: Iterable[int], tell: process_pool.Tell) -> None:
    for job in jobs:
        tell(job, [job * job, os.getpid()])


@pytest.mark.parametrize("hands", [0, 1, 2, 5])
@pytest.mark.parametrize("jobs", [0, 1, 3, 200])
def test_every_job_is_done_once(hands: int, jobs: int) -> None:
    found = answers(hands, jobs, square)
    assert {job: came[0] for job, came in found.items()} == {job: job * job for job in range(jobs)}
    assert {came[1] for came in found.values()} <= {os.getpid()} or hands > 1


def test_a_slow_job_leaves_the_others_to_the_other_hands() -> None:
    def work(jobs: Iterable[int], tell: process_pool.Tell) -> None:
        for job in jobs:
            time.sleep(1.0 if job == 0 else 0.001)
            tell(job, os.getpid())

    found = answers(2, 50, work)
    slow = found[0]
    assert slow != os.getpid() and [job for job, pid in found.items() if pid == slow] == [0]


def test_an_error_of_a_hand_is_ours() -> None:
    def work(jobs: Iterable[int], tell: process_pool.Tell) -> None:
        for job in jobs:
            raise errors.DiskFull(f"no room for job {job}", hint="make some", job=job)

    with pytest.raises(errors.HoldfastError) as caught:
        answers(2, 10, work)
    assert (caught.value.code, caught.value.exit_status) == ("disk_full", errors.DiskFull.exit_status)
    assert (caught.value.hint, "job" in caught.value.facts) == ("make some", True)


@pytest.mark.parametrize("how", ["killed", "broken"])
def test_a_hand_that_is_lost_is_told_and_stops_nobody(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    found: dict[int, Any] = {}

    def work(jobs: Iterable[int], tell: process_pool.Tell) -> None:
        for job in jobs:
            if job == 3 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if job == 3:
                raise ZeroDivisionError("job three")
            tell(job, True)

    with pytest.raises(errors.HoldfastError, match="1 of 3 processes"):
        process_pool.share(3, 30, work, found.__setitem__)
    assert set(found) == set(range(30)) - {3}
    assert ("job three" in capfd.readouterr().err) == (how == "broken")


def test_hands_end_when_their_parent_is_killed() -> None:
    def parent(say: Any) -> None:
        def work(jobs: Iterable[int], tell: process_pool.Tell) -> None:
            say(f"{os.getpid()}")
            for job in jobs:
                time.sleep(0.05)
                tell(job, None)

        process_pool.share(3, 10_000, work, lambda job, came: None)

    child = children.start(parent)
    child.wait_for_word()
    hands = child.kill()  # which reads on until the last hand has let go of the pipe
    assert 1 <= len(hands.splitlines()) <= 3
