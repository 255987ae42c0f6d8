"""Find the hub that runs on a home: its address and its token."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.store.location import Location


class HubAddress(NamedTuple):
    """The URL of a hub, and its token."""

    url: str
    token: str


class HubNote(NamedTuple):
    """What a running hub writes about itself."""

    pid: int
    started: Any
    boot: str
    url: str
    at: str  # when it began to listen
    store: str | None  # the fingerprint of its store


def hub_file_path(home: Home) -> str:
    """The file that a running hub writes."""
    return os.path.join(home.path, "hub.json")


def token_path(home: Home) -> str:
    """The file that holds the token."""
    return os.path.join(home.path, "hub.token")


def store_fingerprint(location: Location) -> str:
    """Identifies a store, without its password."""
    from hashlib import sha256

    return f"{location.kind}:{sha256(location.address.encode()).hexdigest()[:16]}"


def find_hub(home: Home, location: Location | None = None) -> HubAddress | None:
    """The address of the hub that runs on this home (and on that store, if named); None if none runs."""
    hub = running_hub(home)
    if hub is None:
        return None
    if location is not None and hub.store not in (None, store_fingerprint(location)):
        return None
    try:
        with open(token_path(home), encoding="ascii") as file:
            return HubAddress(hub.url, file.read().strip())
    except (OSError, ValueError):
        return None


def running_hub(home: Home) -> HubNote | None:
    """The hub that runs on this home, as it announced itself; None if none runs."""
    try:
        with open(hub_file_path(home), "rb") as file:
            note = json.load(file)
        hub = HubNote(
            note["pid"], note["started"], note["boot"], note["url"], note.get("at", ""), note.get("store")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or it is starting or stopping
        return None
    from holdfast.process.identity import is_alive

    return hub if is_alive(hub.pid, hub.started, hub.boot) else None
