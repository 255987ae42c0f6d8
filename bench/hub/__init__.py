"""The hub over HTTP, beside bare servers that do the least of the same."""

from __future__ import annotations

import tempfile

from bench.hub import fanning, home, idling, listing, spooling, starting
from bench.measure import Measured


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder:
        made = await home.make(folder, sessions=1_000 if quick else 10_000)
        return [
            *await listing.run(made, quick),
            *await starting.run(made, quick),
            *await idling.run(made, quick),
            *await fanning.run(quick),
            *await spooling.run(quick),
        ]
