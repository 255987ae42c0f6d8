"""A rollout opened for reading, also one that Codex has compressed because nobody used it for long."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from holdfast.errors import BadInput

_READERS = ("compression.zstd", "zstandard")  # Python 3.14's own, and the package for those before


class Compressed(BadInput):
    """The file is compressed and nothing here can read it."""


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The rollout's bytes."""
    if not path.endswith(".zst"):
        with open(path, "rb") as file:
            yield file
        return
    module = _zstd()
    with module.open(path, "rb") as file:
        try:
            yield file
        except (EOFError, _error(module)) as problem:
            raise OSError(f"{path} cannot be unpacked: {problem}") from None


def _zstd() -> Any:
    for name in _READERS:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise Compressed(
        "that rollout is compressed, and nothing here can read it", hint="install the package zstandard"
    )


def _error(module: Any) -> type[Exception]:
    found = getattr(module, "ZstdError", None)
    return found if isinstance(found, type) and issubclass(found, Exception) else EOFError
