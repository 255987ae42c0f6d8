"""From an assignment to what is to be done: which of our users is meant, where, and with which prompt."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from holdfast import ids
from holdfast.forges import settings as template
from holdfast.forges.payload import Assignment, IgnoredDelivery
from holdfast.forges.settings import TEMPLATE, Forge, PromptSettings
from holdfast.runner.dispatch import Wish

MAX_BODY = 65_536  # characters of an issue's text that go into a prompt

V = TypeVar("V")


class IssueThread(NamedTuple):
    """An issue of one of our users."""

    user: str
    key: str


class DeliveryId(NamedTuple):
    """What tells a delivery from every other: its id, and what was signed (the id is not)."""

    delivery: str
    digest: str


def threads(forge: Forge, assigned: Assignment) -> list[IssueThread] | IgnoredDelivery:
    """Our users that the issue was, or may have been, given to."""
    users = [found for login in assigned.to if (found := _spelled(forge.users, login)) is not None]
    if not users:
        return IgnoredDelivery("it was assigned to nobody who is configured")
    if forge.senders and _spelled(dict.fromkeys(forge.senders), assigned.sender) is None:
        return IgnoredDelivery(f"{assigned.sender[:100]!r} is not one of the senders that count")
    if known := [user for user in dict.fromkeys(users) if _where(forge, assigned, user) is not None]:
        return [IssueThread(user, _key(forge, assigned, user)) for user in known]
    return IgnoredDelivery(f"the repository {assigned.repository[:200]!r} is not configured")


def choose_threads(
    assigned: Assignment, possible: list[IssueThread], begun: Collection[str]
) -> list[IssueThread] | IgnoredDelivery:
    """Whose turn it is; `begun` are the keys that have a session.

    Forgejo and Gitea name all who have the issue, not the one who was added: those who have not begun
    are new. Where all have, only one alone can be meant.
    """
    if assigned.surely:
        return possible
    if new := [thread for thread in possible if thread.key not in begun]:
        return new
    if len(possible) == 1:
        return IgnoredDelivery(f"{possible[0].user} has it already; the forge does not say who was added")
    return IgnoredDelivery("all of them have it already; the forge does not say who was added")


def prompt_request(forge: Forge, assigned: Assignment, thread: IssueThread, stamp: DeliveryId) -> Wish:
    """The prompt, for the agent of that user; the same body makes the same task."""
    cwd = _where(forge, assigned, thread.user)
    assert cwd is not None
    told = _EffectiveSettings(forge, assigned, thread.user)
    return Wish(
        prompt=template.fill_template(told.of("template") or TEMPLATE, _texts(forge, assigned, thread.user)),
        agent=told.of("agent"),
        cwd=os.path.expanduser(cwd),
        key=thread.key,
        queue=True,  # nobody is there to be told that it must wait
        worktree=told.of("worktree") or False,
        permissions=told.of("permissions"),
        time_limit_s=told.of("time_limit_s"),
        task=ids.derived(ids.TASK, forge.name, thread.user, stamp.digest),
        source={
            "forge": forge.name,
            "delivery": stamp.delivery,
            "digest": stamp.digest,
            "url": assigned.url,
        },
    )


class _EffectiveSettings:
    """What the config says of one piece of work."""

    def __init__(self, forge: Forge, assigned: Assignment, user: str):
        repository = _spelled(forge.repositories, assigned.repository)
        here = forge.repositories[repository] if repository is not None else PromptSettings()
        self._said = (here, forge.users[user], forge.default)

    def of(self, what: str) -> Any:
        """The first that is said."""
        return next((found for work in self._said if (found := getattr(work, what)) is not None), None)


def _where(forge: Forge, assigned: Assignment, user: str) -> str | None:
    """The folder for it; None where its repository is nobody's business here."""
    cwd: str | None = _EffectiveSettings(forge, assigned, user).of("cwd")
    return cwd


def _key(forge: Forge, assigned: Assignment, user: str) -> str:
    return f"{forge.name}:{user}:{assigned.repository}:{assigned.number}"


def _spelled(names: Mapping[str, V], wanted: str) -> str | None:
    """The name as it is configured; forges do not tell upper case from lower."""
    return next((name for name in names if name.casefold() == wanted.casefold()), None)


def _texts(forge: Forge, assigned: Assignment, user: str) -> dict[str, str]:
    body = assigned.body
    if len(body) > MAX_BODY:
        body = body[:MAX_BODY] + "\n[… the rest is in the forge]"
    return {
        "forge": forge.name,
        "user": user,
        "repository": assigned.repository,
        "number": str(assigned.number),
        "title": assigned.title,
        "body": body,
        "url": assigned.url,
        "author": assigned.author,
        "sender": assigned.sender,
        "labels": ", ".join(assigned.labels),
    }
