"""`holdfast history`: show an agent's own transcript as events."""

from __future__ import annotations

import argparse
import os

import msgspec

from holdfast.cli import common, native_args, output
from holdfast.cli.output import ProgressBar
from holdfast.cli.render import EventRenderer
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import text
from holdfast.transcripts.reader import SessionRef


def parser(name: str) -> argparse.ArgumentParser:
    """Which session of which agent."""
    parser = common.parser(name, "Show an agent's own transcript as events. Reads only.")
    native_args.add_arguments(parser, many=False)
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the events as they are read."""
    reader, root = native_args.reader_for(options)
    place = native_args.find_one(reader, root, options.name)
    renderer = EventRenderer()
    size = os.path.getsize(place.path) if os.path.isfile(place.path) else 0
    bar = ProgressBar("reading", size)
    read = 0
    for seq, event in enumerate(reader.events(place), 1):
        body = text(event.body)
        read += len(body)
        if options.json:
            output.json_text(_line(seq, event, body))
        else:
            output.text(renderer.log_line(_row(seq, event, body)))
        bar.at(read, f"{seq} events")
    bar.end()
    return 0


def _line(seq: int, event: NewEvent, body: str) -> str:
    at = "null" if event.at is None else f'"{event.at}"'
    origin = "null" if event.origin is None else msgspec.json.encode(event.origin).decode()
    return (
        f'{{"seq":{seq},"kind":"{event.kind}","body":{body},"at":{at},'
        f'"task":null,"replayed":false,"origin":{origin}}}'
    )


def _row(seq: int, event: NewEvent, body: str) -> tuple[object, ...]:
    at = event.at or " " * 27
    return (seq, event.kind, at, None, False, None, None, True, body)


def place_json(place: SessionRef) -> dict[str, object]:
    """A native session, as commands show it."""
    found: dict[str, object] = msgspec.to_builtins(place)
    return found
