"""Options that commands share."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from holdfast import home as homes
from holdfast.cli import arguments, output
from holdfast.errors import BadInput, StoreMissing
from holdfast.home import Home
from holdfast.store.location import Location, locate


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the command line, and exit."""
        output.note(f"{self.prog}: {arguments.reword(message)} (`{self.prog} --help` shows the options)")
        raise SystemExit(2)

    def format_help(self) -> str:
        """The help with examples at its end."""
        from holdfast.cli.examples import EXAMPLES

        examples = EXAMPLES.get(self.prog.removeprefix("holdfast "), ())
        lines = "".join(f"  {example}\n" for example in examples)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")


def parser(name: str, about: str) -> argparse.ArgumentParser:
    """A command's parser, with the options that every command has."""
    parser = CommandParser(
        prog=f"holdfast {name}",
        description=about,
        allow_abbrev=False,
        # With a width of its own argparse does not import shutil to ask the terminal for one.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80),
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--store", metavar="URL", help="sqlite:///path/state.db or postgresql://…")
    return parser


def home_and_location(options: argparse.Namespace) -> tuple[Home, Location]:
    """The home and the location of the store that the options name."""
    home = Home(homes.default_path())
    check_utf8("the home", home.path)
    return home, locate(home, options.store)


def begin(nothing: str, missing: StoreMissing, options: argparse.Namespace) -> int:
    """Show an empty list on a machine without a home, and how to begin; a store that was named must exist."""
    if options.store or os.environ.get("HOLDFAST_STORE"):
        raise missing
    if options.json:
        output.json_line([])
    else:
        output.text(nothing)
        output.note(
            f"holdfast: {missing.message} yet. To begin: `holdfast demo` is a tour, `holdfast run -a AGENT "
            "PROMPT` runs an agent, `holdfast up` starts the hub"
        )
    return 0


def check_utf8(what: str, path: str) -> None:
    """Refuse a path that is not UTF-8: it cannot be stored or sent."""
    if any("\ud800" <= letter <= "\udfff" for letter in path):
        raise BadInput(
            f"the name of {what} is not UTF-8: {os.fsencode(path)!r}",
            hint="rename the folder, or use another one",
        )


def current_user() -> str:
    """The name of the user who runs the command."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
