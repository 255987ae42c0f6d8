"""hermes-agent's `state.db`: headers and messages of its sessions, whatever columns it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import apsw
import msgspec

from holdfast import errors
from holdfast.peers.hermes import messages, values
from holdfast.transcripts.row_backups import SessionTable
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, SqliteSnapshot, open_copy, quick_check

NEWEST = 30  # the newest schema that was read in its source

# Text, whatever its bytes are: apsw refuses TEXT that is not UTF-8.
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
    """A session's row."""

    id: str
    values: dict[str, Any]  # the columns that this version has

    def word(self, name: str) -> str | None:
        """One of its texts."""
        return values.text(self.values.get(name)) or None


class HermesDatabase:
    """One state of a database, open for reading."""

    def __init__(self, path: str, copy: SqliteSnapshot, db: apsw.Connection, full: bool = False):
        """Read from a private copy of what is at `path`; `full`: messages with all they have."""
        self.path = path
        self.copy = copy
        self.damage: list[str] = []  # what could not be read, in SQLite's words
        self._db = db
        self._messages = self._columns("messages")
        self._sessions = self._columns("sessions")
        texts = [name for name in (*_TEXTS, *(_MORE if full else ())) if name in self._messages]
        numbers = [name for name in _NUMBERS if name in self._messages]
        wanted = [f"cast({_quoted(name)} as blob)" for name in texts] + [_number(name) for name in numbers]
        self._names = (*texts, *numbers)
        self._select = f"select {', '.join(wanted) or 'null'} from messages where rowid = ?"

    @property
    def readable(self) -> bool:
        """Whether it has the tables and columns without which it says nothing."""
        return self._messages >= _NEEDED and "id" in self._sessions

    def version(self) -> int | str | None:
        """The version of its schema, if it tells one; a text, if that is no number."""
        for row in self._rows("select version, cast(version as blob) from schema_version order by 1 desc"):
            return row[0] if type(row[0]) is int else str(_plain(row[1]))
        return None

    @property
    def known(self) -> bool:
        """Whether it is of a version that can be read without guessing."""
        version = self.version()
        return version is None or (isinstance(version, int) and version <= NEWEST)

    def check(self) -> list[str]:
        """What SQLite says against all of it."""
        return quick_check(self._db)

    def headers(self) -> Iterator[HermesSessionRow]:
        """All sessions, one by one; rows that cannot be read are left out."""
        for row in self._rows("select rowid from sessions order by rowid"):
            if found := self._header("rowid = ?", row[0]):
                yield found

    def ids(self, source: str) -> Iterator[str]:
        """The sessions that came from there."""
        kind = "cast(source as blob)" if "source" in self._sessions else "null"
        for row in self._rows(f"select cast(id as blob), {kind} from sessions order by rowid"):
            if _plain(row[1]) == source and isinstance(own := _plain(row[0]), str) and own:
                yield own

    def header(self, native_id: str) -> HermesSessionRow | None:
        """One session's row."""
        return self._header("id = ?", native_id) or self._header(
            "cast(id as blob) = ?", native_id.encode("utf-8", "replace")
        )

    def places(self, native_id: str) -> list[int]:
        """The rows of a session's messages in the order they were added; times go back, ids do not."""
        for way in ("", " not indexed"):
            sql = f"select rowid from messages{way} where session_id = ? order by rowid"
            before = len(self.damage)
            found = [row[0] for row in self._rows(sql, native_id)]
            if len(self.damage) == before:
                break
        return found

    def message(self, place: int) -> messages.HermesMessage | None:
        """One message; None if its row cannot be read."""
        for row in self._rows(self._select, place):
            return _message(dict(zip(self._names, map(_plain, row), strict=True)), place)
        return None

    def said(self, native_id: str) -> list[tuple[Any, Any]] | None:
        """Role and content of all its messages, quickly; None if some were taken back or cannot be read."""
        active = _quoted("active") if "active" in self._messages else "1"
        sql = f"select cast(role as blob), cast(content as blob), {active} from messages where session_id = ?"
        before = len(self.damage)
        rows = list(self._rows(f"{sql} order by rowid", native_id))
        if len(self.damage) > before or any(row[2] == 0 for row in rows):
            return None
        return [(_plain(row[0]), _plain(row[1])) for row in rows]

    def locks(self, native_id: str) -> list[str]:
        """Who says that it is working on the session; a holder begins with its pid."""
        rows = self._rows(
            "select cast(holder as blob) from compression_locks where session_id = ?", native_id
        )
        return [text for row in rows if (text := _plain(row[0])) and isinstance(text, str)]

    def _header(self, where: str, value: Any) -> HermesSessionRow | None:
        texts = [name for name in _HEADER if name in self._sessions]
        numbers = [name for name in _HEADER_NUMBERS if name in self._sessions]
        wanted = [f"cast({_quoted(name)} as blob)" for name in texts] + [_number(name) for name in numbers]
        for row in self._rows(f"select {', '.join(wanted)} from sessions where {where}", value):
            told = dict(zip((*texts, *numbers), map(_plain, row), strict=True))
            own = told.get("id")
            if isinstance(own, str) and own:
                return HermesSessionRow(id=own, values=told)
        return None

    def _columns(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._rows(f"pragma table_info({table})")}

    def _rows(self, sql: str, *given: Any) -> Iterator[tuple[Any, ...]]:
        """Rows up to the first that cannot be read; that is noted."""
        try:
            yield from self._db.execute(sql, given)
        except apsw.SQLError as problem:
            if "no such" not in str(problem):  # a table or column that an older version has not
                self._note(str(problem))
        except (apsw.Error, UnicodeError, OverflowError, MemoryError) as problem:
            self._note(str(problem) or type(problem).__name__)

    def _note(self, *said: str) -> None:
        for words in said:
            if words not in self.damage and len(self.damage) < 20:
                self.damage.append(words)


class HermesDatabaseCache:
    """Private copies of databases, each made once as long as its original stays the same."""

    def __init__(self) -> None:
        self._kept: dict[str, SnapshotCache] = {}
        self._checked: dict[str, tuple[str, list[str]]] = {}  # by path: the copy, and what is wrong with it

    def kept(self, path: str) -> SnapshotCache:
        """The copies of one database."""
        return self._kept.setdefault(path, SnapshotCache())

    @contextmanager
    def reading(self, path: str, full: bool = False) -> Iterator[tuple[HermesDatabase | None, str]]:
        """A database as it is now, or why there is none that can be read."""
        with ExitStack() as stack:
            found, why = None, ""
            try:
                copy = self.kept(path).copy(path)
                db = stack.enter_context(closing(open_copy(copy.path)))
                found = HermesDatabase(path, copy, db, full)
            except (OSError, apsw.Error, errors.StoreBusy) as problem:
                why = " ".join(str(problem).split()) or type(problem).__name__
            yield found, why

    def check(self, db: HermesDatabase) -> list[str]:
        """Damage that reading one session may not meet, in SQLite's words.

        Words about the search tables do not count: the agent itself stores a NUL in a text, of which newer
        SQLite versions say that the inverted index is malformed.
        """
        known = self._checked.get(db.path)
        if known is None or known[0] != db.copy.path:
            said = [words for words in db.check() if "_fts" not in words and "inverted" not in words]
            known = self._checked[db.path] = (db.copy.path, said)
        return known[1]


def _message(told: dict[str, Any], place: int) -> messages.HermesMessage:
    active, compacted = told.pop("active", 1), told.pop("compacted", 0)
    for name in ("tool_calls", *_MORE):
        if isinstance(packed := told.get(name), str):
            try:
                told[name] = values.parse(packed)
            except ValueError:
                told.pop(name)
    told = {name: value for name, value in told.items() if value is not None}
    read = messages.read_message(told, "row", str(place))
    read.compacted = bool(compacted)
    read.undone = not compacted and active == 0
    return read


def _plain(value: Any) -> Any:
    """A column's value; bytes that are text as text, and broken text with marks where it is broken."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _number(name: str) -> str:
    """A column that should be a number; a text in its place is no use, and may be no text either."""
    column = _quoted(name)
    return f"case when typeof({column}) in ('integer', 'real') then {column} end"


def _quoted(name: str) -> str:
    return f'"{name}"'


# --- What of Hermes's database belongs to a session.

MINE = "select ?1"

TABLES = (
    # A parent that is gone is forgotten, as Hermes itself does when it deletes one.
    SessionTable("sessions", ("id",), "id", loose="parent_session_id"),
    SessionTable("messages", ("id",), "session_id"),
    SessionTable(
        "session_model_usage",
        ("session_id", "model", "billing_provider", "billing_base_url", "billing_mode", "task"),
        "session_id",
        under="sessions",
    ),
)
