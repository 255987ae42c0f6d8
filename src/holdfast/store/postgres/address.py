"""Where a PostgreSQL store is: the server, the schema its tables live in, and how to say so."""

from __future__ import annotations

import hashlib
import os
import re
from typing import NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.errors import BadInput

PARAMETER = "holdfast_schema"
DEFAULT_SCHEMA = "holdfast"

# Short enough that a backup's name still fits into PostgreSQL's 63 bytes.
_SCHEMA = re.compile(r"(?!pg_|information_schema\Z)[a-z_][a-z0-9_]{0,29}\Z")

# A dead network must be noticed; what the user's URL says comes first.
_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "fallback_application_name": "holdfast",
}


class Address(NamedTuple):
    """A store's place on a server."""

    conninfo: str
    schema: str
    place: str  # for messages
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
    """The address of a URL, whose parameter `holdfast_schema` is ours and not the server's."""
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
        given = conninfo_to_dict("?".join([server, "&".join(rest)]) if rest else server)
    except psycopg.ProgrammingError:
        # The driver's own words may quote the password.
        raise BadInput(
            "that address of a PostgreSQL database cannot be read",
            hint="postgresql://user:password@host:port/database, with special characters as %XX",
        ) from None
    host = given.get("host") or os.environ.get("PGHOST") or "localhost"
    database = given.get("dbname") or os.environ.get("PGDATABASE") or given.get("user") or "default"
    return Address(
        make_conninfo("", **{**_DEFAULTS, **given, "client_encoding": "utf8"}),
        schema,
        f"the PostgreSQL database {database} at {host}",
        str(given.get("password") or ""),
    )
