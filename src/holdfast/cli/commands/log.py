"""`holdfast log`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdfast.cli import background, common, output
from holdfast.cli.common import who
from holdfast.cli.render import Teller
from holdfast.store import reads
from holdfast.store.readonly import StoreWatcher, ask

if TYPE_CHECKING:
    from holdfast.store.sql import Row, Sql


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and from where."""
    made = common.parser(name, "A session's events; with --json one a line.")
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    made.add_argument("-f", "--follow", action="store_true", help="wait for more; Ctrl-C ends it")
    made.add_argument("--after", type=int, default=0, metavar="SEQ", help="only what follows this one")
    return made


def run(given: argparse.Namespace) -> int:
    """Print the events, page by page."""
    home, location = common.place(given)
    session = ask(home, location, lambda sql: reads.resolve(sql, given.session))
    after = given.after
    teller = Teller()
    attention = background.Attention(home, location, who())
    if given.follow:
        background.see_to_it(home, location, who())

    async def page(sql: Sql) -> list[Row]:
        return await reads.log(sql, session, after)

    with StoreWatcher(home, location) as window:
        while True:
            rows = window.ask(page)
            for row in rows:
                if given.json:
                    output.json_text(reads.event_json(row))
                else:
                    output.text(teller.line(row))
                after = row[0]
            if rows:
                continue
            if not given.follow:
                return 0
            sys.stdout.flush()
            attention.pay()
            window.wait()
