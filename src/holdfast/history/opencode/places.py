"""Where OpenCode's databases are."""

from __future__ import annotations

import os
from collections.abc import Mapping

NAME = "opencode.db"


def root(env: Mapping[str, str]) -> str:
    """As OpenCode 1.18 finds it: `OPENCODE_DB`, absolute or in its data folder; else that folder."""
    home = env.get("HOME") or os.path.expanduser("~")
    data = os.path.join(env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "opencode")
    named = env.get("OPENCODE_DB")
    return os.path.join(data, named) if named and named != ":memory:" else data


def databases(root: str) -> list[str]:
    """The databases meant by a file, its data folder, or a folder that this is in.

    A build of another channel than the release has a database of its own beside the usual one.
    """
    if os.path.isfile(root):
        return [] if root.endswith(("-wal", "-shm", "-journal")) else [root]
    for folder in (root, os.path.join(root, "opencode"), os.path.join(root, ".local", "share", "opencode")):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found = [name for name in names if name.startswith("opencode-") and name.endswith(".db")]
        found = [NAME, *found] if NAME in names else found
        if found:
            return [os.path.join(folder, name) for name in found]
    return []


def is_same(one: str, other: str) -> bool:
    """Whether two paths name one folder."""
    return os.path.normpath(one) == os.path.normpath(other) or os.path.realpath(one) == os.path.realpath(
        other
    )
