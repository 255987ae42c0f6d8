"""A database of content-addressed blobs, and what its `meta` says: the CLI's store of one conversation."""

from __future__ import annotations

from typing import Any

import apsw

from holdfast.drive import line as lines
from holdfast.history.cursor.prompts import Blobs

TABLES = frozenset({"blobs", "meta"})


def blobs_in(db: apsw.Connection) -> Blobs:
    """The blobs of a database; one that cannot be read is none."""

    def get(blob: str) -> bytes | None:
        try:
            row = db.execute("select cast(data as blob) from blobs where id = ?", (blob,)).fetchone()
        except apsw.Error:
            return None
        return row[0] if row is not None and isinstance(row[0], bytes) else None

    return get


def meta(db: apsw.Connection) -> dict[str, Any] | None:
    """What the store says of its conversation: JSON, as it is or in hex; None if it says nothing readable."""
    rows = [
        row[0]
        for row in db.execute(
            "select cast(value as blob) from meta order by cast(key as text) <> '0', rowid limit 20"
        )
    ]
    for value in rows:
        found = lines.parse(_plain(value)) if isinstance(value, bytes) else None
        if isinstance(found, dict) and ("latestRootBlobId" in found or "agentId" in found):
            return found
    return None


def _plain(value: bytes) -> bytes:
    if value.lstrip().startswith(b"{"):
        return value
    try:
        return bytes.fromhex(value.decode("ascii"))
    except ValueError:
        return value
