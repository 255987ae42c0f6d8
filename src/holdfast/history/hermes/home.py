"""What is wrong with the web UI's folder of sessions as a whole; sessions are judged one by one."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from holdfast.history.hermes import files, sidecar, values
from holdfast.history.hermes.layout import INDEX, Layout, is_litter, session_id
from holdfast.history.hermes.sidecar import State
from holdfast.history.reader import Problem


def problems(layout: Layout, known: Collection[str] = ()) -> list[Problem]:
    """Its index, files that are no sessions, what crashes left; `known` are the sessions of its databases."""
    states: dict[str, State] = {}
    misnamed: dict[str, str] = {}
    for name in layout.names():
        own = session_id(name)
        if own is not None and name.endswith(".json"):
            assert layout.folder is not None
            side = sidecar.load(os.path.join(layout.folder, name))
            states[own] = side.state
            if other := other_id(side, own):
                misnamed[own] = other
    return judged(layout.names(), states, misnamed, entries(layout), known)


def judged(
    names: Collection[str],
    states: Mapping[str, State],
    misnamed: Mapping[str, str],
    listed: list[Any] | None,
    known: Collection[str] = (),
) -> list[Problem]:
    """The same, of what was seen: each sidecar's state, and the sessions that those of a wrong name tell."""
    # An entry whose file is gone is not a ghost while its backup or its row is there (#5504).
    backed = {own for name in names if name.endswith(".bak") and (own := session_id(name))}
    kept = backed | set(known)
    foreign = [f"{own}.json" for own, state in states.items() if state == "foreign" and own not in kept]
    found = []
    if foreign:
        found.append(Problem("foreign_file", "files that are no sessions", {"names": sorted(foreign)}))
    if litter := sorted(name for name in names if is_litter(name)):
        found.append(Problem("tmp_litter", "temporary files that a crash left", {"names": litter}))
    sessions = {own for own, state in states.items() if state != "foreign"}
    whole = {own for own, state in states.items() if state == "whole"}
    if INDEX in names:
        if listed is None:
            return [*found, Problem("index_corrupt", "its index cannot be read", {"name": INDEX})]
        told = ids(listed)
        ghosts = sorted(told - sessions - kept - set(misnamed.values()))
        missing = sorted(whole - told - set(misnamed))
        if ghosts or missing:
            evidence = {"ghosts": ghosts, "missing": missing}
            found.append(Problem("index_stale", "its index does not list what is there", evidence))
    elif whole - set(misnamed):
        found.append(Problem("index_missing", "its index is not there", {"name": INDEX}))
    return found


def other_id(side: sidecar.Sidecar, own: str) -> str | None:
    """The session that a file says it is, if that is another than its name says."""
    named = side.head.get("session_id")
    return values.text(named) if side.usable and isinstance(named, str) and named != own else None


def entries(layout: Layout) -> list[Any] | None:
    """What the index lists; None if it cannot be read."""
    assert layout.folder is not None
    try:
        with files.opened(os.path.join(layout.folder, INDEX)) as file:
            told = values.parse(file.read())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, list) else None


def ids(listed: list[Any]) -> set[str]:
    """The sessions that an index lists."""
    return {values.word(item.get("session_id")) for item in listed if isinstance(item, dict)} - {""}
