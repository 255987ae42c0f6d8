"""Mirrors spoiled at random: the reader never fails, makes nothing up, and reads what is left whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.model.event import Record
from tests.unit.recovery.test_mirror_reader import COMMIT_OF, LINES, RECORDS, SESSION, WHOLE, pieces, readable

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(st.lists(st.sampled_from(range(len(LINES))), max_size=14))
def test_lines_in_any_order_and_number(tmp_path: Path, order: list[int]) -> None:
    """Never an error; only true records; all of those that are in their places."""
    found = pieces(tmp_path, b"".join(LINES[i] for i in order))
    assert all(record in RECORDS for record in readable(found))
    start = next((n for n, i in enumerate(order) if i != n), len(order))
    in_place = [r for r in RECORDS[:start] if r.last]
    if in_place:
        assert readable(found)[: in_place[-1].seq] == RECORDS[: in_place[-1].seq]


@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["cut out", "insert", "overwrite", "flip"]),
            st.integers(0, len(WHOLE)),
            st.binary(min_size=1, max_size=60),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_damage_of_any_sort(tmp_path: Path, damages: list[tuple[str, int, bytes]]) -> None:
    """Never an error; what whole lines are left in their order between proven commits is read."""
    data = WHOLE
    for how, at, noise in damages:
        size = len(noise)
        if how == "cut out":
            data = data[:at] + data[at + size :]
        elif how == "insert":
            data = data[:at] + noise + data[at:]
        elif how == "overwrite":
            data = data[:at] + noise + data[at + size :]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ (noise[0] or 1)]) + data[at + 1 :]
    found = pieces(tmp_path, data)
    left = set(data.splitlines(keepends=True))
    expected = [r for r in RECORDS if all(LINES[o.seq - 1] in left for o in RECORDS if _same_commit(o, r))]
    assert [r for r in expected if r not in readable(found)] == []


def _same_commit(one: Record, other: Record) -> bool:
    return COMMIT_OF[one.seq - 1] == COMMIT_OF[other.seq - 1]


@quick
@given(st.binary(max_size=2000))
def test_noise(tmp_path: Path, data: bytes) -> None:
    """Bytes that never were a mirror."""
    assert readable(pieces(tmp_path, data)) == []
    assert readable(pieces(tmp_path, WHOLE + data))[: len(RECORDS)] == RECORDS


NAMES = ("seq", "kind", "at", "task", "replayed", "origin", "spool", "body", "crc")
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@quick
@given(
    st.fixed_dictionaries(
        {"session": st.just(SESSION) | JSON},
        optional=dict.fromkeys(NAMES, JSON),
    ),
    st.booleans(),
)
def test_any_json_in_place_of_a_record(tmp_path: Path, value: dict[str, Any], ascii_only: bool) -> None:
    """Of the right names and wrong values: no record, and no harm to the others."""
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode(errors="surrogatepass")
    found = pieces(tmp_path, b"".join([*LINES[:4], text + b"\n", *LINES[5:]]))
    assert readable(found) == [r for r in RECORDS if r.seq != 5]
