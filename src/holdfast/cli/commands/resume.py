"""`holdfast resume`: continue a session, if that is safe or forced."""

from __future__ import annotations

import argparse

from holdfast.cli import common
from holdfast.cli import send as sending


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, how, and what to do there."""
    parser = common.parser(name, "Continue a session. If that is not safe, print the reasons and refuse.")
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    how = parser.add_mutually_exclusive_group()
    for word, what in (
        ("fork", "continue in a copy of its conversation, up to the last complete turn"),
        ("fresh", "start a new conversation with a brief of this one"),
        ("anyway", "ignore the verdict; the override is recorded"),
    ):
        how.add_argument(f"--{word}", dest="how", action="store_const", const=word, help=what)
    parser.set_defaults(how="resume")
    sending.add_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Queue it and follow it."""
    return sending.send(options, session=options.session, how=options.how)
