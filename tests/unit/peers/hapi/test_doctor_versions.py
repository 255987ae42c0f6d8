"""Every hole in every schema of hapi's: found, told, mended where it can be, and given back as it was."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import errors
from holdfast.doctor import operation
from holdfast.doctor.plan import Diagnosis
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from holdfast.peers.hapi.metadata import HapiMetadata
from tests.support.hapi_builder import VERSIONS, Made, build
from tests.support.hapi_cases import files, rows
from tests.support.hapi_holes import HOST, Hole, claude, holes, of, prompt, uuid

HOLES = holes()


def told(found: Diagnosis) -> dict[str, set[str]]:
    codes = defaultdict(set)
    for finding in found.findings:
        codes[finding.subject].add(finding.code)
    return dict(codes)


def seen(folder: Path) -> Any:
    """All that a look must leave as it is."""
    times = {str(p): p.stat().st_mtime_ns for p in (folder, *folder.rglob("*"))}
    return files(folder), times


def make_hot(path: Path) -> None:
    """Everything is in the `-wal`, as on a running hub: the file itself has no tables."""
    alone = path.with_name("alone.db")
    shutil.copyfile(path, alone)
    path.unlink()
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode = wal; pragma wal_autocheckpoint = 0")
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    source = apsw.Connection(str(alone))
    version = source.execute("pragma user_version").get
    db.execute("begin")
    for (sql,) in source.execute("select sql from sqlite_schema where sql is not null order by type desc"):
        db.execute(sql)
    for (name,) in source.execute("select name from sqlite_schema where type = 'table'").fetchall():
        for row in source.execute(f"select * from {name} order by rowid"):
            db.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
    db.execute(f"commit; pragma user_version = {version}")
    source.close()
    db.close()
    alone.unlink()


FORMS = [
    *((version, "at rest") for version in VERSIONS),
    *((version, "packed") for version in (16, 21, 26)),
    *((version, "hot") for version in (1, 8, 9, 15, 25, 26)),
]


@pytest.mark.parametrize(("version", "form"), FORMS)
def test_every_defect_is_found_repaired_and_undone(version: int, form: str, tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    here = {name: hole for name, hole in HOLES.items() if version >= hole.since}
    build(path, version, {name: hole.made for name, hole in here.items()}, packed=form == "packed")
    if form == "hot":
        make_hot(path)
    home, target = Home(str(tmp_path / "home")), HapiInstall(str(path), {"HOME": str(tmp_path)})
    untouched, before = seen(path.parent), rows(path, tmp_path / "scratch")
    found = target.diagnose()
    assert seen(path.parent) == untouched
    want = {name: set(hole.codes) for name, hole in here.items() if hole.codes}
    assert told(found) == want
    merged = [
        finding.subject for finding in found.findings if "merged them from a deleted row" in finding.text
    ]
    assert merged == ["merged without its token"]
    mends = {name: hole.sets for name, hole in here.items() if hole.sets}
    assert {finding.subject for finding in found.findings if finding.safe} == set(mends)
    receipt = operation.apply(home, target, found.fingerprint)
    after = rows(path, tmp_path / "scratch")
    _expect_only(before, after, mends)
    again = target.diagnose()
    assert not again.plan and not again.steps
    left = told(again)
    for name in mends:
        assert not left.get(name, set()) & {"token_missing", "metadata_not_object", "metadata_no_flavor"}
    operation.undo(home, target, receipt)
    assert files(path.parent) == untouched[0]
    assert target.diagnose().fingerprint == found.fingerprint


def _expect_only(before: Any, after: Any, mends: dict[str, dict[str, str]]) -> None:
    """The keys that were to be set, the two counters of their rows, and nothing else."""
    assert before.keys() == after.keys()
    for table in before:
        assert before[table].keys() == after[table].keys()
        for key, row in before[table].items():
            if table != "sessions" or row[0] not in mends:
                assert after[table][key] == row
                continue
            differ = {at for at in range(len(row)) if row[at] != after[table][key][at]}
            (metadata,) = {at for at in differ if isinstance(after[table][key][at], str)}
            counters = differ - {metadata}
            assert len(counters) == 2 and all(after[table][key][at] == row[at] + 1 for at in counters)
            old = row[metadata] if isinstance(row[metadata], bytes) else (row[metadata] or "").encode()
            now = json.loads(after[table][key][metadata])
            assert now == {**HapiMetadata(old).fields, **mends[row[0]]}


def test_unchanged_values_keep_their_exact_text(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    build(path, 26, {name: HOLES[name].made for name in ("odd numbers", "unknown keys")})
    target = HapiInstall(str(path), {"HOME": str(tmp_path)})
    operation.apply(Home(str(tmp_path / "home")), target, target.diagnose().fingerprint)
    text = next(row[6] for row in rows(path, tmp_path / "s")["sessions"].values() if row[0] == "odd numbers")
    assert "123456789012345678901234567890" in text and "1E2" in text and "\\ud83d" in text


@pytest.mark.parametrize("version", [0, 27, 31, 2**31 - 1, -1])
def test_an_unknown_version_is_reported_and_not_changed(version: int, tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    build(path, 26, {"in messages": HOLES["in messages"].made})
    db = apsw.Connection(str(path))
    db.execute(f"pragma user_version = {version}")
    db.close()
    untouched = seen(path.parent)
    target = HapiInstall(str(path), {"HOME": str(tmp_path)})
    found = target.diagnose()
    (finding,) = found.findings
    assert finding.code == "schema_unknown" and str(version) in finding.text and not found.steps
    with pytest.raises(errors.Refused):
        operation.apply(Home(str(tmp_path / "home")), target, found.fingerprint)
    assert seen(path.parent) == untouched


def test_a_copy_without_its_wal_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    build(path, 26, {"in messages": HOLES["in messages"].made})
    make_hot(path)
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    untouched = seen(path.parent)
    (finding,) = HapiInstall(str(path), {"HOME": str(tmp_path)}).diagnose().findings
    assert finding.code == "schema_unknown" and "-wal" in finding.text
    assert seen(path.parent) == untouched


def test_ids_that_are_not_text_do_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    sessions = {"sound": HOLES["sound"], "in messages": HOLES["in messages"]}
    build(path, 26, {name: hole.made for name, hole in sessions.items()})
    db = apsw.Connection(str(path))
    odd = json.dumps(of())
    for number, name in enumerate((None, b"\xff\xfe", "")):
        sql = "insert into sessions (id, created_at, updated_at, metadata, seq) values (?, 1, 1, ?, 0)"
        db.execute(sql, (name, odd))
        said = json.dumps(claude(97 + number).content)
        sql = "insert into messages (id, session_id, content, created_at, seq) values (?, ?, ?, 1, 1)"
        db.execute(sql, (repr(name), "nobody" if name is None else name, said))
    db.close()
    target = HapiInstall(str(path), {"HOME": str(tmp_path)})
    found = target.diagnose()
    assert {finding.subject for finding in found.findings if finding.safe} == {"in messages"}
    assert operation.apply(Home(str(tmp_path / "home")), target, found.fingerprint).actions
    assert not target.diagnose().plan


def test_messages_of_a_deleted_row_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    build(path, 20, {"gone": Made(of(), (prompt(), claude(1))), "sound": HOLES["sound"].made})
    db = apsw.Connection(str(path))
    db.execute("delete from sessions where id = 'gone'")
    db.close()
    assert told(HapiInstall(str(path), {"HOME": str(tmp_path)}).diagnose()) == {"gone": {"orphan_messages"}}


def test_a_host_is_set_only_if_the_install_has_one_host(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    other = Made(of(host="another host", claudeSessionId=uuid(2)), (claude(2),))
    gone: Hole = HOLES["nothing 'null'"]
    build(path, 26, {"sound": HOLES["sound"].made, "other": other, "gone": gone.made})
    found = HapiInstall(str(path), {"HOME": str(tmp_path)}).diagnose()
    (action,) = [step.action for step in found.plan]
    assert "path to" in action and HOST not in action and "another host" not in action


def test_the_user_may_choose_one_conversation_for_two_sessions(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    names = ("sound elsewhere", "held by another", "wanted by two", "wanted by two again")
    build(path, 26, {name: HOLES[name].made for name in names})
    env = {"HOME": str(tmp_path)}
    asked = [f for f in HapiInstall(str(path), env).diagnose().findings if f.code == "token_missing"]
    assert len(asked) == 3 and not any(f.safe for f in asked)
    assert "sound elsewhere" in asked[0].text and "--choose" in asked[0].text
    target = HapiInstall(str(path), env, {"held by another": uuid(7), "wanted by two": uuid(8)})
    mended = {f.subject for f in target.diagnose().findings if f.safe}
    assert mended == {"held by another", "wanted by two"}


def test_rows_before_the_damage_are_reported_and_nothing_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    padding = "x" * 1500
    sessions = {f"s{n}": Made(of(pad=f"{padding} {n:03}"), (claude(n),)) for n in range(60)}
    build(path, 26, sessions)
    data = bytearray(path.read_bytes())
    page = data.index(f"{padding} 050".encode()) // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)
    found = HapiInstall(str(path), {"HOME": str(tmp_path)}).diagnose()
    codes = told(found)
    assert codes["hapi.db"] & {"database_damaged", "database_unreadable"} and not found.steps
    assert all("token_missing" in codes[f"s{n}"] for n in range(45)) and not found.plan


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter too, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


def test_the_user_may_choose_a_token_that_is_stored_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "hapi/hapi.db"
    names = ("agy without", "sound", "cleared")
    build(path, 26, {name: HOLES[name].made for name in names})
    env, chosen = {"HOME": str(tmp_path)}, {"agy without": "known", "sound": "other", "cleared": "old"}
    target = HapiInstall(str(path), env, chosen)
    found = target.diagnose()
    assert [step.action for step in found.plan] == ["set agySessionId to known (from choice)"]
    operation.apply(Home(str(tmp_path / "home")), target, found.fingerprint)
    assert not target.diagnose().plan
    with pytest.raises(errors.BadInput, match="nobody"):
        HapiInstall(str(path), env, {"nobody": "known"}).diagnose()


def test_a_read_only_folder_is_diagnosed_and_not_changed(open_folder: Path) -> None:
    path = open_folder / "hapi/hapi.db"
    build(path, 26, {"in messages": HOLES["in messages"].made})
    target = HapiInstall(str(path), {"HOME": str(open_folder)})
    plan, untouched = target.diagnose().fingerprint, seen(path.parent)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    (open_folder / "home").mkdir(mode=0o777)
    (open_folder / "home").chmod(0o777)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            if target.diagnose().fingerprint == plan:
                operation.apply(Home(str(open_folder / "home")), target, plan)
        except errors.StoreReadOnly:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    path.parent.chmod(0o755)
    assert files(path.parent) == untouched[0]
