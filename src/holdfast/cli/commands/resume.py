"""`holdfast resume`: go on with a session, if that is safe or somebody says so."""

from __future__ import annotations

import argparse

from holdfast.cli import common
from holdfast.cli import send as sending


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, how, and what to do there."""
    parser = common.parser(name, "Go on with a session; refused with the reasons where that is not safe.")
    parser.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    how = parser.add_mutually_exclusive_group()
    for word, what in (
        ("fork", "in a copy of its conversation, up to the last whole turn"),
        ("fresh", "in a new conversation, told of this one"),
        ("anyway", "whatever the verdict is; that it was overruled is recorded"),
    ):
        how.add_argument(f"--{word}", dest="how", action="store_const", const=word, help=what)
    parser.set_defaults(how="resume")
    sending.add_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Queue it and follow it."""
    return sending.send(options, session=options.session, how=options.how)
