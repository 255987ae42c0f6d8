"""`holdfast archive | unarchive | rm | restore`: one change to one session."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from holdfast.cli import common, output, send
from holdfast.cli.common import current_user
from holdfast.cli.open_store import open_for_change
from holdfast.model.session import Session
from holdfast.store.store import Store

if TYPE_CHECKING:
    from holdfast.client.client import HubClient

S = TypeVar("S")


class SessionCommand(NamedTuple):
    """One kind of change to a session."""

    about: str
    reasoned: bool
    change: Callable[[Store, str, str, str], Awaitable[Session]]  # store, session, by, reason
    over: Callable[[HubClient, str, str], Any]  # the same by a hub: session, reason
    result: str


VERBS = {
    "archive": SessionCommand(
        "Archive a session; its key is free again, its tokens and prompts stay.",
        True,
        lambda store, session, by, reason: store.archive(session, by, reason),
        lambda hub, session, reason: hub.archive(session, reason),
        "is archived",
    ),
    "unarchive": SessionCommand(
        "Move a session out of the archive.",
        False,
        lambda store, session, by, _: store.unarchive(session, by),
        lambda hub, session, _: hub.unarchive(session),
        "is live again",
    ),
    "rm": SessionCommand(
        "Move a session to the trash.",
        True,
        lambda store, session, by, reason: _delete(store, session, by, reason),
        lambda hub, session, reason: _deleted(*hub.delete(session, reason)),
        "is in the trash; `holdfast restore` restores it",
    ),
    "restore": SessionCommand(
        "Restore a session from the trash.",
        False,
        lambda store, session, by, _: store.restore(session, by),
        lambda hub, session, _: hub.restore(session),
        "is restored",
    ),
}


def parser(name: str) -> argparse.ArgumentParser:
    """Which session, and why."""
    verb = VERBS[name]
    parser = common.parser(name, verb.about)
    parser.add_argument("session", metavar="ID", help="an id, a unique prefix of it, or a key")
    if verb.reasoned:
        parser.add_argument("--reason", default="by hand", help="the reason to record")
    else:
        parser.set_defaults(reason="")
    if name == "restore":
        parser.add_argument(
            "--native", action="store_true", help="restore the agent's own transcript from Holdfast's copy"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="with --native: only show what would change"
        )
    parser.set_defaults(verb=verb)
    return parser


def run(options: argparse.Namespace) -> int:
    """Make the change and print it."""
    if options.verb is VERBS["restore"] and options.native:
        from holdfast.cli.commands import restore_native

        return restore_native.restore(options)
    session = send.via_hub(
        *common.home_and_location(options),
        lambda hub: options.verb.over(hub, options.session, options.reason),
        lambda: msgspec.to_builtins(asyncio.run(_apply(options))),
    )
    if options.json:
        output.json_line(session)
    else:
        output.text(f"{session['id']} {options.verb.result}")
    return 0


async def _apply(options: argparse.Namespace) -> Session:
    home, location = common.home_and_location(options)
    async with open_for_change(home, location) as store:
        session = await store.resolve(options.session)
        changed: Session = await options.verb.change(store, session, current_user(), options.reason)
    return changed


async def _delete(store: Store, session: str, by: str, reason: str) -> Session:
    from holdfast.runner import sessions

    return _deleted(*await sessions.delete(store, session, by, reason))


def _deleted(session: S, problem: str | None) -> S:
    """A deleted session; prints why its worktree stays."""
    if problem:
        output.note(f"holdfast: {problem}")
    return session
