"""What no field should hold, in every field of every agent's store: no crash, and every event storable."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.agents.registry import AgentRegistry
from holdfast.model.json_codec import encode
from holdfast.transcripts.reader import TranscriptReader
from holdfast.transcripts.sqlite_snapshot import open_copy, snapshot
from tests.support.transcript_cases import FIXTURES, check_storable
from tests.support.transcript_damage import paths, put

DEPTH = 4  # of fields that are tried; further down no reader looks by name
HOLE = "a hole for an odd value"
# As they stand in JSON: a parser may refuse them, or take them and leave the trouble to what comes after.
ODD = {
    "deep": "[" * 300 + "]" * 300,
    "deep objects": '{"a":' * 300 + "1" + "}" * 300,
    "infinite": "1e400",
    "huge": "1" + "0" * 400,
    "surrogate": '"a \\ud83d"',
    "NUL": '"a \\u0000 b"',
    "surrogate key": '{"\\ud83d":{"\\u0000":1}}',
}
ABYSS = b"[" * 100_000 + b"]" * 100_000
STORES = [
    ("claude", "claude/recorded/2.1.197-kill_subagent"),
    ("claude", "claude/recorded/2.0.29-subagent"),
    ("claude", "claude/recorded/1.0.72-subagent"),
    ("codex", "codex/tool_call/rollout.jsonl"),
    ("codex", "codex/parallel_crash/rollout-2026-11-15T22-58-11-01a1e16e-b6e1-7ca0-8bc6-cbf862ee0baf.jsonl"),
    ("gemini", "gemini/tool_call/session.jsonl"),
    ("gemini", "gemini/crash_during_resume/session.jsonl"),
    ("kimi", "kimi/tool_call"),
    ("kimi", "kimi/kimicli_1.48_crash_midtool"),
    ("cursor", "cursor/sdk-jsonl"),
    ("cursor", "cursor/cursor-home"),
    ("hermes", "hermes/stale_stream_run_journal_partial/hermes-home"),
]
DATABASES = [
    ("opencode", "opencode/tool_call", ("session", "message", "part", "event")),
    ("cursor", "cursor/sdk-sqlite", ("agents", "runs", "run_events", "blobs", "meta")),
    ("cursor", "cursor/cursor-home", ("blobs", "meta")),
    ("hermes", "hermes/missing_sidecar_state_db/hermes-home", ("sessions", "messages", "schema_version")),
]
ODD_COLUMN = (float("inf"), -1, b"\xff\x00", "a \0 b", "")
NO_STORE = ("expected.json", "oracle.json", "meta.json", "_index.json")


def reader_of(agent: str) -> TranscriptReader:
    history = AgentRegistry().get(agent).history
    assert history is not None
    return history()


def read(agent: str, root: str, path: str) -> None:
    """All that can be asked of a store; what is found must be what a log takes."""
    reader = reader_of(agent)
    found = {place.native_id: place for place in [*reader.sessions(root), *reader.find(root, path)]}
    for place in found.values():
        encode(place)
        told = list(reader.events(place))
        check_storable(told)
        encode(reader.inspect(place))


def files(root: str) -> Iterator[tuple[str, list[bytes]]]:
    """The files of a store that hold JSON, with its pieces: lines, or the whole."""
    if os.path.isfile(root):
        yield root, _pieces(root)
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith((".json", ".jsonl", ".ndjson")) and name not in NO_STORE:
                yield os.path.join(folder, name), _pieces(os.path.join(folder, name))


def _pieces(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        whole = file.read()
    return [whole] if path.endswith(".json") else whole.splitlines(keepends=True)


def holes(pieces: list[bytes]) -> Iterator[bytes]:
    """The file with a hole in each kind of field, once."""
    seen = set()
    for number, piece in enumerate(pieces):
        for shape, text in holed(piece):
            if shape not in seen:
                seen.add(shape)
                yield b"".join([*pieces[:number], text, b"\n", *pieces[number + 1 :]])


def holed(piece: bytes) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """A piece of JSON with a hole in each of its fields, and which field that is."""
    try:
        record = json.loads(piece)
    except ValueError:
        return
    kind = str(record.get("type")) if isinstance(record, dict) else ""
    for path in [path for path in paths(record) if len(path) <= DEPTH]:
        shape = (kind, *(key if isinstance(key, str) else "#" for key in path))
        changed = json.loads(piece)
        put(changed, path, HOLE)
        yield shape, json.dumps(changed).encode()


def filled(text: bytes) -> Iterator[tuple[str, bytes]]:
    """The hole filled with each odd value."""
    hole = json.dumps(HOLE).encode()
    for name, odd in ODD.items():
        yield name, text.replace(hole, odd.encode())


def abysses(pieces: list[bytes]) -> Iterator[bytes]:
    """The file with one field of each piece nested endlessly: alike for all fields, and slow."""
    for number, piece in enumerate(pieces):
        for _, text in islice(holed(piece), 1):
            deep = text.replace(json.dumps(HOLE).encode(), ABYSS)
            yield b"".join([*pieces[:number], deep, b"\n", *pieces[number + 1 :]])


@pytest.mark.parametrize(("agent", "store"), STORES)
def test_every_field_of_every_file(agent: str, store: str, tmp_path: Path) -> None:
    root = str(tmp_path / os.path.basename(store))
    source = os.path.join(FIXTURES, store)
    if os.path.isdir(source):
        shutil.copytree(source, root)
    else:
        shutil.copyfile(source, root)
    for path, pieces in list(files(root)):
        before = b"".join(pieces)
        for text in holes(pieces):
            for name, content in filled(text):
                Path(path).write_bytes(content)
                try:
                    read(agent, root, path)
                except Exception as problem:
                    line = next(line for line in text.splitlines() if HOLE.encode() in line)
                    raise AssertionError(f"{name} in {path}: {line[:600]!r}") from problem
        for content in abysses(pieces):
            Path(path).write_bytes(content)
            read(agent, root, path)
        Path(path).write_bytes(before)


def databases(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".db"))


@pytest.mark.parametrize(("agent", "store", "tables"), DATABASES)
def test_every_column_of_every_database(
    agent: str, store: str, tables: tuple[str, ...], tmp_path: Path
) -> None:
    for database in databases(os.path.join(FIXTURES, store)):
        for number, change in enumerate(changes(database, tables)):
            root = str(tmp_path / str(number))
            shutil.copytree(os.path.join(FIXTURES, store), root)
            path = os.path.join(root, os.path.relpath(database, os.path.join(FIXTURES, store)))
            with closing(apsw.Connection(path)) as db:
                try:
                    db.execute(*change)
                except (apsw.ConstraintError, apsw.MismatchError):
                    continue
            try:
                read(agent, root, root)
            except Exception as problem:
                raise AssertionError(f"{database}: {str(change)[:600]}") from problem
            shutil.rmtree(root)


def changes(database: str, tables: tuple[str, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Statements that put an odd value into one column of one row, or one field of the JSON in it."""
    with snapshot(database) as copy, closing(open_copy(copy)) as db:
        found = {str(name) for (name,) in db.execute("select name from sqlite_master")}
        for table in (name for name in tables if name in found):
            for column in [str(row[1]) for row in db.execute(f"pragma table_info({table})")]:
                sql = f'update {table} set "{column}" = ? where rowid = ?'
                rows = list(db.execute(f'select rowid, "{column}" from {table} limit 5'))
                for odd in ODD_COLUMN if rows else ():
                    yield sql, (odd, rows[0][0])
                if rows:
                    yield sql.replace("= ?", "= cast(? as text)", 1), (b"\xff\xfe", rows[0][0])
                for rowid, text in _holed_columns(rows):
                    for _, content in filled(text):
                        yield sql, (content.decode(), rowid)


def _holed_columns(rows: list[Any]) -> Iterator[tuple[int, bytes]]:
    """The values that are JSON, with a hole in each kind of field, once."""
    seen = set()
    for rowid, value in rows:
        if isinstance(value, str) and value[:1] in ("{", "["):
            for shape, text in holed(value.encode()):
                if shape not in seen:
                    seen.add(shape)
                    yield rowid, text
