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

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")  # {{name}} stays as {name}


def unknown_names(template: str, names: Collection[str]) -> list[str]:
    """The placeholders of a template that are not known."""
    return [match[2] for match in _PLACEHOLDER.finditer(template) if match[2] and match[2] not in names]


def fill_template(template: str, texts: Mapping[str, str]) -> str:
    """The template with its placeholders filled; filled-in texts are not expanded again."""
    return _PLACEHOLDER.sub(lambda match: texts[match[2]] if match[2] else f"{{{match[1]}}}", template)


# --- The signature of a delivery.

Kind = Literal["github", "forgejo", "gitea"]

# In order; Forgejo still sends Gitea's headers beside its own.
_HEADERS: dict[Kind, tuple[str, ...]] = {
    "github": ("x-hub-signature-256",),
    "forgejo": ("x-forgejo-signature", "x-gitea-signature"),
    "gitea": ("x-gitea-signature",),
}


def is_signed(kind: Kind, secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the first signature header is that of the body; header names in lower case."""
    sent = next((headers[name] for name in _HEADERS[kind] if name in headers), "")
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    expected = f"sha256={digest}" if kind == "github" else digest
    return hmac.compare_digest(expected.encode(), sent.encode(errors="replace"))


# --- The tables.

NAMES = (
    *("forge", "user", "repository", "number", "title"),
    *("body", "url", "author", "sender", "labels"),
)
TEMPLATE = """\
Issue #{number} of {repository} was assigned to you: {title}
{url}

{body}
"""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")  # it is part of a URL and of keys
_KINDS: tuple[Kind, ...] = ("github", "forgejo", "gitea")
_HINT = "see docs/forges.md"


class PromptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a prompt is run; a repository's settings come first, then the user's, then the forge's."""

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
    users: dict[str, Any] = {}  # of PromptSettings; each is read on its own, so that an error names it
    repositories: dict[str, Any] = {}


class Forge(msgspec.Struct, frozen=True, kw_only=True):
    """One forge that may send work."""

    name: str
    kind: Kind
    secret: str
    senders: tuple[str, ...]  # only their assignments count; empty: everybody's
    users: dict[str, PromptSettings]
    repositories: dict[str, PromptSettings]
    default: PromptSettings


def read_forges(config: Mapping[str, Any]) -> dict[str, Forge]:
    """The forges of a config; BadInput says what is wrong with them."""
    written = tables("forges", config.get("forges", {}), _HINT)
    return {name: _forge(name, table) for name, table in written.items()}


def _forge(name: str, written: Any) -> Forge:
    where = f"config.toml: [forges.{name}]"
    if not _NAME.match(name):
        raise BadInput(f"{where}: a forge's name may have only a-z, 0-9, - and _", hint=_HINT)
    configured = table(f"forges.{name}", written, _ForgeTable, _HINT)
    kind = configured.kind or next((known for known in _KINDS if known == name), None)
    if kind is None:
        raise BadInput(f"{where}: kind is missing: github, forgejo or gitea", hint=_HINT)
    if not configured.users:
        raise BadInput(f"{where}: [forges.{name}.users.LOGIN] is missing: name a user", hint=_HINT)
    default = PromptSettings(
        **{field: getattr(configured, field) for field in PromptSettings.__struct_fields__}
    )
    _check(f"forges.{name}", default)
    users = {
        login: _work(f"forges.{name}.users.{login}", written_table)
        for login, written_table in configured.users.items()
    }
    for login, user in users.items():
        if user.agent is None and configured.agent is None:
            raise BadInput(f"{where}: users.{login} needs an agent, or the forge a default agent", hint=_HINT)
    for repository in configured.repositories:
        if repository.count("/") != 1 or repository.startswith("/") or repository.endswith("/"):
            raise BadInput(f"{where}: {repository!r} is not a repository; write owner/name", hint=_HINT)
    repositories = {
        repository: _work(f'forges.{name}.repositories."{repository}"', written_table)
        for repository, written_table in configured.repositories.items()
    }
    return Forge(
        name=name,
        kind=kind,
        secret=_secret(where, configured),
        senders=configured.senders,
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
    if work.template is not None and (unknown := unknown_names(work.template, NAMES)):
        raise BadInput(f"{where}: the template has {{{unknown[0]}}}; allowed: {', '.join(NAMES)}", hint=_HINT)
    if work.template is not None and not work.template.strip():
        raise BadInput(f"{where}: the template is empty", hint=_HINT)
    if work.time_limit_s is not None and work.time_limit_s <= 0:
        raise BadInput(f"{where}: time_limit_s must be greater than 0", hint=_HINT)
    if work.cwd is not None and not os.path.isabs(os.path.expanduser(work.cwd)):
        raise BadInput(f"{where}: cwd must be an absolute path, such as /home/me/src or ~/src", hint=_HINT)


def _secret(where: str, configured: _ForgeTable) -> str:
    if (configured.secret is None) == (configured.secret_file is None):
        raise BadInput(f"{where}: set either secret or secret_file", hint=_HINT)
    secret = configured.secret
    if secret is None:
        path = os.path.expanduser(configured.secret_file or "")
        try:
            with open(path, encoding="utf-8") as file:
                secret = file.read().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise BadInput(f"{where}: secret_file cannot be read: {problem}", hint=_HINT) from None
    if not secret:
        raise BadInput(f"{where}: the secret is empty", hint=_HINT)
    return secret
