"""What is sent is in the file once, whatever was cut short before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.spool.outbox import Outbox
from tests.crash.spool_support import content
from tests.crash.support import scratch

LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"ab\n", b"abc\n", b"b\n", b"\0\xff\n"]), max_size=8)


def outbox(folder: str, data: bytes = b"") -> Outbox:
    path = os.path.join(folder, "sent")
    with open(path, "wb") as file:
        file.write(data)
    return Outbox(path)


@settings(deadline=None)
@given(LINES, st.integers(0, 40), st.integers(0, 40))
def test_lives_cut_anywhere_send_every_line_once_and_in_order(lines: list[bytes], one: int, two: int) -> None:
    """Two lives end in the middle of a write; after the third the file is as if there had been one."""
    with scratch() as folder:
        path = os.path.join(folder, "sent")
        outbox(folder)
        for cut in (one, two):
            before = os.path.getsize(path)
            life = Outbox(path)
            for line in lines:
                life.send(line)
            os.truncate(path, min(max(before, cut), os.path.getsize(path)))
        last = Outbox(path)
        written = [line for line in lines if last.send(line)]
        assert content(path) == b"".join(lines)
        assert len(written) <= len(lines)
        again = Outbox(path)
        assert not any([again.send(line) for line in lines])


def test_the_same_line_is_sent_as_often_as_it_is_meant(tmp_path: Path) -> None:
    first = outbox(str(tmp_path))
    assert [first.send(b"yes\n"), first.send(b"yes\n")] == [True, True]
    second = Outbox(str(tmp_path / "sent"))
    assert [second.send(b"yes\n") for _ in range(3)] == [False, False, True]
    assert content(str(tmp_path / "sent")) == b"yes\n" * 3


def test_a_torn_line_is_completed_by_the_line_it_begins(tmp_path: Path) -> None:
    assert outbox(str(tmp_path), b"one\ntw").send(b"two\n")
    assert content(str(tmp_path / "sent")) == b"one\ntwo\n"


def test_a_line_that_lacks_only_its_end_gets_it(tmp_path: Path) -> None:
    assert outbox(str(tmp_path), b"two").send(b"two\n")
    assert content(str(tmp_path / "sent")) == b"two\n"


def test_a_torn_line_that_is_no_more_to_be_sent_is_ended_first(tmp_path: Path) -> None:
    box = outbox(str(tmp_path), b"one\ntw")
    assert not box.send(b"one\n")
    assert box.send(b"three\n")
    assert content(str(tmp_path / "sent")) == b"one\ntw\nthree\n"


@pytest.mark.parametrize("line", [b"", b"no end", b"two\nlines\n", b"\n\n"])
def test_only_one_whole_line_is_taken(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match="one whole line"):
        outbox(str(tmp_path)).send(line)
    assert content(str(tmp_path / "sent")) == b""


def test_a_write_that_the_disk_cuts_short_is_gone_on_with(tmp_path: Path) -> None:
    """A limit on the file's size stands for a full disk; the same life sends the rest when there is room."""
    import resource
    import signal

    box = outbox(str(tmp_path))
    box.send(b"one\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(errors.DiskFull):
            box.send(b"a longer line\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert content(str(tmp_path / "sent")) == b"one\na long"
    assert box.send(b"a longer line\n")
    assert content(str(tmp_path / "sent")) == b"one\na longer line\n"
