"""Statements by name, in the parameter style of a driver."""

from __future__ import annotations

import os
import re
from pathlib import Path

import apsw
import pytest

import holdfast.store
from holdfast.store.queries import load, shared

STORE = os.path.dirname(holdfast.store.__file__)


def test_parameters_are_found_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text(
        "-- a word ahead\n\n-- name: one\nselect a::text from t where x = :x and y like :y_z\n"
        "  and z = :x -- no :: here\n\n-- name: two\nselect '%' where a like 'b%'\n"
    )
    found = load(str(file), "?")
    assert found["one"].names == ("x", "y_z", "x")
    assert found["one"].text.count("?") == 3 and "a::text" in found["one"].text
    assert found["one"].values({"x": 1, "y_z": 2, "more": 3}) == (1, 2, 1)
    with pytest.raises(KeyError):
        found["one"].values({"x": 1})
    assert found["two"].text == "select '%' where a like 'b%'"
    assert load(str(file), "%s")["two"].text == "select '%%' where a like 'b%%'"
    assert load(str(file), "%s")["one"].text.count("%s") == 3


def test_both_stores_run_the_same_statements() -> None:
    sqlite, postgres = shared("?"), shared("%s")
    assert sqlite.keys() == postgres.keys()
    for name, statement in sqlite.items():
        assert statement.names == postgres[name].names
        assert statement.text.count("?") == len(statement.names) == postgres[name].text.count("%s")


def test_sqlite_understands_every_statement() -> None:
    db = apsw.Connection(":memory:")
    db.execute(Path(STORE, "sqlite", "schema.sql").read_text())
    for name, statement in shared("?").items():
        try:
            db.execute("explain " + statement.text, [None] * len(statement.names)).fetchall()
        except apsw.SQLError as problem:
            raise AssertionError(f"{name}: {problem}") from None
    db.close()


def test_every_statement_that_is_asked_for_is_there() -> None:
    wanted = set()
    for path in Path(STORE).parent.rglob("*.py"):
        wanted |= set(re.findall(r"sql\.(?:rows|dicts|run|many)\(\s*\"(\w+)\"", path.read_text()))
    own = load(os.path.join(STORE, "postgres", "queries.sql"), "%s")
    assert len(wanted) > 20 and wanted <= shared("?").keys() | own.keys()


def test_both_schemas_have_the_same_tables_and_columns() -> None:
    def tables(kind: str) -> dict[str, list[str]]:
        text = re.sub(r"--.*", "", Path(STORE, kind, "schema.sql").read_text())
        found = re.findall(r"create table (\w+) \(\n(.*?)\n\)", text, re.DOTALL)
        return {name: re.findall(r"^  (?!primary)(\w+) ", body, re.MULTILINE) for name, body in found}

    sqlite, postgres = tables("sqlite"), tables("postgres")
    assert set(sqlite) >= {"session", "log", "token", "task"}
    assert sqlite == {name: columns for name, columns in postgres.items() if name in sqlite}


def test_every_shared_statement_has_a_description() -> None:
    with open(os.path.join(STORE, "queries.sql"), encoding="utf-8") as file:
        headings = [line for line in file if line.startswith("-- name:")]
    assert len(headings) == len(shared("?"))
    assert [line for line in headings if " | " not in line] == []
