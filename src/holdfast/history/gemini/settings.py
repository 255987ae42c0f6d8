"""The one setting of Gemini's that decides whether a history survives."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.drive.line import parse

_LONGEST = 1 << 20
# Its settings may have comments; a text that holds slashes is matched first and kept.
_COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def keeps(*folders: str | None) -> bool:
    """Whether `general.sessionRetention.enabled` is off in the last of these folders that says anything."""
    enabled = True
    for folder in folders:
        told = _enabled(folder) if folder is not None else None
        enabled = enabled if told is None else told
    return not enabled


def _enabled(folder: str) -> bool | None:
    try:
        with open(os.path.join(folder, "settings.json"), "rb") as file:
            raw = file.read(_LONGEST)
    except (OSError, ValueError):
        return None
    value: Any = parse(_COMMENT.sub(lambda found: found[1] or b" ", raw))
    for name in ("general", "sessionRetention", "enabled"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, bool) else None
