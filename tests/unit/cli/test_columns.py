"""Tables fit the terminal, and no word that fits is cut."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.columns import fitted, wrap

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=12).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=6), st.integers(40, 120))
def test_every_line_fits_and_every_word_is_whole(rows: list[tuple[str, str, str]], width: int) -> None:
    lines = list(fitted([("A", "B", "C"), *rows], width))
    assert all(len(line) <= width for line in lines)
    shown = set(re.findall("[a-h]+", " ".join(lines)))
    assert {word for row in rows for cell in row for word in cell.split()} <= shown


@given(WORDS, st.integers(1, 40))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_long_key_is_wrapped_at_its_separators() -> None:
    assert wrap("forgejo:dev:owner/repository:1104", 16) == ["forgejo:dev:", "owner/", "repository:1104"]


def test_columns_are_left_out_only_where_there_is_no_room() -> None:
    rows = [("ID", "EVENTS", "TITLE"), ("s" * 16, "123456", "word " * 10)]
    assert "EVENTS" in "\n".join(fitted(rows, 40, drop=[1]))
    assert "EVENTS" not in "\n".join(fitted(rows, 24, drop=[1]))
