"""`holdfast logins`: which browsers are logged in to the page, and ending their logins."""

from __future__ import annotations

import argparse

from holdfast.cli import common, output
from holdfast.client.discovery import token_path
from holdfast.errors import BadInput
from holdfast.home import Home
from holdfast.hub.logins import Logins


def parser(name: str) -> argparse.ArgumentParser:
    """What to do with which logins."""
    made = common.parser(name, "List the logins of the page, or revoke some: their browsers are out at once.")
    made.add_argument("action", nargs="?", choices=("revoke",), help="end logins instead of listing them")
    made.add_argument("ids", nargs="*", metavar="ID", help="the logins to revoke")
    made.add_argument("--all", action="store_true", help="revoke every login")
    return made


def run(given: argparse.Namespace) -> int:
    """List or revoke; a hub that runs notices at once."""
    home, _ = common.place(given)
    logins = Logins(home, _token(home))
    if given.action is None:
        if given.all:
            raise BadInput("--all goes with `revoke`", hint="holdfast logins revoke --all")
        return _list(logins, given.json)
    if bool(given.ids) == given.all:
        raise BadInput("say which logins to revoke", hint="holdfast logins revoke ID…, or --all")
    if given.all:
        count = logins.revoke_all()
    else:
        for id in given.ids:
            logins.revoke(id)
        count = len(given.ids)
    if given.json:
        output.json_line({"revoked": count})
    else:
        output.text(f"revoked {output.many(count, 'login')}")
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
