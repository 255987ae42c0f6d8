"""The statements of queries.sql by name, in the parameter style of a driver."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

_NAME = re.compile(r"^-- name: (\w+)(?: \| .+)?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Statement(NamedTuple):
    """A statement and the order of its parameters."""

    text: str
    names: tuple[str, ...]

    def values(self, parameters: dict[str, Any]) -> tuple[Any, ...]:
        """The parameters in the order of the statement. KeyError if one is missing."""
        return tuple([parameters[name] for name in self.names])


def load(path: str, mark: str) -> dict[str, Statement]:
    """The statements of a file, with `mark` (`?` or `%s`) for each parameter."""
    with open(path, encoding="utf-8") as file:
        parts = _NAME.split(file.read())
    statements = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        text = text.strip()
        if mark == "%s":
            text = text.replace("%", "%%").replace(" as blob)", " as bytea)")
        names = tuple(_PARAMETER.findall(text))
        statements[name] = Statement(_PARAMETER.sub(mark, text), names)
    return statements


def shared(mark: str) -> dict[str, Statement]:
    """The statements that both stores run."""
    return load(os.path.join(os.path.dirname(__file__), "queries.sql"), mark)
