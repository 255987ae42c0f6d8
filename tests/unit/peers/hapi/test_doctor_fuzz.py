"""Whatever lies in a hapi database: the doctor never fails on it, and no repair loses anything."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.doctor import operation
from holdfast.home import Home
from holdfast.peers.hapi.flavors import FLAVORS
from holdfast.peers.hapi.install import HapiInstall
from holdfast.peers.hapi.metadata import HapiMetadata
from tests.support.hapi_cases import copied, files

UUID = "7c1a7b1e-0000-4000-8000-00000000000a"
TOKENS = [flavor.token for flavor in FLAVORS.values() if flavor.token]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(UUID)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    [
        *TOKENS,
        *("flavor", "path", "host", "lifecycleState", "hostPid", "homeDir", "worktree", "forkedFrom"),
        *("piResumeAttempt", "ptyResumeAttempt", "opencodeClearOperation", "supersededBySessionId"),
        *("archiveReason", "cursorSessionProtocol", "piImportState"),
    ]
)
flavors = st.sampled_from([*FLAVORS, "", "unheard of"])
objects = st.dictionaries(keys | st.text(), values, max_size=8).flatmap(
    lambda found: flavors.map(lambda flavor: {**found, "flavor": flavor}) | st.just(found)
)
texts = (objects | values).map(json.dumps) | st.text(max_size=40)
stored = texts.map(str.encode) | st.binary(max_size=40) | st.none()

claude = st.fixed_dictionaries(
    {"type": st.just("assistant"), "sessionId": st.just(UUID) | values}, optional={"cwd": values}
)
codex = st.fixed_dictionaries({"type": values, "thread_id": st.just(UUID) | values, "scope_role": values})
contents = st.fixed_dictionaries(
    {"type": st.sampled_from(["output", "codex", "event", "text"]) | values, "data": claude | codex | values}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "agent"]) | values, "content": contents | values}
)
said = (
    messages.map(json.dumps).map(str.encode)
    | st.binary(max_size=60)
    | st.binary().map(lambda b: b"\x28\xb5\x2f\xfd" + b)
)
odd = st.none() | st.floats(allow_nan=False) | st.text(max_size=3) | st.just(2**63 - 1)
counters = st.integers(-1, 9) | odd
rows = st.tuples(stored, counters, st.lists(said, max_size=4), st.booleans())


def build(path: Path, sessions: list[tuple[Any, Any, list[bytes], bool]]) -> None:
    db = apsw.Connection(str(path))
    db.execute(
        "create table sessions (id text primary key, created_at integer, updated_at integer, metadata text,"
        " metadata_version integer default 1, active_at integer, seq integer default 0);"
        "create table messages (id text primary key, session_id text not null, content text not null,"
        " created_at integer not null, seq integer not null, local_id text, invoked_at integer);"
        "pragma user_version = 9; begin"
    )
    for number, (metadata, version, contents, blob) in enumerate(sessions):
        shown = "cast(? as text)" if not blob else "?"
        insert = f"insert into sessions values (?, 1, 1, {shown}, ?, 1, 0)"
        db.execute(insert, (f"session {number}", metadata, version))
        for seq, content in enumerate(contents):
            put = f"insert into messages values (?, ?, {shown}, 1, ?, null, 1)"
            db.execute(put, (f"{number}/{seq}", f"session {number}", content, seq))
    db.execute("commit")
    db.close()


def read(path: Path) -> tuple[dict[str, Any], list[Any]]:
    db = apsw.Connection(str(path))
    try:
        sessions = db.execute(
            "select id, cast(metadata as blob), metadata_version, seq from sessions"
        ).fetchall()
        kept = db.execute("select id, typeof(content), cast(content as blob), seq from messages").fetchall()
        return {str(row[0]): row[1:] for row in sessions}, kept
    finally:
        db.close()


@settings(deadline=None, max_examples=150)
@given(st.lists(rows, max_size=4))
def test_nothing_is_lost(sessions: list[tuple[Any, Any, list[bytes], bool]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "hapi"
        folder.mkdir()
        path = folder / "hapi.db"
        build(path, sessions)
        home, target = Home(str(Path(made) / "home")), HapiInstall(str(path), {"HOME": made})
        bytes_before, (before, kept) = files(folder), read(path)
        found = target.diagnose()
        json.dumps(found.as_json())
        assert files(folder) == bytes_before
        assert found.fingerprint == target.diagnose().fingerprint
        if not found.steps:
            assert not found.plan
            return
        receipt = operation.apply(home, target, found.fingerprint)
        after, still = read(path)
        assert still == kept and after.keys() == before.keys()
        mended = {finding.subject for finding in found.findings if finding.safe}
        for name, (metadata, version, seq) in before.items():
            if name not in mended:
                assert after[name] == (metadata, version, seq)
                continue
            old, new = HapiMetadata(metadata).fields, HapiMetadata(after[name][0]).fields
            assert after[name][1:] == (version + 1, seq + 1)
            changed = {key for key in new if key not in old or new[key] != old[key]}
            assert old.keys() <= new.keys() and changed <= {*TOKENS, "flavor", "path", "host"}
            assert all(not isinstance(old.get(key), str) or not old[key] for key in changed)
        assert not target.diagnose().plan
        operation.undo(home, target, receipt)
        assert files(folder) == bytes_before


spaces = st.sampled_from(["", " ", "\n", "\t \r\n"])


@settings(deadline=None, max_examples=300)
@given(objects, spaces, st.booleans(), st.dictionaries(keys, st.text(), max_size=3))
def test_setting_keys_keeps_every_other_value(
    old: dict[str, Any], space: str, ascii_only: bool, new: dict[str, str]
) -> None:
    text = json.dumps(old, ensure_ascii=ascii_only, separators=(f",{space}", f"{space}:"))
    metadata = HapiMetadata(f"{space}{text}{space}".encode(errors="replace"))
    if not metadata.is_object:
        assert "NaN" in text or "Infinity" in text
        return
    written = metadata.with_keys(new)
    assert written is not None and json.loads(written) == {**metadata.fields, **new}
    assert metadata.with_keys({}) is not None


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 250_000), st.binary(min_size=1, max_size=64)), min_size=1, max_size=6)
)
def test_a_damaged_file_is_reported_and_not_changed(hits: list[tuple[int, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = copied("edited-token-removed.db", Path(made))
        data = bytearray(path.read_bytes())
        for at, put in hits:
            data[at : at + len(put)] = put
        path.write_bytes(data)
        before = files(Path(made))
        found = HapiInstall(str(path), {"HOME": made}).diagnose()
        json.dumps(found.as_json())
        assert files(Path(made)) == before
        if any(finding.code.startswith("database_") for finding in found.findings):
            assert not found.steps and not found.plan
