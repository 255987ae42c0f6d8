"""Lines with their places, whatever is in them and however they come."""

from __future__ import annotations

import hashlib
import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.spool import tail
from holdfast.spool.tail import Line, Shrunk, Splitter, Tail

PIECES = st.lists(
    st.binary(max_size=12).map(lambda b: b.replace(b"a", b"\n").replace(b"b", b"\r\n")), max_size=12
)


def expected(data: bytes, max_line: int, offset: int = 0) -> tuple[list[Line], Line | None]:
    """The same by a loop over the lines."""
    found, last, at = [], None, offset
    for raw in data.split(b"\n"):
        ends = at + len(raw) < offset + len(data)
        end = at + len(raw) + ends
        if len(raw) > max_line:
            digest = hashlib.sha256(raw).hexdigest()
            line = Line(at, end, None, tail.TOO_LONG, raw[: tail.HEAD], len(raw), digest)
        else:
            line = Line(at, end, raw.removesuffix(b"\r") if ends else raw)
        if ends:
            found.append(line)
        elif raw:
            last = line
        at = end
    return found, last


@settings(deadline=None)
@example([b"\r\n"], 0, 0)
@example([b"12\r\n"], 2, 0)
@given(PIECES, st.integers(0, 9), st.integers(0, 1000))
def test_lines_are_the_same_however_the_bytes_come(pieces: list[bytes], max_line: int, offset: int) -> None:
    splitter = Splitter(offset, max_line)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    lines, last = expected(b"".join(pieces), max_line, offset)
    assert found == lines
    assert splitter.offset == (lines[-1].end if lines else offset)
    assert splitter.finish() == last
    assert splitter.finish() is None


@settings(deadline=None)
@given(PIECES, PIECES, st.integers(1, 9), st.integers(0, 11))
def test_a_file_that_was_cut_is_read_from_its_new_beginning(
    pieces: list[bytes], later: list[bytes], limit: int, heard: int
) -> None:
    """The offsets go on where they were; what was read before is not read again."""
    from tests.crash.support import scratch

    with scratch() as folder:
        path = os.path.join(folder, "stdout")
        with open(path, "wb") as file:
            file.write(b"".join(pieces))
        follower = Tail(path)
        for _ in range(heard):
            follower.read(limit)
        follower.finish()
        lost, data = follower.offset, b"".join(later)
        with open(path, "wb") as file:
            file.write(data)
        follower.restart(lost)
        found: list[Line] = []
        while more := follower.read(limit):
            found += more
        lines, last = expected(data, tail.MAX_LINE, lost)
        assert found == lines
        assert follower.behind() == 0
        assert follower.finish() == last


@pytest.mark.parametrize("now", [b"", b"x\n", b"other bytes of the same length, or more than there were\n"])
def test_a_file_that_was_overwritten_is_noticed(tmp_path: Path, now: bytes) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"one line\nanother\nhalf")
    follower = Tail(str(path))
    assert len(follower.read()) == 2
    path.write_bytes(now)
    with pytest.raises(Shrunk):
        follower.behind()
        follower.read()


def test_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b'{"a":')
    follower = Tail(str(path))
    assert follower.read() == []
    assert follower.offset == 0
    with path.open("ab") as file:
        file.write(b'1}\n{"b"')
    assert follower.read() == [Line(0, 8, b'{"a":1}')]
    assert follower.offset == 8
    assert follower.read() == []
    assert follower.finish() == Line(8, 12, b'{"b"')


def test_nul_bytes_empty_lines_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"\0\n\nx\r\n\r\n\xff\ry\n")
    assert [line.data for line in Tail(str(path)).read()] == [b"\0", b"", b"x", b"", b"\xff\ry"]


def test_a_line_of_50_mb_is_told_of_in_flat_memory(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    block = bytes(range(11, 256)) * 4096
    digest = hashlib.sha256()
    with path.open("wb") as file:
        file.write(b"before\n")
        for _ in range(50):
            file.write(block)
            digest.update(block)
        file.write(b"\nbehind\n")
    size = 50 * len(block)
    follower = Tail(str(path))
    tracemalloc.start()
    try:
        lines: list[Line] = []
        while more := follower.read():
            lines += more
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 50_000_000
    assert lines == [
        Line(0, 7, b"before"),
        Line(7, 8 + size, None, "too_long", block[:2000], size, digest.hexdigest()),
        Line(8 + size, 15 + size, b"behind"),
    ]
    assert peak < tail.MAX_LINE + (4 << 20), f"{peak} bytes held"


def test_a_line_of_the_greatest_length_is_given() -> None:
    splitter = Splitter(max_line=8)
    assert [line.problem for line in splitter.feed(b"12345678\n123456789\n")] == [None, "too_long"]


def test_short_lines_are_read_fast(tmp_path: Path) -> None:
    """Against copying the lines' bytes with nothing but `split`, so that a slow machine is no failure."""
    path = tmp_path / "stdout"
    data = (b'{"type":"assistant","text":"' + b"x" * 170 + b'"}\n') * 100_000
    path.write_bytes(data)

    def timed_split() -> float:
        began = time.perf_counter()
        for at in range(0, len(data), tail.CHUNK):
            data[at : at + tail.CHUNK].split(b"\n")
        return time.perf_counter() - began

    def timed_tail() -> float:
        follower = Tail(str(path))
        began = time.perf_counter()
        count = 0
        while lines := follower.read():
            count += len(lines)
        assert count == 100_000
        return time.perf_counter() - began

    bare = min(timed_split() for _ in range(3))
    ours = min(timed_tail() for _ in range(3))
    assert ours < 12 * bare, f"{len(data) / ours / 1e6:.0f} MB/s; bare {len(data) / bare / 1e6:.0f}"


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tail(str(tmp_path / "none")).read()
