"""`holdfast archive | unarchive | rm | restore`: one change to one session."""

from __future__ import annotations

import argparse
import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from holdfast import config
from holdfast.agents.registry import Registry
from holdfast.cli import options, output
from holdfast.cli.ask import require
from holdfast.model.session import Session
from holdfast.store.base import BaseStore
from holdfast.store.opening import open_store


class Verb(NamedTuple):
    """One of the changes."""

    about: str
    reasoned: bool
    change: Callable[[BaseStore, str, str, str], Awaitable[Session]]  # store, session, by, reason
    told: str


VERBS = {
    "archive": Verb(
        "Put a session away; its key is free again, its tokens and prompts stay.",
        True,
        lambda store, session, by, reason: store.archive(session, by, reason),
        "is archived",
    ),
    "unarchive": Verb(
        "Take a session out of the archive.",
        False,
        lambda store, session, by, _: store.unarchive(session, by),
        "is live again",
    ),
    "rm": Verb(
        "Move a session into the trash.",
        True,
        lambda store, session, by, reason: store.delete(session, by, reason),
        "is in the trash; `holdfast restore` brings it back",
    ),
    "restore": Verb(
        "Bring a session back from the trash.",
        False,
        lambda store, session, by, _: store.restore(session, by),
        "is back",
    ),
}


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and why."""
    verb = VERBS[name]
    made = options.parser(name, verb.about)
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    if verb.reasoned:
        made.add_argument("--reason", default="by hand", help="kept with it")
    made.set_defaults(verb=verb, reason="")
    return made


def run(given: argparse.Namespace) -> int:
    """Make the change and say so."""
    session = asyncio.run(_apply(given))
    if given.json:
        output.json_line(msgspec.to_builtins(session))
    else:
        print(f"{session.id} {given.verb.told}")
    return 0


async def _apply(given: argparse.Namespace) -> Session:
    home, location = options.place(given)
    require(home, location)
    rules = Registry.from_config(config.load(home).get("agents", {})).token_rules()
    store = await open_store(location, home, rules)
    try:
        session = await store.resolve(given.session)
        changed: Session = await given.verb.change(store, session, _who(), given.reason)
        return changed
    finally:
        await store.close()


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
