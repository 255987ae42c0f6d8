"""`holdfast log`."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from holdfast.cli import options, output
from holdfast.cli.ask import ask
from holdfast.store import reads

if TYPE_CHECKING:
    from holdfast.store.sql import Row, Sql

LOOK_S = {"sqlite": 0.1, "postgres": 1.0}  # how often `-f` looks for more; a look at a server is dearer
LONG = 2000  # characters of an event shown to a person


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and from where."""
    made = options.parser(name, "A session's events; with --json one a line.")
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    made.add_argument("-f", "--follow", action="store_true", help="wait for more; Ctrl-C ends it")
    made.add_argument("--after", type=int, default=0, metavar="SEQ", help="only what follows this one")
    return made


def run(given: argparse.Namespace) -> int:
    """Print the events, page by page."""
    home, location = options.place(given)
    session = ask(home, location, lambda sql: reads.resolve(sql, given.session))
    after = given.after

    async def page(sql: Sql) -> list[Row]:
        return await reads.log(sql, session, after)

    while True:
        rows = ask(home, location, page)
        for row in rows:
            output.text(reads.event_json(row) if given.json else _readable(row))
            after = row[0]
        if rows:
            continue
        if not given.follow:
            return 0
        time.sleep(LOOK_S[location.kind])


def _readable(row: Row) -> str:
    seq, kind, at, _task, replayed, _origin, _spool, _last, body = row
    shown = _gist(kind, json.loads(body))
    mark = " (replayed)" if replayed else ""
    return f"{seq:>5} {at[:10]} {at[11:19]} {kind}{mark}: {output.plain(shown)[:LONG]}"


def _gist(kind: str, body: dict[str, Any]) -> str:
    if "text" in body:
        return str(body["text"])
    if kind == "tool_progress":
        return f"{body['name']} {json.dumps(body['input'], ensure_ascii=False)}"
    if kind == "tool_summary":
        return f"{body['name']} {body['outcome']}: {body['output']}"
    return ", ".join(f"{name} {value}" for name, value in body.items())
