"""Where is the store? `--store URL`, else $HOLDFAST_STORE, else `state.db` in the home."""

from __future__ import annotations

import os
from typing import NamedTuple

from holdfast.errors import BadInput
from holdfast.home import Home


class Location(NamedTuple):
    """The kind and the address of a store."""

    kind: str  # sqlite | postgres
    address: str  # a path, or a PostgreSQL URL


def locate(home: Home, url: str | None = None) -> Location:
    """The store that `url` names, else the one of the home."""
    url = url or os.environ.get("HOLDFAST_STORE") or ""
    if not url:
        return Location("sqlite", home.database)
    scheme, mark, rest = url.partition(":")
    if mark and scheme in ("postgresql", "postgres"):
        _need_driver()
        return Location("postgres", url)
    if mark and scheme == "sqlite":
        path = rest[2:] if rest.startswith("//") else rest
        if path:
            return Location("sqlite", os.path.abspath(os.path.expanduser(path)))
    raise BadInput(
        f"{url!r} is not the address of a store",
        hint="sqlite:///path/to/state.db or postgresql://user@host/database",
    )


def _need_driver() -> None:
    from importlib.util import find_spec

    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise BadInput(
            "PostgreSQL needs a driver that is not installed",
            hint="pip install 'holdfast-hub[postgres]'",
        )
