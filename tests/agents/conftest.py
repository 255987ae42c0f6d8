"""Fixtures of the tests with real agents; outside the laboratory there are only the tests of its parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import namespace
from tests.agents.__main__ import INSIDE
from tests.agents.agent import LABELS
from tests.agents.fake_model.server import FakeModel, serving
from tests.agents.lab import Lab, References, laboratory

IN_LABORATORY = bool(os.environ.get(INSIDE))
OWN_PARTS = ("test_fake_model.py", "test_install.py")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """`make test` has neither the agents nor the namespace."""
    name = collection_path.name
    return True if name.startswith("test_") and not IN_LABORATORY and name not in OWN_PARTS else None


@pytest.fixture(scope="session")
def model() -> Iterator[FakeModel]:
    """The fake model; in the laboratory there is no way to any other."""
    if IN_LABORATORY:
        assert namespace.has_only_loopback()
    with serving() as server:
        yield server


@pytest.fixture(params=LABELS)
def label(request: pytest.FixtureRequest) -> str:
    """Each of the agents."""
    found: str = request.param
    return found


@pytest.fixture
def lab(label: str, model: FakeModel) -> Iterator[Lab]:
    """A laboratory for each agent."""
    with laboratory(label, model) as made:
        yield made


@pytest.fixture(scope="session")
def references(model: FakeModel) -> References:
    """Undisturbed runs."""
    return References(model)
