"""What a forge sends: the assignment of an issue, or a delivery that is ignored."""

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
    """A delivery that starts nothing."""

    why: str


class Assignment(NamedTuple):
    """An issue that was assigned."""

    repository: str  # owner/name
    number: int
    title: str
    body: str
    url: str
    author: str
    sender: str  # who assigned it
    labels: tuple[str, ...]
    to: tuple[str, ...]  # the assignees
    updated_at: str  # when the issue last changed, as the forge tells it; empty if it does not
    surely: bool  # otherwise `to` are all current assignees, and one of them is new


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
    updated_at: str | None = None
    user: _User | None = None
    assignees: list[_User] | None = None
    labels: list[_Label] | None = None
    pull_request: Any = None


class _Payload(msgspec.Struct):
    issue: _Issue
    repository: _Repository
    assignee: _User | None = None  # GitHub names the new one; Forgejo and Gitea do not
    sender: _User | None = None


class _PayloadAction(msgspec.Struct):
    action: str = ""


_beginning = msgspec.json.Decoder(_PayloadAction)
_payload = msgspec.json.Decoder(_Payload)


def header_value(kind: Kind, headers: Mapping[str, str], name: str) -> str:
    """The forge's header for `event` or `delivery`."""
    for prefix in _PREFIXES[kind]:
        if value := headers.get(prefix + name):
            return value
    raise BadInput(f"not a delivery from {kind}: the header {_PREFIXES[kind][0]}{name} is missing")


def read_delivery(event: str, body: bytes) -> Assignment | IgnoredDelivery:
    """Read a delivery; BadInput if it does not have the form of its event."""
    if event != "issues":
        return IgnoredDelivery(f"the event {event[:100]!r} is not about issues")
    try:
        action = _beginning.decode(body).action
        if action != "assigned":
            return IgnoredDelivery(f"the issue was {action[:100]!r}, not assigned")
        return _assignment(_payload.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadInput(
            f"not a valid assignment of an issue: {problem}",
            hint="the webhook's content type must be application/json",
        ) from None


def _assignment(payload: _Payload) -> Assignment | IgnoredDelivery:
    issue = payload.issue
    if issue.pull_request:
        return IgnoredDelivery("it is a pull request")
    named = [payload.assignee] if payload.assignee else issue.assignees or []
    return Assignment(
        repository=payload.repository.full_name,
        number=issue.number,
        title=issue.title,
        body=issue.body or "",
        url=issue.html_url,
        author=issue.user.login if issue.user else "",
        sender=payload.sender.login if payload.sender else "",
        labels=tuple(label.name for label in issue.labels or []),
        to=tuple(user.login for user in named if user.login),
        updated_at=issue.updated_at or "",
        surely=len(named) == 1,
    )
