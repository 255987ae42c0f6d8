"""Names we give."""

from __future__ import annotations

import pytest

from holdfast import ids


def test_ids_are_new_and_of_their_kind() -> None:
    made = {ids.new(kind) for kind in (ids.SESSION, ids.TASK) for _ in range(2000)}
    assert len(made) == 4000
    for name in made:
        kind, other = (ids.SESSION, ids.TASK) if name[0] == "s" else (ids.TASK, ids.SESSION)
        assert ids.is_id(name, kind) and not ids.is_id(name, other)
        assert all(ids.is_beginning(name[:n], kind) for n in range(1, 17))
        assert len(name) == 16 and name.isalnum() and name == name.lower()


@pytest.mark.parametrize(
    "name",
    ["", "s", "../../etc", "s" + "0" * 14, "s" + "0" * 16, "s" + "i" * 15, "s" + "0" * 15 + "\n"],
)
def test_what_could_be_another_file_is_no_id(name: str) -> None:
    assert not ids.is_id(name, ids.SESSION)


@pytest.mark.parametrize("name", ["", "t", "s%", "s_", "sA", "s\n", "s0/", "x", "s٣", "s\ud800"])
def test_no_pattern_is_the_beginning_of_an_id(name: str) -> None:
    assert not ids.is_beginning(name, ids.SESSION)


def test_a_derived_id_is_told_by_all_of_its_texts() -> None:
    made = ids.derived(ids.TASK, "github", "abc")
    assert ids.is_id(made, ids.TASK) and made == ids.derived(ids.TASK, "github", "abc")
    others = [("github", "abd"), ("githuba", "bc"), ("githubabc",), ("github", "abc", "")]
    assert made not in {ids.derived(ids.TASK, *parts) for parts in others}
