"""What is wrong with the web UI's folder of sessions as a whole; sessions are judged one by one."""

from __future__ import annotations

import os
from collections.abc import Collection

from holdfast.history.hermes import sidecar, values
from holdfast.history.hermes.layout import INDEX, Layout, is_litter, session_id
from holdfast.history.reader import Problem


def problems(layout: Layout, known: Collection[str] = ()) -> list[Problem]:
    """Its index, files that are no sessions, what crashes left; `known` are the sessions of its databases."""
    names = layout.names()
    files = {own: name for name in names if name.endswith(".json") and (own := session_id(name)) is not None}
    foreign = [name for own, name in files.items() if _is_foreign(layout, name)]
    sessions = {own for own, name in files.items() if name not in foreign}
    found = []
    if foreign:
        found.append(Problem("foreign_file", "files that are no sessions", {"names": foreign}))
    if litter := [name for name in names if is_litter(name)]:
        found.append(Problem("tmp_litter", "temporary files that a crash left", {"names": litter}))
    if INDEX in names:
        listed = _listed(layout)
        if listed is None:
            return [*found, Problem("index_corrupt", "its index cannot be read", {"name": INDEX})]
        # An entry whose file is gone is not a ghost while its backup or its row is there (#5504).
        backed = {session_id(name) for name in names if name.endswith(".bak")}
        ghosts, missing = sorted(listed - sessions - backed - set(known)), sorted(sessions - listed)
        if ghosts or missing:
            evidence = {"ghosts": ghosts, "missing": missing}
            found.append(Problem("index_stale", "its index does not list what is there", evidence))
    elif sessions:
        found.append(Problem("index_missing", "its index is not there", {"name": INDEX}))
    return found


def _is_foreign(layout: Layout, name: str) -> bool:
    assert layout.folder is not None
    return sidecar.load(os.path.join(layout.folder, name)).state == "foreign"


def _listed(layout: Layout) -> set[str] | None:
    assert layout.folder is not None
    try:
        with open(os.path.join(layout.folder, INDEX), "rb") as file:
            told = values.parse(file.read())
    except (OSError, ValueError):
        return None
    if not isinstance(told, list):
        return None
    return {values.word(item.get("session_id")) for item in told if isinstance(item, dict)} - {""}
