"""Reading a mirror on its own: damage anywhere never stops the reader, and costs no more than it must."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from holdfast import timestamps
from holdfast.model.event import Record
from holdfast.recovery.mirror_reader import CODE_LOST, KEPT_BYTES, WIDEST_GAP, MirrorSegment, read
from holdfast.store.mirror import format

SESSION = "s123456789abcdef"
AT = "2026-01-01T00:00:00.000000Z"
COMMITS = (1, 3, 1, 2, 1, 1)  # records in each
TEXT = 'é\\u2028\\u0000 \\"quoted\\" 😀 }{\\"session\\":'


def make(commits: tuple[int, ...] = COMMITS) -> tuple[list[Record], list[bytes]]:
    """Records and their lines."""
    records: list[Record] = []
    lines: list[bytes] = []
    crc = 0
    for size in commits:
        for i in range(size):
            seq = len(records) + 1
            body = f'{{"text":"{TEXT}{seq}"}}' if seq > 1 else '{"op":"create","agent":"claude"}'
            origin = f'{{"agent":"a","native_id":"n","record_id":"{seq}"}}' if seq % 2 else None
            kind = "assistant" if seq > 1 else "session"
            last = i == size - 1
            records.append(Record(seq, kind, AT, None, False, origin, 9 if last else None, last, body))
            data, crc = format.write(SESSION, records[-1], crc)
            lines.append(data)
    return records, lines


RECORDS, LINES = make()
WHOLE = b"".join(LINES)
COMMIT_OF = [number for number, size in enumerate(COMMITS) for _ in range(size)]


def pieces(tmp_path: Path, data: bytes, offset: int = 0, after: int = 0) -> list[MirrorSegment]:
    """What the reader makes of a file, with what must hold of any file."""
    path = tmp_path / "mirror.jsonl"
    path.write_bytes(data)
    found = list(read(SESSION, str(path), offset, after))
    seqs = [record.seq for piece in found for record in piece.records]
    assert seqs == list(range(after + 1, after + 1 + len(seqs))), "the numbers have a gap"
    starts = [piece.offset for piece in found]
    assert starts == sorted(starts)
    for piece in found:
        assert piece.records or piece is found[-1]
        assert not piece.records or piece.records[-1].last, "a piece ends inside a commit"
        assert piece.lost <= {record.seq for record in piece.records}
        assert not piece.lost & {record.seq for record in piece.proven}
        assert piece.damage is not None or piece.proven == piece.records
        for record in piece.records:
            if record.seq in piece.lost:
                assert piece.damage is not None
                assert (record.kind, json.loads(record.body)["code"]) == ("notice", CODE_LOST)
            assert timestamps.is_stamp(record.at)
    return found


def readable(found: list[MirrorSegment]) -> list[Record]:
    """The records that are no stand-ins."""
    return [record for piece in found for record in piece.records if record.seq not in piece.lost]


def test_a_whole_mirror(tmp_path: Path) -> None:
    """One piece a commit, exactly what was written."""
    found = pieces(tmp_path, WHOLE)
    assert readable(found) == RECORDS
    assert [len(piece.records) for piece in found] == list(COMMITS)
    assert all(piece.damage is None and not piece.lost for piece in found)
    assert pieces(tmp_path, b"") == []


def test_from_a_place_on(tmp_path: Path) -> None:
    """From any commit's first byte it gives the rest."""
    for seq, record in enumerate(RECORDS, 1):
        if record.last:
            offset = len(b"".join(LINES[:seq]))
            assert readable(pieces(tmp_path, WHOLE, offset, seq)) == RECORDS[seq:]


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """Every whole line before the cut, and word that there is more."""
    for cut in range(len(WHOLE)):
        found = pieces(tmp_path, WHOLE[:cut])
        lines = WHOLE[:cut].count(b"\n")
        assert readable(found) == RECORDS[:lines], cut
        inside = lines > 0 and not RECORDS[lines - 1].last
        assert sum(len(piece.lost) for piece in found) == inside, "one stand-in ends a commit that was cut"
        ends = cut == len(b"".join(LINES[:lines])) and not inside
        assert [piece.damage for piece in found if piece.damage] == ([] if ends else ["torn"]), cut


@pytest.mark.parametrize("bit", range(8))
def test_a_bit_flipped_at_every_byte(bit: int, tmp_path: Path) -> None:
    """Every record outside the commit it struck is still read, and the struck one is never trusted."""
    place = 0
    for number, text in enumerate(LINES):
        for at in range(place, place + len(text)):
            if at % 8 != bit:
                continue
            data = bytearray(WHOLE)
            data[at] ^= 1 << (at // 8 % 8)
            found = pieces(tmp_path, bytes(data))
            struck = {COMMIT_OF[number]}
            if at == place + len(text) - 1 and number + 1 < len(LINES):
                struck.add(COMMIT_OF[number + 1])  # two lines became one
            safe = [r for r in RECORDS if COMMIT_OF[r.seq - 1] not in struck]
            kept = readable(found)
            assert [r for r in safe if r not in kept] == [], at
            assert all(record in RECORDS for piece in found for record in piece.proven), at
            assert any(piece.damage for piece in found), at
        place += len(text)


@pytest.mark.parametrize("number", range(1, len(LINES) - 1))
@pytest.mark.parametrize("how", ["torn", "gone", "doubled", "garbage before", "glued to the next", "emptied"])
def test_one_line_damaged(how: str, number: int, tmp_path: Path) -> None:
    """All others are read, before and behind, in the middle of a commit or not."""
    before, text, rest = LINES[:number], LINES[number], LINES[number + 1 :]
    new = {
        "torn": [text[:40] + b"\n"],
        "gone": [],
        "doubled": [text, text],
        "garbage before": [b"\xff\0garbage\n", text],
        "glued to the next": [text[:-1]],
        "emptied": [b"\n"],
    }[how]
    found = pieces(tmp_path, b"".join([*before, *new, *rest]))
    lost = {number + 1} if how in ("torn", "gone", "emptied") else set()
    if how == "glued to the next":
        lost = {number + 1, number + 2}
    if max(lost, default=0) == len(RECORDS):  # nothing behind it says that there was more
        assert readable(found) == RECORDS[: min(lost) - 1]
        return
    assert readable(found) == [r for r in RECORDS if r.seq not in lost]
    assert set().union(*(piece.lost for piece in found)) == lost


def test_the_bytes_of_a_lost_record_are_kept_in_its_place(tmp_path: Path) -> None:
    """As far as they are not too many; the time is that of the next whole record."""
    for torn in (LINES[4][:50], LINES[4][:50] + b"x" * (KEPT_BYTES + 9)):
        found = pieces(tmp_path, b"".join([*LINES[:4], torn + b"\n", *LINES[5:]]))
        (piece,) = [p for p in found if p.lost]
        record = piece.records[0]
        body = json.loads(record.body)
        assert (record.seq, record.at, body["bytes"]) == (5, AT, len(torn) + 1)
        assert base64.b64decode(body["base64"]) == (torn + b"\n")[:KEPT_BYTES]


def test_a_seq_that_was_altered_costs_no_other_record(tmp_path: Path) -> None:
    """12 that became 92 is one damaged record, not eighty lost ones; so is one with a trillion."""
    for seq in (b"1", b"3", b"6", b"9", b"92", b"123456789012345678901234567890"):
        bad = LINES[4].replace(b'"seq":5,', b'"seq":%b,' % seq)
        assert bad != LINES[4]
        found = pieces(tmp_path, b"".join([*LINES[:4], bad, *LINES[5:]]))
        assert readable(found) == [r for r in RECORDS if r.seq != 5], seq


def test_a_gap_wider_than_any_loss_is_no_gap(tmp_path: Path) -> None:
    """A proven record far ahead makes no millions of stand-ins."""
    for seq, taken in ((len(RECORDS) + 3, True), (len(RECORDS) + WIDEST_GAP + 2, False), (10**17, False)):
        far, _ = format.write(SESSION, RECORDS[-1]._replace(seq=seq))
        found = pieces(tmp_path, WHOLE + far)
        assert len(readable(found)) == len(RECORDS) + taken
        assert bool(found[-1].lost) == taken


def test_of_another_session(tmp_path: Path) -> None:
    """Not one record is taken."""
    found = pieces(tmp_path, WHOLE.replace(SESSION.encode(), b"s" + b"z" * 15))
    assert [(piece.records, piece.damage) for piece in found] == [([], "wrong_session")]


def test_an_altered_record_is_marked(tmp_path: Path) -> None:
    """Its commit's checksum does not fit: read, but never as if it were proven."""
    found = pieces(tmp_path, WHOLE.replace("😀 }".encode(), "😁 }".encode(), 1))
    damaged = [piece for piece in found if piece.damage]
    assert [piece.damage for piece in damaged] == ["altered"]
    assert [r.seq for r in readable(found)] == [r.seq for r in RECORDS]
    at_the_end = pieces(tmp_path, WHOLE[:-6] + b"0" + WHOLE[-5:])
    assert (at_the_end[-1].damage, at_the_end[-1].proven) == ("altered", [])


UNSOUND: dict[str, tuple[bytes, bytes]] = {
    "a body that is no object": (b'"body":{"text":', b'"body":[1,"text",'),
    "an origin with other names": (b'"record_id"', b'"record_iD"'),
    "an origin that is text": (b'"origin":{"agent":"a","native_id":"n","record_id":"5"}', b'"origin":"x"'),
    "a spool that is no number of bytes": (b'"spool":9', b'"spool":9.5'),
    "a change of no kind": (b'"kind":"assistant"', b'"kind":"token"'),
    "a time that is none": (AT.encode(), b"2026-01-01 00:00:00.000000Z"),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_a_record_that_others_could_not_read_is_none(what: str, tmp_path: Path) -> None:
    """Where no checksum vouches for it, it must at least be of our shape."""
    old, new = UNSOUND[what]
    bad = LINES[4].replace(old, new).replace(b'5"}', b'5"]') if b"[" in new else LINES[4].replace(old, new)
    assert bad != LINES[4]
    found = pieces(tmp_path, b"".join([*LINES[:4], bad, *LINES[5:]]))
    assert readable(found) == [r for r in RECORDS if r.seq != 5]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\0" * 100_000,
        b"\n" * 10_000,
        b"9" * 100_000,
        b'{"session":"%b","seq":%b}\n' % (SESSION.encode(), b"9" * 5000),
        "\ufeff".encode() + WHOLE,
        WHOLE.decode().encode("utf-16"),
    ],
    ids=[
        "deep list",
        "deep object",
        "NULs",
        "newlines",
        "a number",
        "a long seq",
        "a mark of order",
        "UTF-16",
    ],
)
def test_odd_files(data: bytes, tmp_path: Path) -> None:
    """No crash, no hang, nothing made up."""
    found = pieces(tmp_path, data)
    assert all(record in RECORDS for record in readable(found))


def test_no_file(tmp_path: Path) -> None:
    """That is the caller's to know: an OSError, at once and not later."""
    with pytest.raises(FileNotFoundError):
        next(read(SESSION, str(tmp_path / "nothing")))
    with pytest.raises(IsADirectoryError):
        next(read(SESSION, str(tmp_path)))
    assert os.listdir(tmp_path) == []
