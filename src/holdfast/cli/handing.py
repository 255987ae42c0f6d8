"""Handing over to the hub that runs on this home, if one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast.cli.who import who
from holdfast.client.found import door
from holdfast.errors import HubGone, StoreBusy

if TYPE_CHECKING:
    from holdfast.client.hub import Hub
    from holdfast.home import Home
    from holdfast.store.location import Location

T = TypeVar("T")


def handed(home: Home, location: Location, call: Callable[[Hub], T], instead: Callable[[], T]) -> T:
    """What the hub answers; where none runs, or it goes while we ask, what is done `instead`.

    It may have heard us before it went, so both must be fit to be done after the other.
    """
    if door(home, location) is None:
        return instead()
    from holdfast.client.hub import Hub

    hub = Hub.of(home, location, who())
    if hub is None:
        return instead()
    try:
        return call(hub)
    except (HubGone, StoreBusy):
        return instead()
