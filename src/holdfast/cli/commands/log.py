"""`holdfast log`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdfast.cli import arguments, background, common, output
from holdfast.cli.common import current_user
from holdfast.cli.render import EventRenderer
from holdfast.store import json_views, reads
from holdfast.store.readonly import StoreWatcher, ask

if TYPE_CHECKING:
    from holdfast.store.sql import Row, Sql


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and from where."""
    parser = common.parser(name, "Show a session's events; with --json, one per line.")
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more events; Ctrl-C stops")
    parser.add_argument(
        "--after", type=arguments.whole_number, default=0, metavar="SEQ", help="only events after this number"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the events, page by page."""
    home, location = common.home_and_location(options)
    session = ask(home, location, lambda sql: reads.resolve(sql, options.session))
    after = options.after
    renderer = EventRenderer()
    watchdog = background.WorkerWatchdog(home, location, current_user())
    if options.follow:
        background.ensure_worker(home, location, current_user())

    async def page(sql: Sql) -> list[Row]:
        return await reads.log(sql, session, after)

    with StoreWatcher(home, location) as watcher:
        while True:
            rows = watcher.ask(page)
            for row in rows:
                if options.json:
                    output.json_text(json_views.event_json(row))
                else:
                    output.text(renderer.log_line(row))
                after = row[0]
            if rows:
                continue
            if not options.follow:
                return 0
            sys.stdout.flush()
            watchdog.check()
            watcher.wait()
