"""`holdfast archive | unarchive | rm | restore`: one change to one session."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from holdfast.cli import common, output, send
from holdfast.cli.common import who
from holdfast.cli.open_store import changing
from holdfast.model.session import Session
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.client.client import Hub

S = TypeVar("S")


class Verb(NamedTuple):
    """One of the changes."""

    about: str
    reasoned: bool
    change: Callable[[Store, str, str, str], Awaitable[Session]]  # store, session, by, reason
    over: Callable[[Hub, str, str], Any]  # the same by a hub: session, reason
    told: str


VERBS = {
    "archive": Verb(
        "Put a session away; its key is free again, its tokens and prompts stay.",
        True,
        lambda store, session, by, reason: store.archive(session, by, reason),
        lambda hub, session, reason: hub.archive(session, reason),
        "is archived",
    ),
    "unarchive": Verb(
        "Take a session out of the archive.",
        False,
        lambda store, session, by, _: store.unarchive(session, by),
        lambda hub, session, _: hub.unarchive(session),
        "is live again",
    ),
    "rm": Verb(
        "Move a session into the trash.",
        True,
        lambda store, session, by, reason: _delete(store, session, by, reason),
        lambda hub, session, reason: _deleted(*hub.delete(session, reason)),
        "is in the trash; `holdfast restore` brings it back",
    ),
    "restore": Verb(
        "Bring a session back from the trash.",
        False,
        lambda store, session, by, _: store.restore(session, by),
        lambda hub, session, _: hub.restore(session),
        "is back",
    ),
}


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and why."""
    verb = VERBS[name]
    made = common.parser(name, verb.about)
    made.add_argument("session", metavar="ID", help="an id, its beginning, or a key")
    if verb.reasoned:
        made.add_argument("--reason", default="by hand", help="kept with it")
    else:
        made.set_defaults(reason="")
    if name == "restore":
        made.add_argument("--native", action="store_true", help="the agent's own transcript, from our copy")
        made.add_argument("--dry-run", action="store_true", help="with --native: only show what it would do")
    made.set_defaults(verb=verb)
    return made


def run(given: argparse.Namespace) -> int:
    """Make the change and say so."""
    if given.verb is VERBS["restore"] and given.native:
        from holdfast.cli.commands import restore_native

        return restore_native.restore(given)
    session = send.handed(
        *common.place(given),
        lambda hub: given.verb.over(hub, given.session, given.reason),
        lambda: msgspec.to_builtins(asyncio.run(_apply(given))),
    )
    if given.json:
        output.json_line(session)
    else:
        output.text(f"{session['id']} {given.verb.told}")
    return 0


async def _apply(given: argparse.Namespace) -> Session:
    home, location = common.place(given)
    async with changing(home, location) as store:
        session = await store.resolve(given.session)
        changed: Session = await given.verb.change(store, session, who(), given.reason)
    return changed


async def _delete(store: Store, session: str, by: str, reason: str) -> Session:
    from holdfast.runner import sessions

    return _deleted(*await sessions.delete(store, session, by, reason))


def _deleted(session: S, problem: str | None) -> S:
    """A deleted session; why its worktree stays is told."""
    if problem:
        output.note(f"holdfast: {problem}")
    return session
