"""The `[forges.NAME]` tables of config.toml."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from holdfast.agents.driver import Policy
from holdfast.errors import BadInput
from holdfast.settings import table, tables

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")  # {{name}} stays as {name}


def unknown_names(template: str, names: Collection[str]) -> list[str]:
    """The places of a template that no text is known for."""
    return [found[2] for found in _PLACE.finditer(template) if found[2] and found[2] not in names]


def fill_template(template: str, texts: Mapping[str, str]) -> str:
    """The template with its places filled; what a text brings is never looked at again."""
    return _PLACE.sub(lambda found: texts[found[2]] if found[2] else f"{{{found[1]}}}", template)


# --- Whether a delivery comes from who knows the secret.

Kind = Literal["github", "forgejo", "gitea"]

# In order; Forgejo still sends Gitea's headers beside its own.
_HEADERS: dict[Kind, tuple[str, ...]] = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature"),
    "gitea": ("x-gitea-signature",),
}


def is_signed(kind: Kind, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the first signature that is there is that of the body; names of headers in lower case."""
    given = next((headers[name] for name in _HEADERS[kind] if name in headers), "")
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    expected = f"sha256={made}" if kind == "github" else made
    return hmac.compare_digest(expected.encode(), given.encode(errors="replace"))


# --- The `[forges.NAME]` tables of config.toml.

NAMES = (
    *("forge", "user", "repository", "number", "title"),
    *("body", "url", "author", "sender", "labels"),
)
TEMPLATE = """\
Issue #{number} of {repository} was assigned to you: {title}
{url}

{body}
"""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")  # it is part of an address and of keys
_KINDS: tuple[Kind, ...] = ("github", "forgejo", "gitea")
_HINT = "see docs/forges.md"


class PromptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a prompt is run; what a repository says comes first, then the user, then the forge."""

    agent: str | None = None
    cwd: str | None = None
    worktree: bool | None = None
    permissions: Policy | None = None
    time_limit_s: float | None = None
    template: str | None = None


class _ForgeTable(PromptSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: Kind | None = None
    secret: str | None = None
    secret_file: str | None = None
    senders: tuple[str, ...] = ()
    users: dict[str, Any] = {}  # of Work, each read by itself, so that it is named if it is wrong
    repositories: dict[str, Any] = {}


class Forge(msgspec.Struct, frozen=True, kw_only=True):
    """One forge that may send us work."""

    name: str
    kind: Kind
    secret: str
    senders: tuple[str, ...]  # whose assignments count; none: everybody's
    users: dict[str, PromptSettings]
    repositories: dict[str, PromptSettings]
    default: PromptSettings


def read_forges(config: Mapping[str, Any]) -> dict[str, Forge]:
    """The forges of a config; BadInput names what is wrong with them."""
    written = tables("forges", config.get("forges", {}), _HINT)
    return {name: _forge(name, one) for name, one in written.items()}


def _forge(name: str, written: Any) -> Forge:
    where = f"config.toml: [forges.{name}]"
    if not _NAME.match(name):
        raise BadInput(f"{where}: a forge's name has only a-z, 0-9, - and _", hint=_HINT)
    said = table(f"forges.{name}", written, _ForgeTable, _HINT)
    kind = said.kind or next((known for known in _KINDS if known == name), None)
    if kind is None:
        raise BadInput(f"{where}: kind is missing: github, forgejo or gitea", hint=_HINT)
    if not said.users:
        raise BadInput(f"{where}: it needs a [forges.{name}.users.LOGIN]: whose issues are meant", hint=_HINT)
    default = PromptSettings(**{field: getattr(said, field) for field in PromptSettings.__struct_fields__})
    _check(f"forges.{name}", default)
    users = {login: _work(f"forges.{name}.users.{login}", one) for login, one in said.users.items()}
    for login, user in users.items():
        if user.agent is None and said.agent is None:
            raise BadInput(f"{where}: users.{login} needs an agent, or the forge one for all", hint=_HINT)
    for repository in said.repositories:
        if repository.count("/") != 1 or repository.startswith("/") or repository.endswith("/"):
            raise BadInput(f"{where}: {repository!r} is no repository; write owner/name", hint=_HINT)
    repositories = {
        repository: _work(f'forges.{name}.repositories."{repository}"', one)
        for repository, one in said.repositories.items()
    }
    return Forge(
        name=name,
        kind=kind,
        secret=_secret(where, said),
        senders=said.senders,
        users=users,
        repositories=repositories,
        default=default,
    )


def _work(name: str, written: Any) -> PromptSettings:
    """The table of a user or a repository."""
    work = table(name, written, PromptSettings, _HINT)
    _check(name, work)
    return work


def _check(name: str, work: PromptSettings) -> None:
    where = f"config.toml: [{name}]"
    if work.template is not None and (odd := unknown_names(work.template, NAMES)):
        raise BadInput(f"{where}: the template has {{{odd[0]}}}; known are {', '.join(NAMES)}", hint=_HINT)
    if work.template is not None and not work.template.strip():
        raise BadInput(f"{where}: the template is empty", hint=_HINT)
    if work.time_limit_s is not None and work.time_limit_s <= 0:
        raise BadInput(f"{where}: time_limit_s must be more than 0", hint=_HINT)
    if work.cwd is not None and not os.path.isabs(os.path.expanduser(work.cwd)):
        raise BadInput(f"{where}: cwd must be a whole path, as /home/me/src or ~/src", hint=_HINT)


def _secret(where: str, said: _ForgeTable) -> str:
    if (said.secret is None) == (said.secret_file is None):
        raise BadInput(f"{where}: it needs a secret or a secret_file, and not both", hint=_HINT)
    secret = said.secret
    if secret is None:
        path = os.path.expanduser(said.secret_file or "")
        try:
            with open(path, encoding="utf-8") as file:
                secret = file.read().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise BadInput(f"{where}: secret_file cannot be read: {problem}", hint=_HINT) from None
    if not secret:
        raise BadInput(f"{where}: the secret is empty", hint=_HINT)
    return secret
