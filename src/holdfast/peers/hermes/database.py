"""hermes-agent's `state.db`: session rows and messages, with whatever columns its version has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import apsw
import msgspec

from holdfast import errors
from holdfast.peers.hermes import messages, values
from holdfast.transcripts.session_rows import SessionTable
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, SqliteSnapshot, open_copy, quick_check

NEWEST = 30  # the newest schema whose source was read

# Read as blobs and decoded here: apsw refuses TEXT that is not UTF-8.
_TEXTS = (
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "effect_disposition",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "platform_message_id",
    "api_content",
)
_MORE = ("reasoning_details", "codex_reasoning_items", "codex_message_items")  # JSON, for a full copy
_NUMBERS = ("timestamp", "observed", "active", "compacted", "_compressed_summary")
_HEADER = (
    "id",
    "source",
    "parent_session_id",
    "end_reason",
    "cwd",
    "git_branch",
    "git_repo_root",
    # The schema of the web UI's own repair, which no released hermes-agent has.
    "workspace",
    "worktree_path",
    "worktree_branch",
    "worktree_repo_root",
    "title",
    "model",
    "profile_name",
)
_HEADER_NUMBERS = (
    "worktree_created_at",
    "started_at",
    "ended_at",
    "message_count",
    "archived",
    "rewind_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "pinned",
)
_NEEDED = frozenset({"session_id", "role", "content"})


class HermesSessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one session."""

    id: str
    values: dict[str, Any]  # the columns that this version has

    def text(self, name: str) -> str | None:
        """The value of a text column."""
        return values.text(self.values.get(name)) or None


class HermesDatabase:
    """One consistent state of a database, open for reading."""

    def __init__(self, path: str, copy: SqliteSnapshot, db: apsw.Connection, full: bool = False):
        """Read from a private copy of `path`; `full`: messages with all their columns."""
        self.path = path
        self.copy = copy
        self.damage: list[str] = []  # SQLite's errors
        self._db = db
        self._messages = self._columns("messages")
        self._sessions = self._columns("sessions")
        texts = [name for name in (*_TEXTS, *(_MORE if full else ())) if name in self._messages]
        numbers = [name for name in _NUMBERS if name in self._messages]
        columns = [f"cast({_quoted(name)} as blob)" for name in texts] + [_number(name) for name in numbers]
        self._names = (*texts, *numbers)
        self._select = f"select {', '.join(columns) or 'null'} from messages where rowid = ?"

    @property
    def readable(self) -> bool:
        """Whether it has the tables and columns that reading needs."""
        return self._messages >= _NEEDED and "id" in self._sessions

    def version(self) -> int | str | None:
        """The version of its schema, if it has one; text if it is not a number."""
        for row in self._rows("select version, cast(version as blob) from schema_version order by 1 desc"):
            return row[0] if type(row[0]) is int else str(_plain(row[1]))
        return None

    @property
    def known(self) -> bool:
        """Whether its version can be read without guessing."""
        version = self.version()
        return version is None or (isinstance(version, int) and version <= NEWEST)

    def check(self) -> list[str]:
        """SQLite's errors about the whole file."""
        return quick_check(self._db)

    def headers(self) -> Iterator[HermesSessionRow]:
        """All sessions, one by one; rows that cannot be read are skipped."""
        for row in self._rows("select rowid from sessions order by rowid"):
            if header := self._header("rowid = ?", row[0]):
                yield header

    def ids(self, source: str) -> Iterator[str]:
        """The sessions with that source."""
        kind = "cast(source as blob)" if "source" in self._sessions else "null"
        for row in self._rows(f"select cast(id as blob), {kind} from sessions order by rowid"):
            if _plain(row[1]) == source and isinstance(own := _plain(row[0]), str) and own:
                yield own

    def header(self, native_id: str) -> HermesSessionRow | None:
        """The row of one session."""
        return self._header("id = ?", native_id) or self._header(
            "cast(id as blob) = ?", native_id.encode("utf-8", "replace")
        )

    def row_ids(self, native_id: str) -> list[int]:
        """The rows of a session's messages in the order they were added; times go back, ids do not."""
        for index_hint in ("", " not indexed"):
            sql = f"select rowid from messages{index_hint} where session_id = ? order by rowid"
            before = len(self.damage)
            rows = [row[0] for row in self._rows(sql, native_id)]
            if len(self.damage) == before:
                break
        return rows

    def message(self, row_id: int) -> messages.HermesMessage | None:
        """One message; None if its row cannot be read."""
        for row in self._rows(self._select, row_id):
            return _message(dict(zip(self._names, map(_plain, row), strict=True)), row_id)
        return None

    def role_and_content(self, native_id: str) -> list[tuple[Any, Any]] | None:
        """Role and content of all its messages, quickly; None if some were undone or cannot be read."""
        active = _quoted("active") if "active" in self._messages else "1"
        sql = f"select cast(role as blob), cast(content as blob), {active} from messages where session_id = ?"
        before = len(self.damage)
        rows = list(self._rows(f"{sql} order by rowid", native_id))
        if len(self.damage) > before or any(row[2] == 0 for row in rows):
            return None
        return [(_plain(row[0]), _plain(row[1])) for row in rows]

    def locks(self, native_id: str) -> list[str]:
        """The processes that claim to work on the session; a holder starts with its pid."""
        rows = self._rows(
            "select cast(holder as blob) from compression_locks where session_id = ?", native_id
        )
        return [text for row in rows if (text := _plain(row[0])) and isinstance(text, str)]

    def _header(self, condition: str, value: Any) -> HermesSessionRow | None:
        texts = [name for name in _HEADER if name in self._sessions]
        numbers = [name for name in _HEADER_NUMBERS if name in self._sessions]
        columns = [f"cast({_quoted(name)} as blob)" for name in texts] + [_number(name) for name in numbers]
        for row in self._rows(f"select {', '.join(columns)} from sessions where {condition}", value):
            fields = dict(zip((*texts, *numbers), map(_plain, row), strict=True))
            native_id = fields.get("id")
            if isinstance(native_id, str) and native_id:
                return HermesSessionRow(id=native_id, values=fields)
        return None

    def _columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._rows(f"pragma table_info({table})")}

    def _rows(self, sql: str, *parameters: Any) -> Iterator[tuple[Any, ...]]:
        """Rows up to the first that cannot be read; its error is noted."""
        try:
            yield from self._db.execute(sql, parameters)
        except apsw.SQLError as problem:
            if "no such" not in str(problem):  # a table or column that an older version does not have
                self._note_damage(str(problem))
        except (apsw.Error, UnicodeError, OverflowError, MemoryError) as problem:
            self._note_damage(str(problem) or type(problem).__name__)

    def _note_damage(self, text: str) -> None:
        if text not in self.damage and len(self.damage) < 20:
            self.damage.append(text)


class HermesDatabaseCache:
    """Private copies of databases; a copy is made again only if its original changed."""

    def __init__(self) -> None:
        self._kept: dict[str, SnapshotCache] = {}
        self._checked: dict[str, tuple[str, list[str]]] = {}  # by path: the copy, and SQLite's errors

    def snapshots(self, path: str) -> SnapshotCache:
        """The private copies of one database."""
        return self._kept.setdefault(path, SnapshotCache())

    @contextmanager
    def reading(self, path: str, full: bool = False) -> Iterator[tuple[HermesDatabase | None, str]]:
        """A database as it is now, or the reason why it cannot be read."""
        with ExitStack() as stack:
            database, why = None, ""
            try:
                copy = self.snapshots(path).copy(path)
                db = stack.enter_context(closing(open_copy(copy.path)))
                database = HermesDatabase(path, copy, db, full)
            except (OSError, apsw.Error, errors.StoreBusy) as problem:
                why = " ".join(str(problem).split()) or type(problem).__name__
            yield database, why

    def check(self, db: HermesDatabase) -> list[str]:
        """Damage that reading one session may not meet, in SQLite's words.

        Messages about the search tables do not count: the agent itself stores a NUL in a text, and newer
        SQLite versions then report a malformed inverted index.
        """
        known = self._checked.get(db.path)
        if known is None or known[0] != db.copy.path:
            damage = [text for text in db.check() if "_fts" not in text and "inverted" not in text]
            known = self._checked[db.path] = (db.copy.path, damage)
        return known[1]


def _message(columns: dict[str, Any], row_id: int) -> messages.HermesMessage:
    active, compacted = columns.pop("active", 1), columns.pop("compacted", 0)
    for name in ("tool_calls", *_MORE):
        if isinstance(packed := columns.get(name), str):
            try:
                columns[name] = values.parse(packed)
            except ValueError:
                columns.pop(name)
    columns = {name: value for name, value in columns.items() if value is not None}
    message = messages.read_message(columns, "row", str(row_id))
    message.compacted = bool(compacted)
    message.undone = not compacted and active == 0
    return message


def _plain(value: Any) -> Any:
    """A column's value; bytes as text, with replacement marks where they are not UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _number(name: str) -> str:
    """A column that should be a number; text in it is ignored, and may not even be UTF-8."""
    column = _quoted(name)
    return f"case when typeof({column}) in ('integer', 'real') then {column} end"


def _quoted(name: str) -> str:
    return f'"{name}"'


# --- The tables that hold the rows of a session.

MINE = "select ?1"

TABLES = (
    # A missing parent is cleared, as Hermes itself does when it deletes a session.
    SessionTable("sessions", ("id",), "id", loose="parent_session_id"),
    SessionTable("messages", ("id",), "session_id"),
    SessionTable(
        "session_model_usage",
        ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task"),
        "session_id",
        under="sessions",
    ),
)
