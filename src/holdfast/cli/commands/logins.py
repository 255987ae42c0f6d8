"""`holdfast logins`: list the browsers that are logged in to the page, or revoke their logins."""

from __future__ import annotations

import argparse

from holdfast.cli import common, output
from holdfast.client.discovery import token_path
from holdfast.errors import BadInput
from holdfast.home import Home
from holdfast.hub.logins import Logins


def parser(name: str) -> argparse.ArgumentParser:
    """What to do with which logins."""
    parser = common.parser(
        name, "List the logins to the page, or revoke some; their browsers are logged out at once."
    )
    parser.add_argument("action", nargs="?", choices=("revoke",), help="end logins instead of listing them")
    parser.add_argument("ids", nargs="*", metavar="ID", help="the logins to revoke")
    parser.add_argument("--all", action="store_true", help="revoke every login")
    return parser


def run(options: argparse.Namespace) -> int:
    """List or revoke; a hub that runs notices at once."""
    home, _ = common.home_and_location(options)
    logins = Logins(home, _token(home))
    if options.action is None:
        if options.all:
            raise BadInput("--all goes with `revoke`", hint="holdfast logins revoke --all")
        return _list(logins, options.json)
    if bool(options.ids) == options.all:
        raise BadInput("say which logins to revoke", hint="holdfast logins revoke ID…, or --all")
    if options.all:
        count = logins.revoke_all()
    else:
        for id in options.ids:
            logins.revoke(id)
        count = len(options.ids)
    if options.json:
        output.json_line({"revoked": count})
    else:
        output.text(f"revoked {output.counted(count, 'login')}")
    return 0


def _token(home: Home) -> str:
    """The hub's token, by which logins of an earlier one are told apart; none where no hub ever ran."""
    try:
        with open(token_path(home), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def _list(logins: Logins, as_json: bool) -> int:
    found = logins.all()
    if as_json:
        output.json_line([login._asdict() for login in found])
    elif not found:
        output.text("no logins")
    else:
        output.table(
            ("LOGIN", "USED", "SINCE", "EXPIRES", "ADDRESS", "BROWSER"),
            [
                (
                    login.id,
                    output.ago(login.used_at),
                    output.ago(login.created_at),
                    login.expires_at[:10],
                    login.host,
                    login.client,
                )
                for login in found
            ],
        )
    return 0
