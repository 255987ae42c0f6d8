"""Pull requests that an agent named: in what it said and in what its tools printed."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from holdfast.model.event import NewEvent

Forge = Literal["github", "gitlab", "forgejo"]

MOST = 100  # links that are taken from one event

_URL = re.compile(
    r"(?<![A-Za-z0-9])(https?)://"
    r"(?:[^\s/@<>\"'`()]{1,200}@)?"  # a name and password are not for a note
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?"
    r"/([A-Za-z0-9._~%/+-]+)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"([1-9][0-9]{0,9})(?:\.diff|\.patch)?[._~-]*\Z"
)  # what ends a sentence is no part of it
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


class PullRequest(msgspec.Struct, frozen=True):
    """A pull request, or a merge request as GitLab has it."""

    url: str  # of its own page, nothing behind the number
    forge: Forge  # by the shape of the address; Gitea's is Forgejo's
    host: str  # with its port, if that is not the usual one
    project: str  # owner/repo; GitLab's may be deeper
    number: int


def found(event: NewEvent) -> list[PullRequest]:
    """The pull requests that a live event names, each once; a replayed event has no effects."""
    text = None if event.replayed else _spoken(event)
    if text is None or ("/pull" not in text and "/merge_requests/" not in text):
        return []
    seen: dict[tuple[str, str, int], PullRequest] = {}
    for match in _URL.finditer(text):
        scheme, host, port, path = match.groups(default="")
        scheme = scheme.lower()
        place = host.lower() + ("" if port == _DEFAULT_PORT[scheme] else port)
        link = _read(scheme, place, path.split("/"))
        if link is not None:
            seen.setdefault((link.host, link.project, link.number), link)
            if len(seen) == MOST:
                break
    return list(seen.values())


def _spoken(event: NewEvent) -> str | None:
    """What the agent said or a tool printed; not what was asked of either, and not what was only thought."""
    if event.kind == "assistant":
        said = event.body["text"]
    elif event.kind == "tool_summary":
        said = event.body["output"]
    else:
        return None
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _read(scheme: str, host: str, path: list[str]) -> PullRequest | None:
    shape = _shape(host, path)
    if shape is None:
        return None
    forge, within, ending, last = shape
    digits = _NUMBER.match(last)
    if digits is None or any([part in ("", ".", "..", "-") for part in within]):
        return None
    project = "/".join(within)
    url = f"{scheme}://{host}/{project}/{ending}/{digits[1]}"
    return PullRequest(url, forge, host, project, int(digits[1]))


def _shape(host: str, path: list[str]) -> tuple[Forge, list[str], str, str] | None:
    """Whose address it is: forge, project, what is between, number. APIs have more before the project."""
    if len(path) >= 4 and path[2] == "pull":
        return "github", path[:2], "pull", path[3]
    if len(path) >= 4 and path[2] == "pulls" and host != "github.com":  # there: those of a user of that name
        return "forgejo", path[:2], "pulls", path[3]
    if "-" in path[2:-2]:
        dash = path.index("-", 2)
        if path[dash + 1] == "merge_requests":
            return "gitlab", path[:dash], "-/merge_requests", path[dash + 2]
    return None
