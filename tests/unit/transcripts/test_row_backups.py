"""Copies of rows: only what is new, nothing of other sessions, and put back as they were or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.agents.opencode.reader import OpenCodeReader
from holdfast.model.event import NewEvent
from holdfast.peers.hermes.reader import HermesReader
from holdfast.transcripts import row_backups
from holdfast.transcripts.backups import TranscriptBackup
from holdfast.transcripts.reader import SessionRef, TranscriptReader
from tests.support import paths

FIXTURES = paths.FIXTURES / "history"
AT = "2026-01-01T00:00:00.000000Z"
OPENCODE = "ses_e1ebc097affed8WqPs88eCJsFR"


class Case(NamedTuple):
    """A store of one agent in a folder of its own, and our copies of one of its sessions."""

    root: str
    database: str
    native_id: str
    make: Callable[[], TranscriptReader]
    folder: str

    def native(self) -> TranscriptBackup:
        return TranscriptBackup(self.folder, self.native_id, self.make())

    def place(self) -> SessionRef:
        (found,) = self.make().find(self.root, self.native_id)
        return found

    def events(self) -> list[NewEvent]:
        return list(self.make().events(self.place()))

    def changes(self) -> list[str]:
        return [found.change for found in self.native().differences() if found.rows is not None]

    def restore(self) -> None:
        native = self.native()
        for found in native.differences():
            if found.rows is not None and found.change in ("missing", "shrunk"):
                native.restore(found, AT)

    def do(self, *statements: str) -> None:
        with closing(apsw.Connection(self.database)) as db:
            db.execute("pragma foreign_keys = on")
            for statement in statements:
                db.execute(statement)

    def dump(self, but: str = "") -> dict[str, list[tuple[object, ...]]]:
        """All rows of all tables, but those that have that value anywhere."""
        with closing(apsw.Connection(self.database)) as db:
            names = [
                str(name) for (name,) in db.execute("select name from sqlite_master where type = 'table'")
            ]
            rows = {
                name: sorted(db.execute(f"select * from {name}"), key=repr)
                for name in names
                if "_fts" not in name
            }
        return {name: [row for row in found if not but or but not in row] for name, found in rows.items()}


def opencode(tmp_path: Path) -> Case:
    root = tmp_path / "opencode"
    shutil.copytree(FIXTURES / "opencode" / "tool_call", root)
    case = Case(str(root), str(root / "opencode.db"), OPENCODE, OpenCodeReader, str(tmp_path / "native"))
    other = []
    for table, change in (
        ("session", "id = 'ses_other'"),
        ("message", "id = 'other' || id, session_id = 'ses_other'"),
        ("part", "id = 'other' || id, message_id = 'other' || message_id, session_id = 'ses_other'"),
        ("event_sequence", "aggregate_id = 'ses_other'"),
        ("event", "id = 'other' || id, aggregate_id = 'ses_other'"),
    ):
        other += [
            f"create temp table copied as select * from {table}",
            f"update copied set {change}",
            f"insert into {table} select * from copied",
            "drop table copied",
        ]
    names = "id, project_id, parent_id, slug, directory, title, version, time_created, time_updated"
    values = f"'ses_child', 'global', '{OPENCODE}', 's', '/d', 't', '1', 1, 1"
    child = f"insert into session ({names}) values ({values})"
    secret = f"insert into session_share values ('{OPENCODE}', 'i', 'THE-SECRET', 'u', 1, 1)"
    case.do(*other, child, secret)
    return case


def hermes(tmp_path: Path) -> Case:
    root = tmp_path / "hermes"
    shutil.copytree(FIXTURES / "hermes" / "missing_sidecar_state_db" / "hermes-home", root)
    return Case(str(root), str(root / "state.db"), "dbonly0001", HermesReader, str(tmp_path / "native"))


STORES = {"opencode": opencode, "hermes": hermes}
DELETE = {
    "opencode": [
        f"delete from session where id in ('{OPENCODE}', 'ses_child')",
        f"delete from event_sequence where aggregate_id = '{OPENCODE}'",
    ],
    "hermes": [
        "delete from messages where session_id = 'dbonly0001'",
        "delete from session_model_usage where session_id = 'dbonly0001'",
        "delete from sessions where id = 'dbonly0001'",
    ],
}
CUT = {
    name: f"delete from {table} where rowid = (select max(rowid) from {table} where session_id = '{session}')"
    for name, table, session in (("opencode", "message", OPENCODE), ("hermes", "messages", "dbonly0001"))
}


@pytest.fixture(params=sorted(STORES))
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return STORES[request.param](tmp_path)


def named(case: Case) -> str:
    return os.path.basename(case.root)


def test_only_what_is_new_is_copied_and_reading_changes_nothing(case: Case) -> None:
    before = {e.name: (e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(case.root)}
    assert case.native().update(case.place()) > 1000
    assert case.native().update(case.place()) == 0 and case.changes() == ["same"]
    assert {e.name: (e.stat().st_mtime_ns, e.stat().st_size) for e in os.scandir(case.root)} == before
    (copy,) = row_backups.row_backups_in(case.folder)
    with open(copy.path) as file:
        text = file.read()
    assert "THE-SECRET" not in text and "ses_other" not in text and "keep0001" not in text


def test_a_deleted_session_is_put_back_and_no_other_is_touched(case: Case) -> None:
    case.native().update(case.place())
    events, whole = case.events(), case.dump()
    case.do(*DELETE[named(case)])
    others = case.dump(but=case.native_id)
    assert not case.make().find(case.root, case.native_id)
    assert case.changes() == ["missing"]
    case.restore()
    assert case.events() == events and case.changes() == ["same"]
    now = case.dump()
    gone = {"session_share", "sqlite_sequence"}  # the one is a secret, which no copy has
    assert {name: rows for name, rows in now.items() if name not in gone} == {
        name: rows for name, rows in whole.items() if name not in gone
    }
    assert all(row in now[name] for name, rows in others.items() for row in rows if name not in gone)
    assert case.make().inspect(case.place()).sound


def test_a_session_that_was_cut_is_made_whole(case: Case) -> None:
    case.native().update(case.place())
    events = case.events()
    case.do(CUT[named(case)])
    assert case.events() != events and case.changes() == ["shrunk"]
    case.restore()
    assert case.events() == events and case.changes() == ["same"]


def test_a_session_that_went_on_otherwise_is_left_alone(case: Case) -> None:
    case.native().update(case.place())
    table = "message" if named(case) == "opencode" else "messages"
    new = "'new'" if table == "message" else "9999"
    rest = "time_created, time_updated, data" if table == "message" else "role, content, timestamp"
    insert = f"insert into {table} (id, session_id, {rest}) select {new}, session_id, {rest} from {table}"
    case.do(f"{insert} where session_id = '{case.native_id}' limit 1")
    assert case.changes() == ["grown"]
    case.do(CUT[named(case)].replace("max(", "min("))
    before = case.dump()
    assert case.changes() == ["rewritten"]
    case.restore()
    assert case.dump() == before
    # The next copy takes it as it is; what was there before stays in the file.
    assert case.native().update(case.place()) > 0 and case.changes() == ["same"]


def test_a_session_deleted_while_it_is_copied_keeps_its_last_state(case: Case) -> None:
    place = case.place()
    case.native().update(place)
    events = case.events()
    case.do(*DELETE[named(case)])
    if isinstance(reader := case.make(), OpenCodeReader):
        row_backups.RowBackup.of(case.folder, case.database).update(
            reader.session_rows(case.database, case.native_id)
        )
    case.native().update(place)
    case.restore()
    assert case.events() == events


def test_a_torn_copy_is_gone_on_with(case: Case) -> None:
    case.native().update(case.place())
    events = case.events()
    (copy,) = row_backups.row_backups_in(case.folder)
    os.truncate(copy.path, os.path.getsize(copy.path) - 7)
    assert case.changes() == ["grown"]
    assert case.native().update(case.place()) > 0 and case.changes() == ["same"]
    case.do(*DELETE[named(case)])
    case.restore()
    assert case.events() == events


def test_a_database_in_use_is_refused(case: Case, tmp_path: Path) -> None:
    case.native().update(case.place())
    case.do(*DELETE[named(case)])
    program = "import sys; f = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, case.database], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tool:
        assert tool.stdout is not None and tool.stdout.readline()
        with pytest.raises(errors.SessionRunning, match=str(tool.pid)):
            case.restore()
        tool.kill()
    case.restore()
    assert case.changes() == ["same"]


def test_a_database_that_is_gone_or_damaged_is_refused(case: Case) -> None:
    case.native().update(case.place())
    case.do(*DELETE[named(case)])
    with open(case.database, "r+b") as file:
        file.seek(os.path.getsize(case.database) // 2)
        file.write(b"\xff" * 4096)
    with open(case.database, "rb") as file:
        before = file.read()
    with pytest.raises((errors.Refused, errors.StoreUnreadable)):
        case.restore()
    with open(case.database, "rb") as file:
        assert file.read() == before
    os.unlink(case.database)
    with pytest.raises(errors.Refused, match="only its tool can create it"):
        case.restore()


def test_a_database_that_is_damaged_elsewhere_is_not_written_to(case: Case) -> None:
    case.native().update(case.place())
    case.do(*DELETE[named(case)], "create table other(x)", "insert into other values (1)")
    with closing(apsw.Connection(case.database)) as db:
        db.execute("pragma wal_checkpoint(truncate)").fetchall()
        ((page, size),) = db.execute(
            "select rootpage, page_size from sqlite_master, pragma_page_size where name = 'other'"
        )
    with open(case.database, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    before = Path(case.database).read_bytes()
    assert case.changes() == ["missing"]
    with pytest.raises(errors.Refused, match="is damaged, so nothing is written"):
        case.restore()
    assert Path(case.database).read_bytes() == before


def test_a_place_that_another_session_has_by_now_is_refused(tmp_path: Path) -> None:
    case = hermes(tmp_path)
    with closing(apsw.Connection(case.database)) as db:
        ((first,),) = db.execute("select min(id) from messages where session_id = 'dbonly0001'")
    case.native().update(case.place())
    case.do(
        *DELETE["hermes"],
        f"insert into messages (id, session_id, role, timestamp) values ({first}, 'keep0001', 'user', 1)",
    )
    before = case.dump()
    with pytest.raises(errors.Refused, match=r"nothing was changed: .*messages\.id"):
        case.restore()
    assert case.dump() == before


def test_a_parent_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    case = hermes(tmp_path)
    case.do("update sessions set parent_session_id = 'keep0001' where id = 'dbonly0001'")
    case.native().update(case.place())
    case.do(*DELETE["hermes"], "delete from messages where session_id = 'keep0001'")
    case.do(
        "delete from session_model_usage where session_id = 'keep0001'",
        "delete from sessions where id = 'keep0001'",
    )
    case.restore()
    with closing(apsw.Connection(case.database)) as db:
        assert list(db.execute("select id, parent_session_id from sessions")) == [("dbonly0001", None)]
        assert not list(db.execute("pragma foreign_key_check"))


def test_every_kind_of_value_comes_back_as_it_was(tmp_path: Path) -> None:
    case = opencode(tmp_path)
    odd = [
        "x'00ff'",
        "cast(x'ff41' as text)",
        "'a' || char(0) || 'é🙂'",
        "9e999",
        "-9e999",
        "1.5",
        "9223372036854775807",
        "null",
        "''",
    ]
    columns = [
        "summary_diffs",
        "metadata",
        "title",
        "cost",
        "tokens_input",
        "summary_files",
        "summary_additions",
        "revert",
        "slug",
    ]
    case.do(
        *[f"update session set {c} = {v} where id = '{OPENCODE}'" for c, v in zip(columns, odd, strict=True)]
    )

    def values() -> list[object]:
        told = ", ".join(
            f"typeof({c}), case typeof({c}) when 'text' then hex({c}) else quote({c}) end" for c in columns
        )
        with closing(apsw.Connection(case.database)) as db:
            return list(db.execute(f"select {told} from session where id = '{OPENCODE}'"))

    case.native().update(case.place())
    before = values()
    case.do(*DELETE["opencode"])
    case.restore()
    assert values() == before and before


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_rows_go_the_same_is_told_again(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    case = opencode(tmp_path_factory.mktemp("rows"))
    case.native().update(case.place())
    events, others = case.events(), case.dump(but=OPENCODE)
    with closing(apsw.Connection(case.database)) as db:
        ids = [str(id) for (id,) in db.execute("select id from part where session_id = ?", (OPENCODE,))]
        ids += [str(id) for (id,) in db.execute("select id from message where session_id = ?", (OPENCODE,))]
    for id in data.draw(st.lists(st.sampled_from(ids), unique=True)):
        case.do(f"delete from part where id = '{id}'", f"delete from message where id = '{id}'")
    if data.draw(st.booleans()):
        case.do(f"delete from session where id = '{OPENCODE}'")
    case.restore()
    assert case.events() == events and case.changes() == ["same"]
    now = case.dump()
    assert all(row in now[name] for name, rows in others.items() for row in rows)


def test_a_copy_of_each_database_of_one_session(tmp_path: Path) -> None:
    case = opencode(tmp_path)
    case.native().update(case.place())
    moved = str(tmp_path / "elsewhere" / "opencode.db")
    shutil.copytree(case.root, os.path.dirname(moved))
    there = case._replace(root=os.path.dirname(moved), database=moved)
    there.native().update(there.place())
    assert {copy.database for copy in row_backups.row_backups_in(case.folder)} == {case.database, moved}


def test_a_database_that_is_not_known_or_gone_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case = opencode(tmp_path)
    place = case.place()
    case.do("drop index part_session_idx", "alter table part rename column session_id to whose")
    assert case.native().update(place) == 0
    assert "has no table part in a known form" in caplog.text and not case.native().exists()
    os.unlink(case.database)
    assert case.native().update(place) == 0
