"""From an assignment to prompts: which configured users get it, in which folder, with which text."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from holdfast import ids
from holdfast.forges.payload import Assignment, IgnoredDelivery
from holdfast.forges.settings import TEMPLATE, Forge, PromptSettings, fill_template
from holdfast.runner.requests import PromptRequest

MAX_BODY = 65_536  # characters of an issue's text in a prompt

V = TypeVar("V")


class IssueThread(NamedTuple):
    """An issue and one configured user."""

    user: str
    key: str


class DeliveryId(NamedTuple):
    """What identifies a delivery: its id, and the digest of its signed body (the id is not signed)."""

    delivery: str
    digest: str


def threads(forge: Forge, assigned: Assignment) -> list[IssueThread] | IgnoredDelivery:
    """The configured users to whom the issue was, or may have been, assigned."""
    users = [user for login in assigned.to if (user := _configured_name(forge.users, login)) is not None]
    if not users:
        return IgnoredDelivery("none of its assignees is configured")
    if forge.senders and _configured_name(dict.fromkeys(forge.senders), assigned.sender) is None:
        return IgnoredDelivery(f"the sender {assigned.sender[:100]!r} is not configured")
    if served := [user for user in dict.fromkeys(users) if _folder(forge, assigned, user) is not None]:
        return [IssueThread(user, _key(forge, assigned, user)) for user in served]
    return IgnoredDelivery(f"the repository {assigned.repository[:200]!r} is not configured")


def choose_threads(
    assigned: Assignment,
    possible: list[IssueThread],
    started: Collection[str],
    overtaken: Collection[str] = (),
) -> list[IssueThread] | IgnoredDelivery:
    """The threads that get a prompt; `started` are the keys that have a session.

    Forgejo and Gitea name all assignees, not the new one: those without a session are new. If all have one,
    the new one is known only if there is a single assignee. `overtaken` are the keys that a later delivery
    with several assignees has started: this delivery comes too late for them.
    """
    if assigned.surely:
        current = [thread for thread in possible if thread.key not in overtaken]
        return current or IgnoredDelivery(f"{possible[0].user} was started by a later delivery already")
    if new := [thread for thread in possible if thread.key not in started]:
        return new
    if len(possible) == 1:
        return IgnoredDelivery(f"{possible[0].user} already has it; the forge does not name the new assignee")
    return IgnoredDelivery("all of them already have it; the forge does not name the new assignee")


def prompt_request(
    forge: Forge, assigned: Assignment, thread: IssueThread, stamp: DeliveryId
) -> PromptRequest:
    """The prompt for the agent of one user; the same body makes the same task."""
    cwd = _folder(forge, assigned, thread.user)
    assert cwd is not None
    settings = _EffectiveSettings(forge, assigned, thread.user)
    return PromptRequest(
        prompt=fill_template(settings.of("template") or TEMPLATE, _texts(forge, assigned, thread.user)),
        agent=settings.of("agent"),
        cwd=os.path.expanduser(cwd),
        key=thread.key,
        queue=True,  # nobody waits for a reply
        worktree=settings.of("worktree") or False,
        permissions=settings.of("permissions"),
        time_limit_s=settings.of("time_limit_s"),
        task=task_id(forge, thread, stamp),
        source={
            "forge": forge.name,
            "delivery": stamp.delivery,
            "digest": stamp.digest,
            "url": assigned.url,
            "updated_at": assigned.updated_at,
            "surely": assigned.surely,
        },
    )


def overtakes(source: Mapping[str, Any], assigned: Assignment) -> bool:
    """Whether a task came from a delivery that named several assignees and was sent after this one.

    Forges deliver without an order. Times have seconds only, so the same time counts as later.
    """
    if source.get("surely") is not False or not assigned.updated_at:
        return False
    try:
        later = datetime.fromisoformat(str(source.get("updated_at")))
        return later >= datetime.fromisoformat(assigned.updated_at)
    except (ValueError, TypeError):  # no time, or one with a zone and one without
        return False


def task_id(forge: Forge, thread: IssueThread, stamp: DeliveryId) -> str:
    """The id of the task that a delivery makes for one user."""
    return ids.derived(ids.TASK, forge.name, thread.user, stamp.digest)


class _EffectiveSettings:
    """The settings for one repository and user: the repository's first, then the user's, then the forge's."""

    def __init__(self, forge: Forge, assigned: Assignment, user: str):
        repository = _configured_name(forge.repositories, assigned.repository)
        here = forge.repositories[repository] if repository is not None else PromptSettings()
        self._tables = (here, forge.users[user], forge.default)

    def of(self, name: str) -> Any:
        """The first value that is set."""
        return next((value for work in self._tables if (value := getattr(work, name)) is not None), None)


def _folder(forge: Forge, assigned: Assignment, user: str) -> str | None:
    """The folder for a prompt; None if the repository is not configured."""
    cwd: str | None = _EffectiveSettings(forge, assigned, user).of("cwd")
    return cwd


def _key(forge: Forge, assigned: Assignment, user: str) -> str:
    return f"{forge.name}:{user}:{assigned.repository}:{assigned.number}"


def _configured_name(names: Mapping[str, V], wanted: str) -> str | None:
    """The name as it is configured; forges ignore case."""
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
