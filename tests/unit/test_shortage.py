"""Which failures are passing shortages of the machine, and for how long nothing is started after one."""

from __future__ import annotations

import errno

import pytest

from holdfast import errors, shortage
from holdfast.runner.finish import ExitFacts, TaskEnding, ending
from holdfast.shortage import Shortages, resource_of


@pytest.mark.parametrize(
    ("problem", "what"),
    [
        (BlockingIOError(errno.EAGAIN, "fork"), "processes"),
        (OSError(errno.EMFILE, "open"), "files"),
        (OSError(errno.ENFILE, "open"), "files"),
        (OSError(errno.ENOMEM, "fork"), "memory"),
        (MemoryError(), "memory"),
        (RuntimeError("can't start new thread"), "processes"),
        (errors.DiskFull(), "disk"),
        (OSError(errno.EIO, "read"), None),
        (FileNotFoundError(errno.ENOENT, "x"), None),
        (RuntimeError("another"), None),
        (errors.StoreUnreadable("unable to open database file"), None),  # files can be opened
        (errors.StoreBusy("unable to open database file"), None),
    ],
)
def test_a_shortage_is_known_also_behind_another_error(problem: Exception, what: str | None) -> None:
    assert resource_of(problem) == what
    try:
        raise errors.HoldfastError("it failed") from problem
    except errors.HoldfastError as wrapped:
        assert resource_of(wrapped) == what


def test_starts_rest_longer_each_time_and_go_on_after_one_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("holdfast.shortage.time.monotonic", lambda: now)
    short = Shortages()
    assert not short.is_resting and not short.is_trying
    rests = []
    for _ in range(6):
        short.note("files", "too many")
        began = now
        while short.is_resting:
            now += 0.5
        rests.append(now - began)
    assert rests == [1, 2, 4, 8, 10, 10] and short.is_trying
    found = short.current("/nowhere at all")
    assert found is not None and found.what == "files"
    short.over()
    assert not short.is_trying and short.current("/nowhere at all") is None
    short.note("files", "too many")
    now += shortage.STALE_S
    assert short.current("/nowhere at all") is None


@pytest.mark.parametrize("exit_status", [None, 2, 125])
@pytest.mark.parametrize("tries", [1, 3, 50])
def test_an_agent_that_was_never_started_is_queued_again_without_a_count(
    exit_status: int | None, tries: int
) -> None:
    found = ending(ExitFacts(None, exit_status, accepted=False, tries=tries, started=False))
    assert isinstance(found, TaskEnding) and found.status == "queued"
