"""`holdfast demo`: a tour in a home of its own; it kills things, and checks what is left."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli import common, output


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options, and whether to wait at the end."""
    made = common.parser(
        name, "A tour without agent or model: runs a demo agent, kills things, shows what survives."
    )
    made.add_argument("--no-wait", action="store_true", help="do not keep the page open at the end")
    return made


def run(given: argparse.Namespace) -> int:
    """All acts, then the page until Enter; everything is removed afterwards."""
    from holdfast.cli.tour import ACTS, Stage, Telling

    tell = Telling(aloud=not given.json)
    with Stage() as stage:
        for act in ACTS:
            act(stage, tell)
        if given.json:
            output.json_line({"claims": tell.claims})
            return 0
        tell.act("That was all. Nothing was lost.")
        tell.say("The page shows it:")
        tell.point(stage.address)
        if sys.stdin.isatty() and not given.no_wait:
            tell.say("Enter or Ctrl-C ends the tour and removes all of it.")
            try:
                input()
            except (KeyboardInterrupt, EOFError):
                output.text("")
    return 0
