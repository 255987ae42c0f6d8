"""What a forge tells us: the assignment of an issue, or something that is none of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import BadInput
from holdfast.forges.settings import Kind

_PREFIXES: dict[Kind, tuple[str, ...]] = {
    "github": ("x-github-",),
    "forgejo": ("x-forgejo-", "x-gitea-"),
    "gitea": ("x-gitea-",),
}


class IgnoredDelivery(NamedTuple):
    """A delivery that nothing follows from."""

    why: str


class Assignment(NamedTuple):
    """An issue that was given to somebody."""

    repository: str  # owner/name
    number: int
    title: str
    body: str
    url: str
    author: str
    sender: str  # who assigned it
    labels: tuple[str, ...]
    to: tuple[str, ...]  # whom
    surely: bool  # else `to` are all who have it by now, and one of them is new


class _User(msgspec.Struct):
    login: str = ""


class _Label(msgspec.Struct):
    name: str = ""


class _Repository(msgspec.Struct):
    full_name: str


class _Issue(msgspec.Struct):
    number: int
    title: str = ""
    body: str | None = None
    html_url: str = ""
    user: _User | None = None
    assignees: list[_User] | None = None
    labels: list[_Label] | None = None
    pull_request: Any = None


class _Payload(msgspec.Struct):
    issue: _Issue
    repository: _Repository
    assignee: _User | None = None  # GitHub names the one; Forgejo and Gitea do not
    sender: _User | None = None


class _PayloadAction(msgspec.Struct):
    action: str = ""


_beginning = msgspec.json.Decoder(_PayloadAction)
_payload = msgspec.json.Decoder(_Payload)


def header_value(kind: Kind, headers: Mapping[str, str], what: str) -> str:
    """The header of that forge which says `event` or `delivery`."""
    for prefix in _PREFIXES[kind]:
        if found := headers.get(prefix + what):
            return found
    raise BadInput(f"that is no delivery of {kind}: it has no header {_PREFIXES[kind][0]}{what}")


def read_delivery(event: str, body: bytes) -> Assignment | IgnoredDelivery:
    """What a delivery says; BadInput if it is not what such an event looks like."""
    if event != "issues":
        return IgnoredDelivery(f"the event {event[:100]!r} is not about issues")
    try:
        action = _beginning.decode(body).action
        if action != "assigned":
            return IgnoredDelivery(f"the issue was {action[:100]!r}, not assigned")
        return _assigned(_payload.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadInput(
            f"that is not the assignment of an issue: {problem}",
            hint="the webhook's content type must be application/json",
        ) from None


def _assigned(told: _Payload) -> Assignment | IgnoredDelivery:
    issue = told.issue
    if issue.pull_request:
        return IgnoredDelivery("it is a pull request")
    named = [told.assignee] if told.assignee else issue.assignees or []
    return Assignment(
        repository=told.repository.full_name,
        number=issue.number,
        title=issue.title,
        body=issue.body or "",
        url=issue.html_url,
        author=issue.user.login if issue.user else "",
        sender=told.sender.login if told.sender else "",
        labels=tuple(label.name for label in issue.labels or []),
        to=tuple(user.login for user in named if user.login),
        surely=len(named) == 1,
    )
