"""The one import that may run at a time."""

from __future__ import annotations

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.hub.imports import ImportableAgent, ImportService
from holdfast.hub.state import HubState
from holdfast.runner import service
from holdfast.store.location import Location


class Unlucky(ImportService):
    """One whose look at what is there fails."""

    async def adoptable(self) -> list[ImportableAgent]:
        """The store is away."""
        raise errors.StoreBusy()


async def test_one_that_could_not_begin_does_not_keep_out_the_next(home: Home) -> None:
    location = Location("sqlite", home.database)
    hub = HubState(home, location, {}, "somebody")
    adopting = Unlucky(hub)
    async with service.opened(home, location, {}) as context:
        hub.begin(context, [])
        for _ in range(2):  # not Refused the second time
            with pytest.raises(errors.StoreBusy):
                await adopting.start("demo")
            assert adopting.progress is not None and not adopting.progress.running


async def test_lists_of_a_store_that_was_closed_are_forgotten(home: Home) -> None:
    location = Location("sqlite", home.database)
    hub = HubState(home, location, {}, "somebody")
    hub.lists.keep("a list", b"old", "mark")
    async with service.opened(home, location, {}) as context:
        hub.begin(context, [])
        assert hub.lists.get("a list", "mark") is None
