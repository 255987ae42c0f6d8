"""The fixtures that all tests share: a home, a store of each kind, and openers of it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import hypothesis
import pytest

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store

# How fast examples are made says how busy the machine is, and nothing about the code.
hypothesis.settings.register_profile(
    "holdfast", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("holdfast")

# A shell ignores SIGINT for what it starts in the background; processes under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.support.postgres_server"]

# Every agent, and one from a config file; all must be protected alike.
REGISTRY = AgentRegistry.from_config({"my-acp": {"command": ["my-acp", "--acp"]}})

Opener = Callable[[], Awaitable[Store]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with its folders."""
    found = Home(str(tmp_path / "home"))
    found.make()
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, home: Home) -> Location:
    """An empty store's place, on each kind of store."""
    if request.param == "sqlite":
        return Location("sqlite", home.database)
    url: str = request.getfixturevalue("postgres_url")
    return Location("postgres", url)


@pytest.fixture
async def opener(location: Location, home: Home) -> AsyncIterator[Opener]:
    """Opens the test's one store; each call is one more opener, as another process would be."""
    opened: list[Store] = []

    async def open_one() -> Store:
        opened.append(await open_store(location, home, REGISTRY.token_rules()))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(opener: Opener) -> Store:
    """An empty store."""
    return await opener()
