"""`holdfast demo`: a tour in a scratch home; it kills things, and checks what survives."""

from __future__ import annotations

import argparse
import sys

from holdfast.cli import common, output


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options, and whether to wait at the end."""
    parser = common.parser(
        name, "Take a tour that needs no model: run a demo agent, kill things, show what survives."
    )
    parser.add_argument("--no-wait", action="store_true", help="do not keep the page open at the end")
    return parser


def run(options: argparse.Namespace) -> int:
    """All acts, then the page until Enter; everything is removed afterwards."""
    from holdfast.cli.tour import ACTS, TourHome, TourPrinter

    tell = TourPrinter(aloud=not options.json)
    with TourHome() as stage:
        for act in ACTS:
            act(stage, tell)
        if options.json:
            output.json_line({"claims": tell.claims})
            return 0
        tell.act("The tour is complete. Nothing was lost.")
        tell.say("The page shows it:")
        tell.point(stage.address)
        if sys.stdin.isatty() and not options.no_wait:
            tell.say("Press Enter or Ctrl-C to end the tour and remove its files.")
            try:
                input()
            except (KeyboardInterrupt, EOFError):
                output.text("")
    return 0
