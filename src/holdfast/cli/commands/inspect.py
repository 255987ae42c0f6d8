"""`holdfast inspect`: check whether an agent's own session is sound."""

from __future__ import annotations

import argparse

import msgspec

from holdfast.cli import common, native_args, output
from holdfast.transcripts.inspect import inspect_session


def parser(name: str) -> argparse.ArgumentParser:
    """Which session of which agent."""
    parser = common.parser(name, "Check whether an agent's own session is sound, and which turn is complete.")
    native_args.add_arguments(parser, many=False)
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the result; nothing is changed."""
    reader, root = native_args.reader_for(options)
    home, _ = common.home_and_location(options)
    found = inspect_session(reader, root, options.name, home)
    if options.json:
        output.json_line(msgspec.to_builtins(found))
        return 0
    output.text(f"{found.native_id}  {'sound' if found.sound else 'NOT SOUND'}  {found.path or '(no file)'}")
    complete = "none" if found.last_complete is None else found.last_complete
    output.text(f"{found.turns} turns, last complete: {complete}")
    for problem in found.problems:
        output.text(f"  {problem.code}: {output.plain(problem.text)}")
    for call in found.dangling:
        output.text(f"  open call {output.plain(call.get('name'))} {output.plain(call.get('input'))[:200]}")
    return 0
