"""`holdfast notify`: what people were told, and a test of the channels."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from holdfast import config, timestamps
from holdfast.cli import arguments, common, output
from holdfast.errors import BadInput, HoldfastError, StoreMissing
from holdfast.notify import channels
from holdfast.notify.settings import SEE, Channel, read_notify
from holdfast.store.readonly import ask

if TYPE_CHECKING:
    from holdfast.store.sql import Sql


def parser(name: str) -> argparse.ArgumentParser:
    """List, or test."""
    parser = common.parser(name, "List notifications, the latest first; or send a test over each channel.")
    parser.add_argument("action", nargs="?", choices=("test",), help="send a test message now")
    parser.add_argument("channel", nargs="?", metavar="CHANNEL", help="test: only this channel")
    parser.add_argument(
        "-n", "--limit", type=arguments.whole_number, default=50, help="how many (default: 50)"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the outbox, or test the channels."""
    home, location = common.home_and_location(options)
    chosen = read_notify(config.load(home))
    if options.action == "test":
        return _test(options, chosen.channels)

    async def question(sql: Sql) -> list[dict[str, Any]]:
        return await sql.dicts("latest_notifications", limit=max(1, options.limit))

    try:
        found = ask(home, location, question)
    except StoreMissing as missing:
        return common.begin("no notifications", missing, options)
    rows = [{**row, "body": json.loads(row["body"])} for row in found]
    if options.json:
        output.json_line(rows)
        return 0
    if not rows:
        how = "" if chosen.channels else f"; no channel is configured ({SEE})"
        output.text(f"no notifications{how}")
        return 0
    output.table(
        ("WHEN", "CHANNEL", "STATUS", "MESSAGE", "PROBLEM"),
        [
            (
                output.ago(row["created_at"]),
                row["channel"],
                row["status"],
                output.shortened(row["body"]["title"], 80),
                output.shortened(row["problem"] or "-", 80),
            )
            for row in rows
        ],
    )
    return 0


def _test(options: argparse.Namespace, known: tuple[Channel, ...]) -> int:
    wanted = [channel for channel in known if options.channel in (None, channel.name)]
    if not wanted:
        names = ", ".join(channel.name for channel in known) or "none"
        raise BadInput(f"there is no such channel; configured: {names}", hint=SEE)
    body = {
        "kind": "finished",
        "title": "Holdfast can reach you",
        "text": "This is a test of a notification channel.",
        "at": timestamps.now(),
        **dict.fromkeys(("session", "task", "key", "agent", "cwd", "ask", "url")),
    }
    result: dict[str, str | None] = {}
    for channel in wanted:
        try:
            channels.send(channel, "test", body)
            result[channel.name] = None
        except channels.NotSent as problem:
            result[channel.name] = str(problem)
    if options.json:
        output.json_line(result)
    else:
        for name, why in result.items():
            output.text(f"{name}: {'sent' if why is None else output.plain(why)}")
    failed = [name for name, why in result.items() if why is not None]
    if failed:
        raise HoldfastError(f"not sent over {', '.join(failed)}", hint=SEE)
    return 0
