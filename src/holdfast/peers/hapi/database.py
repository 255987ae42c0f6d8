"""A hapi database, row by row: every schema from the first on, whatever columns it has yet."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import apsw
import msgspec

from holdfast import errors
from holdfast.transcripts import sqlite_snapshot

NAME = "hapi.db"
NEWEST = 26  # the last schema that we know
BIG = 256 << 20  # bytes; a database at rest of this size is read where it is, and not copied

_SESSION = ("created_at", "updated_at", "metadata_version", "seq", "active_at", "tag")
_MESSAGE = ("created_at", "local_id", "invoked_at", "scheduled_at")


class HapiSessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session's row."""

    rowid: int
    id: str
    named: bool  # the id is what stands in the row; else it is only how we call it
    metadata: bytes | None
    version: Any  # of the metadata
    seq: Any
    created_at: int
    updated_at: int
    active_at: int
    tag: str | None = None


class HapiMessageRow(msgspec.Struct, frozen=True):
    """One message's row."""

    id: str
    seq: int
    content: bytes
    created_at: int
    local_id: str | None  # of a prompt that waited in hapi's queue; older ones do not tell
    invoked_at: int | None
    scheduled_at: int | None


class HapiDatabase:
    """One consistent state of a hapi database, to be read."""

    def __init__(self, db: apsw.Connection):
        self._db = db
        self.version = int(db.execute("pragma user_version").get)
        self.tables = {
            str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'table'")
        }
        self._columns = {name: self._names(name) for name in ("sessions", "messages")}
        self._stamped = "invoked_at" in self._columns["messages"]

    def problems(self) -> list[str]:
        """What SQLite says against the file, at most three things."""
        try:
            return [str(row[0]) for row in self._db.execute("pragma quick_check(3)") if row[0] != "ok"]
        except apsw.Error as problem:
            return [str(problem)]

    def last(self) -> int:
        """The rowid of the last session, which is found without reading the others."""
        return int(self._db.execute("select max(rowid) from sessions").get or 0)

    def sessions(self) -> Iterator[HapiSessionRow]:
        """All, in the order of the file."""
        shown = ", ".join(self._or_null("sessions", name) for name in _SESSION)
        sql = (
            f"select rowid, cast(id as blob), typeof(id), cast(metadata as blob), {shown}"
            " from sessions order by rowid"
        )
        for rowid, name, kind, metadata, created, updated, version, seq, active, tag in self._db.execute(sql):
            called = _said(name)
            yield HapiSessionRow(
                rowid=rowid,
                id=called or f"row {rowid}",
                named=kind == "text" and bool(called) and str(called).encode() == name,
                metadata=metadata,
                version=version,
                seq=seq,
                created_at=_number(created),
                updated_at=_number(updated),
                active_at=_number(active),
                tag=_said(tag),
            )

    def messages(self, row: HapiSessionRow) -> Iterator[HapiMessageRow]:
        """A session's, in the order in which hapi shows them."""
        shown = ", ".join(self._or_null("messages", name) for name in _MESSAGE)
        place = "coalesce(invoked_at, created_at), seq" if self._stamped else "seq"
        sql = (
            f"select cast(id as blob), seq, cast(content as blob), {shown} from messages"
            f" where session_id = (select id from sessions where rowid = ?) order by {place}"
        )
        for name, seq, content, created, local, invoked, scheduled in self._db.execute(sql, (row.rowid,)):
            yield HapiMessageRow(
                _said(name) or f"seq {seq}",
                _number(seq),
                content or b"",
                _number(created),
                _said(local) if self._stamped else None,
                None if invoked is None else _number(invoked),
                None if scheduled is None else _number(scheduled),
            )

    def orphans(self) -> list[tuple[str, int]]:
        """Sessions that are named by messages and are not there, and how many messages each has."""
        sql = (
            "select cast(session_id as blob), count(*) from messages"
            " where session_id not in (select id from sessions where id is not null) group by session_id"
        )
        return [(_said(name) or "?", count) for name, count in self._db.execute(sql)]

    def has(self, session: str) -> bool:
        """Whether there is a session of that id."""
        return self._db.execute("select 1 from sessions where id = ?", (session,)).get is not None

    def machines(self) -> Iterator[bytes | None]:
        """The metadata of each machine that hapi has known."""
        if "machines" in self.tables:
            for (metadata,) in self._db.execute("select cast(metadata as blob) from machines"):
                yield metadata

    def _names(self, table: str) -> frozenset[str]:
        return frozenset(str(row[1]) for row in self._db.execute(f"pragma table_info({table})"))

    def _or_null(self, table: str, column: str) -> str:
        if column not in self._columns[table]:
            return "null"
        return f"cast({column} as blob)" if column in ("tag", "local_id") else column


def database_path(path: str) -> str:
    """The database of a hapi home, or the one that is named; NotFound if there is none."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    if not os.path.isfile(path):
        raise errors.NotFound(
            f"there is no hapi database at {path}", hint="name hapi's home, usually ~/.hapi, or the file"
        )
    return os.path.realpath(path)


@contextmanager
def open_database(path: str) -> Iterator[HapiDatabase]:
    """The database as it is now; nothing beside it is made or changed. apsw.Error if it is none.

    StoreBusy if one that was at rest is written meanwhile.
    """
    with ExitStack() as held:
        seen = _seen(path) if _at_rest(path) else None
        if seen is not None:
            db = sqlite_snapshot.open_at_rest(path)
        else:
            db = sqlite_snapshot.open_copy(held.enter_context(sqlite_snapshot.snapshot(path)))
        held.callback(db.close)
        yield HapiDatabase(db)
        if seen is not None and (seen != _seen(path) or not _at_rest(path)):
            raise errors.StoreBusy(f"{path} was written while it was read", hint="look again")


def _at_rest(path: str) -> bool:
    """Whether it is large, and its one file is all there is of it."""
    return sqlite_snapshot.is_at_rest(path) and os.path.getsize(path) >= BIG


def _seen(path: str) -> tuple[int, int, int]:
    what = os.stat(path)
    return what.st_ino, what.st_size, what.st_mtime_ns


def _said(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 1 << 60 else 0


# --- What a message's content says: JSON text, or the same compressed with zstd.

ZSTD = b"\x28\xb5\x2f\xfd"
LARGEST = 256 << 20  # bytes that one message may unpack to

Kind = Literal["prompt", "reply", "error", "event"]

_NAMING = {"thread_id", "threadId", "scope"}  # keys of an event that may name a Codex thread
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class HapiMessage(msgspec.Struct, frozen=True):
    """One message, as far as the doctor needs it."""

    kind: Kind
    text: str = ""
    claude: str | None = None  # the Claude session that it names
    codex: str | None = None  # the Codex thread
    role: str | None = None  # of that thread, where it is told: `parent`, or it is a subagent's
    cwd: str | None = None
    own_turn: bool = True  # of the conversation itself, not of a subagent


class UnreadableContent(ValueError):
    """That content is not what hapi stores."""


def decompress(stored: bytes) -> bytes:
    """The JSON of a stored content."""
    if not stored.startswith(ZSTD):
        return stored
    return _zstd()(stored)


def decode_content(stored: bytes) -> dict[str, Any]:
    """The whole of a stored content; Unreadable if it is not what hapi stores."""
    try:
        message = msgspec.json.decode(decompress(stored))
    except (msgspec.DecodeError, RecursionError) as problem:
        raise UnreadableContent(str(problem)) from None
    if not isinstance(message, dict) or message.get("role") not in ("user", "agent"):
        raise UnreadableContent("it has no role")
    return message


def read_content(stored: bytes) -> HapiMessage:
    """What the doctor needs of a stored content; Unreadable if it is not what hapi stores."""
    message = decode_content(stored)
    content = message.get("content")
    if message["role"] == "user":
        text = content.get("text") if isinstance(content, dict) else content
        return HapiMessage("prompt", text if isinstance(text, str) else "")
    return _agent(message, content)


def _agent(message: dict[str, Any], content: Any) -> HapiMessage:
    if not isinstance(content, dict):
        return HapiMessage("reply", content if isinstance(content, str) else "")
    data = _object(content.get("data"))
    text = data.get("message")
    text = text if isinstance(text, str) else ""
    kind: Kind = "event" if content.get("type") == "event" else "reply"
    if data.get("type") == "error":
        kind = "error"
    if content.get("type") == "output":
        named = (part.get(key) for part in (message, content, data) for key in ("session_id", "sessionId"))
        return HapiMessage(
            kind,
            text,
            claude=next((found for name in named if (found := _uuid(name))), None),
            cwd=_text(data.get("cwd")),
            own_turn=not data.get("isSidechain") and not data.get("parent_tool_use_id"),
        )
    if not _NAMING & data.keys():
        return HapiMessage(kind, text)
    thread, role = _thread(data)
    return HapiMessage(kind, text, codex=thread, role=role, own_turn=role in (None, "parent"))


def _thread(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """The Codex thread that an event names, and its role; no thread where it names two."""
    scope = _object(data.get("scope"))
    told = [data.get("scope_role"), data.get("scopeRole"), scope.get("role")]
    roles = {role for role in told if isinstance(role, str)}
    role = "parent" if roles == {"parent"} else None if not roles else "other"
    named = [where.get(key) for where in (data, scope) for key in ("thread_id", "threadId")]
    threads = {_uuid(name) for name in named if name is not None}
    return (threads.pop() if len(threads) == 1 else None), role


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _uuid(value: Any) -> str | None:
    found = value.strip() if isinstance(value, str) else ""
    return found if _UUID.fullmatch(found) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


@lru_cache(maxsize=1)
def _zstd() -> Callable[[bytes], bytes]:
    try:
        module = importlib.import_module("compression.zstd")  # Python 3.14's own
    except ImportError:
        module = importlib.import_module("zstandard")
        unpack = module.ZstdDecompressor().decompress

        def old(data: bytes) -> bytes:
            try:
                if module.frame_content_size(data) > LARGEST:  # a torn header may ask for all memory there is
                    raise UnreadableContent("it would be larger than any message")
                return bytes(unpack(data, max_output_size=LARGEST))
            except module.ZstdError as problem:
                raise UnreadableContent(str(problem)) from None

        return old

    def new(data: bytes) -> bytes:
        try:
            return bytes(module.ZstdDecompressor().decompress(data, LARGEST))
        except module.ZstdError as problem:
            raise UnreadableContent(str(problem)) from None

    return new


# --- The agents as hapi calls them, and under which key of the metadata each has its token.


class Flavor(NamedTuple):
    """One kind of agent that hapi wraps."""

    name: str
    token: str | None  # the metadata key; None: it cannot be resumed
    agent: str | None = None  # what we call it, if we can read its own store


FLAVORS = {
    flavor.name: flavor
    for flavor in (
        Flavor("claude", "claudeSessionId", "claude"),
        Flavor("codex", "codexSessionId", "codex"),
        Flavor("cursor", "cursorSessionId", "cursor"),
        Flavor("gemini", "geminiSessionId", "gemini"),
        Flavor("opencode", "opencodeSessionId", "opencode"),
        Flavor("kimi", "kimiSessionId", "kimi"),
        Flavor("copilot", "copilotSessionId"),
        Flavor("grok", "grokSessionId"),
        Flavor("agy", "agySessionId"),
        Flavor("pi", "piSessionId"),
        Flavor("dsh", None),
    )
}

TOKENS = tuple(flavor.token for flavor in FLAVORS.values() if flavor.token)

PROTOCOL = "cursorSessionProtocol"
PROTOCOLS = ("acp", "stream-json")
