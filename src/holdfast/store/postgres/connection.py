"""How are connections to PostgreSQL opened, when are they lost, and what do errors mean to a user?"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from typing import Any, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from holdfast import errors
from holdfast.errors import BadInput

PARAMETER = "holdfast_schema"
DEFAULT_SCHEMA = "holdfast"

# Short enough for the name of a backup, which PostgreSQL limits to 63 bytes.
_SCHEMA = re.compile(r"(?!pg_|information_schema\Z)[a-z_][a-z0-9_]{0,29}\Z")

# To notice a dead network. The URL of the user overrides these.
_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "fallback_application_name": "holdfast",
}


class Address(NamedTuple):
    """The address of a store on a server."""

    conninfo: str
    schema: str
    name: str  # for messages
    password: str

    @property
    def lock(self) -> int:
        """The advisory lock that all writers of this store take."""
        digest = hashlib.sha256(b"holdfast:" + self.schema.encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def hide(self, text: str) -> str:
        """`text` without the password."""
        return text.replace(self.password, "***") if self.password else text


def parse(url: str) -> Address:
    """Parse a URL. Its parameter `holdfast_schema` is ours, not one of the server."""
    server, _, query = url.partition("?")
    schema, rest = DEFAULT_SCHEMA, []
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        if name == PARAMETER:
            schema = unquote(value)
        else:
            rest.append(part)
    if not _SCHEMA.match(schema):
        raise BadInput(
            f"{schema!r} cannot be the name of a schema",
            hint=f"{PARAMETER} takes up to 30 small letters, digits and underscores",
        )
    try:
        options = conninfo_to_dict("?".join([server, "&".join(rest)]) if rest else server)
    except psycopg.ProgrammingError:
        # The message of the driver may contain the password.
        raise BadInput(
            "the address of the PostgreSQL database is invalid",
            hint="postgresql://user:password@host:port/database, with special characters as %XX",
        ) from None
    host = options.get("host") or os.environ.get("PGHOST") or "localhost"
    database = options.get("dbname") or os.environ.get("PGDATABASE") or options.get("user") or "default"
    return Address(
        make_conninfo("", **{**_DEFAULTS, **options, "client_encoding": "utf8"}),
        schema,
        f"the PostgreSQL database {database} at {host}",
        str(options.get("password") or ""),
    )


# --- connections

PATIENCE_S = 20.0  # how long to wait for a lost server
LOCK_MS = 15_000  # how long to wait for another hub's transaction
STALL_MS = 10_000  # the server ends the connection of a hub that stalls inside a write transaction after this
READ_STALL_MS = 600_000  # a read transaction blocks nobody, and may compare many files

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

BEGIN_READ = "begin isolation level repeatable read read only"

Connection = psycopg.AsyncConnection[TupleRow]

_SETTINGS = """
select set_config('search_path', %s, false),
  set_config('lock_timeout', %s, false),
  set_config('idle_in_transaction_session_timeout', %s, false),
  set_config('synchronous_commit', case current_setting('synchronous_commit')
    when 'off' then 'on' else current_setting('synchronous_commit') end, false)
"""

# Shutting down, starting up, ended by a timeout, or a prepared statement that has changed.
_LOST = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "26000", "42P05"}
_BUSY = {"55P03", "57014", "40001", "40P01"}
_FORBIDDEN = {"25006", "42501"}

# A refused connection has no code, only a message.
_NOT_YET = re.compile("starting up|shutting down|in recovery|not yet accepting|recovery mode")


class RetryBackoff:
    """Pauses that get longer, until the time is up."""

    def __init__(self, seconds: float | None = None):
        self._end = time.monotonic() + (PATIENCE_S if seconds is None else seconds)
        self._pause = FIRST_PAUSE_S

    @property
    def left(self) -> float:
        """The remaining seconds."""
        return max(0.0, self._end - time.monotonic())

    async def wait(self) -> bool:
        """Pause. False if the time is up."""
        if not self.left:
            return False
        await asyncio.sleep(min(self._pause, self.left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        return True


async def connect(address: Address) -> Connection:
    """A connection in autocommit mode."""
    db = await psycopg.AsyncConnection.connect(address.conninfo, autocommit=True)
    try:
        await prepare(db, address, STALL_MS)
    except BaseException:
        await db.close()
        raise
    return db


async def prepare(db: Connection, address: Address, stall_ms: int = READ_STALL_MS) -> None:
    """Configure a new connection. Commits wait for the disk, because acknowledged means durable."""
    values = (f'"{address.schema}"', str(LOCK_MS), str(stall_ms))
    await db.execute(_SETTINGS, values, prepare=False)


async def connect_first(address: Address) -> Connection:
    """The first connection: waits for a server that is starting, but not for a missing one."""
    patience = RetryBackoff()
    while True:
        try:
            return await connect(address)
        except psycopg.Error as problem:
            if not (_NOT_YET.search(str(problem)) and await patience.wait()):
                raise meaning(problem, address) from problem


def lost(problem: BaseException) -> bool:
    """Whether the connection is lost or unusable, so that a new one may work."""
    if not isinstance(problem, psycopg.Error):
        return False
    state = problem.sqlstate
    if state is None:
        return isinstance(problem, psycopg.OperationalError)
    return state in _LOST or state.startswith("08") or (state == "0A000" and "cached plan" in str(problem))


def meaning(problem: Exception, address: Address) -> Exception:
    """Our error for an error of the driver. Other errors stay as they are."""
    if isinstance(problem, UnicodeEncodeError) or (
        isinstance(problem, psycopg.DataError) and problem.sqlstate is None
    ):
        return errors.UnstorableText("the text contains a NUL character or a lone surrogate")
    if not isinstance(problem, psycopg.Error):
        return problem
    message = address.hide(problem.diag.message_primary or str(problem).partition("\n")[0])
    state, name = problem.sqlstate or "", address.name
    if lost(problem):
        return errors.StoreUnreachable(f"{name} does not answer: {message}")
    if state in _BUSY:
        return errors.StoreBusy(f"{name} is locked by another hub: {message}")
    if state == "53100":
        return errors.DiskFull(f"no room is left for {name}; nothing was half written")
    if state in _FORBIDDEN:
        return errors.StoreReadOnly(f"{name} does not permit it: {message}")
    return errors.StoreUnreadable(f"{name} answered: {message}")


async def check_server(db: Connection, address: Address) -> str | None:
    """Refuse a server that cannot store every text. Returns a warning if it runs without fsync."""
    row = await one(db, "select current_setting('server_encoding'), current_setting('fsync')")
    if row[0] != "UTF8":
        raise errors.StoreUnreadable(
            f"{address.name} has the encoding {row[0]}, which cannot hold every text",
            hint="create a database with the encoding UTF8",
        )
    if row[1] == "off":
        return f"{address.name} runs with fsync off: a power cut there may lose what was acknowledged"
    return None


async def one(db: Connection, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The first row of a query that always has one."""
    row = await (await db.execute(query, values)).fetchone()
    assert row is not None
    return row
