"""Reading changes nothing, however often."""

from __future__ import annotations

import os
import signal

from holdfast.store.location import Location
from tests.hub.asking import ask, get
from tests.hub.running_hub import RunningHub
from tests.hub.test_sessions import done

POLLS = 1000


def test_a_thousand_polls_change_nothing(hub: RunningHub) -> None:
    session = done(hub, key="k")
    hub.kill(signal.SIGTERM)  # so that nothing is left to be written
    hub.start()
    paths = [
        "/api/sessions",
        f"/api/sessions/{session}",
        f"/api/sessions/{session}/events",
        "/api/sessions/k",
        "/api/tasks",
        f"/api/verdicts?session={session}",
        "/api/overview",
        "/api/lives",
        "/healthz",
        "/metrics",
    ]
    for path in [*paths, f"/api/sessions/{session}/verdict", "/api/agents", "/api/adoptable", "/api/doctor"]:
        assert ask(hub, "GET", path).status == 200
    before, told = _files(hub.terminal.home.path), [get(hub, path) for path in paths[:6]]
    for number in range(POLLS):
        assert ask(hub, "GET", paths[number % len(paths)]).status == 200
    assert _files(hub.terminal.home.path) == before
    assert [get(hub, path) for path in paths[:6]] == told


def test_reading_adds_no_record_on_either_store(any_hub: RunningHub, location: Location) -> None:
    session = done(any_hub)
    where = f"/api/sessions/{session}"
    before = get(any_hub, where), get(any_hub, f"{where}/events")
    for _ in range(20):
        for path in (where, f"{where}/events", f"{where}/verdict", "/api/overview", "/api/tasks", "/metrics"):
            assert ask(any_hub, "GET", path).status == 200
    assert (get(any_hub, where), get(any_hub, f"{where}/events")) == before
    assert get(any_hub, "/healthz")["store"] == location.kind


def _files(home: str) -> dict[str, tuple[bytes, int, int]]:
    """Every file of a home but the hub's own: its content, times and size."""
    own = {"hub.lives", "hub.log", "state.db-shm"}  # the -shm holds no content, only who reads where
    found = {}
    for folder, _, names in os.walk(home):
        for name in set(names) - own:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                at = os.stat(path)
                found[path] = (file.read(), at.st_mtime_ns, at.st_size)
    return found
