"""The `[hub]` table of config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import BadInput
from holdfast.work.settings import table

PORT = 8420


class HubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the hub listens, and by which names it is known."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: the usual one, or a free one where that is taken
    hosts: tuple[str, ...] = ()  # names by which a proxy or the network knows it


def read(config: Mapping[str, Any]) -> HubSettings:
    """The settings of a config; BadInput names what is wrong with them."""
    found = table("hub", config.get("hub", {}), HubSettings)
    if found.port is not None:
        check_port(found.port, "config.toml: hub.port")
    return found


def check_port(port: int, name: str = "a port") -> None:
    """Refuse what is no port."""
    if not 0 <= port <= 65535:
        raise BadInput(f"{name} is a number from 0 to 65535, not {port}")
