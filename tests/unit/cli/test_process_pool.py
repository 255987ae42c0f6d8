"""A crew does every job once, says what result of it, and says so when one of its workers was lost."""

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


def answers(workers: int, jobs: int, work: process_pool.Work) -> dict[int, Any]:
    found: dict[int, Any] = {}

    def on_result(job: int, result: Any) -> None:
        assert job not in found, "results twice"
        found[job] = result

    process_pool.run_jobs(workers, jobs, work, on_result)
    return found


def square(jobs: Iterable[int], on_result: process_pool.OnResult) -> None:
    for job in jobs:
        on_result(job, [job * job, os.getpid()])


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
@pytest.mark.parametrize("jobs", [0, 1, 3, 200])
def test_every_job_is_done_once(workers: int, jobs: int) -> None:
    found = answers(workers, jobs, square)
    assert {job: result[0] for job, result in found.items()} == {job: job * job for job in range(jobs)}
    assert {result[1] for result in found.values()} <= {os.getpid()} or workers > 1


def test_a_slow_job_leaves_the_others_to_the_other_worker_count() -> None:
    def work(jobs: Iterable[int], on_result: process_pool.OnResult) -> None:
        for job in jobs:
            time.sleep(1.0 if job == 0 else 0.001)
            on_result(job, os.getpid())

    found = answers(2, 50, work)
    slow = found[0]
    assert slow != os.getpid() and [job for job, pid in found.items() if pid == slow] == [0]


def test_an_error_of_a_hand_is_ours() -> None:
    def work(jobs: Iterable[int], on_result: process_pool.OnResult) -> None:
        for job in jobs:
            raise errors.DiskFull(f"no room for job {job}", hint="make some", job=job)

    with pytest.raises(errors.HoldfastError) as caught:
        answers(2, 10, work)
    assert (caught.value.code, caught.value.exit_status) == ("disk_full", errors.DiskFull.exit_status)
    assert (caught.value.hint, "job" in caught.value.facts) == ("make some", True)


@pytest.mark.parametrize("how", ["killed", "broken"])
def test_a_hand_that_is_lost_is_told_and_stops_nobody(how: str, capfd: pytest.CaptureFixture[str]) -> None:
    found: dict[int, Any] = {}

    def work(jobs: Iterable[int], on_result: process_pool.OnResult) -> None:
        for job in jobs:
            if job == 3 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if job == 3:
                raise ZeroDivisionError("job three")
            on_result(job, True)

    with pytest.raises(errors.HoldfastError, match="1 of 3 processes"):
        process_pool.run_jobs(3, 30, work, found.__setitem__)
    assert set(found) == set(range(30)) - {3}
    assert ("job three" in capfd.readouterr().err) == (how == "broken")


def test_hands_end_when_their_parent_is_killed() -> None:
    def parent(say: Any) -> None:
        def work(jobs: Iterable[int], on_result: process_pool.OnResult) -> None:
            say(f"{os.getpid()}")
            for job in jobs:
                time.sleep(0.05)
                on_result(job, None)

        process_pool.run_jobs(3, 10_000, work, lambda job, result: None)

    child = children.start(parent)
    child.wait_for_word()
    workers = child.kill()  # which reads on until the last hand has let go of the pipe
    assert 1 <= len(workers.splitlines()) <= 3
