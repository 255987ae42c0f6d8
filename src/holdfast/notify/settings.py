"""The `[notify]` table of config.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from holdfast.errors import BadInput
from holdfast.settings import table, tables

Kind = Literal["asks", "waits", "login", "died", "failed", "finished"]
ChannelKind = Literal["webhook", "ntfy", "command"]

SEE = "see docs/notifications.md"
DEFAULT_KINDS: tuple[Kind, ...] = ("asks", "waits", "login", "died", "failed")
_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)\Z")


class QuietHours(msgspec.Struct, frozen=True):
    """Minutes of the day between which nothing is sent; the window may span midnight."""

    start: int
    end: int


class ChannelTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[notify.channels.NAME]` table as it is written."""

    kind: ChannelKind
    url: str | None = None
    secret: str | None = None  # webhook: signs the body
    token: str | None = None  # ntfy: an access token
    command: tuple[str, ...] = ()
    on: tuple[Kind, ...] | None = None
    keys: tuple[str, ...] | None = None
    delay_s: float | None = None
    quiet: str | None = None


class NotifyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[notify]` table as it is written."""

    on: tuple[Kind, ...] = DEFAULT_KINDS
    keys: tuple[str, ...] = ("*",)
    delay_s: float = 0.0
    quiet: str | None = None
    page_url: str | None = None  # the address of the page that people can reach
    channels: dict[str, Any] = {}


class Channel(msgspec.Struct, frozen=True):
    """One channel, with everything that applies to it."""

    name: str
    kind: ChannelKind
    url: str = ""
    secret: str = ""
    token: str = ""
    command: tuple[str, ...] = ()
    on: tuple[Kind, ...] = DEFAULT_KINDS
    keys: tuple[str, ...] = ("*",)
    delay_s: float = 0.0
    quiet: QuietHours | None = None


class NotifySettings(msgspec.Struct, frozen=True):
    """All channels, and the address of the page."""

    channels: tuple[Channel, ...] = ()
    page_url: str | None = None


def read_notify(config: Mapping[str, Any]) -> NotifySettings:
    """The settings of a config; BadInput names what is wrong with them."""
    written = table("notify", config.get("notify", {}), NotifyTable, SEE)
    channels = tables("notify.channels", written.channels, SEE)
    return NotifySettings(
        tuple(_channel(name, each, written) for name, each in channels.items()), written.page_url
    )


def _channel(name: str, written: Any, common: NotifyTable) -> Channel:
    place = f"notify.channels.{name}"
    if isinstance(written, dict) and "kind" not in written:
        raise BadInput(f"config.toml: {place}.kind is missing", hint="webhook, ntfy or command")
    own = table(place, written, ChannelTable, SEE)
    if own.kind == "command" and not own.command:
        raise BadInput(f"config.toml: {place}.command is missing", hint=SEE)
    if own.kind != "command" and not (own.url or "").startswith(("http://", "https://")):
        raise BadInput(f"config.toml: {place}.url must be an http:// or https:// address", hint=SEE)
    if own.kind == "webhook" and not own.secret:
        raise BadInput(f"config.toml: {place}.secret is missing: it signs what is sent", hint=SEE)
    delay = common.delay_s if own.delay_s is None else own.delay_s
    if delay < 0:
        raise BadInput(f"config.toml: {place}.delay_s must be at least 0", hint=SEE)
    return Channel(
        name=name,
        kind=own.kind,
        url=own.url or "",
        secret=own.secret or "",
        token=own.token or "",
        command=own.command,
        on=common.on if own.on is None else own.on,
        keys=common.keys if own.keys is None else own.keys,
        delay_s=delay,
        quiet=quiet_hours(common.quiet if own.quiet is None else own.quiet, place),
    )


def quiet_hours(text: str | None, place: str) -> QuietHours | None:
    """`22:00-07:00` as minutes; an empty text means none."""
    if not text:
        return None
    found = _QUIET.match(text)
    if found is None:
        raise BadInput(f"config.toml: {place}.quiet must look like 22:00-07:00, not {text!r}", hint=SEE)
    start_hour, start_minute, end_hour, end_minute = map(int, found.groups())
    return QuietHours(start_hour * 60 + start_minute, end_hour * 60 + end_minute)
