"""Where Codex keeps its rollouts, and which of them is meant."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, BinaryIO

from holdfast import timestamps
from holdfast.agents.codex.events import CodexRollout
from holdfast.agents.codex.records import STARTS, record
from holdfast.errors import BadInput
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import plain, word
from holdfast.transcripts.reader import SessionRef

_READERS = ("compression.zstd", "zstandard")  # Python 3.14's own, and the package for those before


class CompressedRollout(BadInput):
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
    raise CompressedRollout(
        "that rollout is compressed, and nothing here can read it", hint="install the package zstandard"
    )


def _error(module: Any) -> type[Exception]:
    found = getattr(module, "ZstdError", None)
    return found if isinstance(found, type) and issubclass(found, Exception) else EOFError


# --- Where Codex keeps its rollouts, and which of them is meant.

FOLDERS = ("sessions", "archived_sessions")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IS_UUID = re.compile(_UUID, re.IGNORECASE)
_NAMED = re.compile(rf"rollout-.*?({_UUID})\.jsonl(?:\.zst)?", re.IGNORECASE)
_HEAD = 50  # lines in which the first prompt of a thread is looked for
_BLOCK = 1 << 16
_BACK = 1 << 24  # bytes from the end in which the last turn's cwd is looked for


def root(env: dict[str, str]) -> str:
    """Where Codex keeps what it has, for a user with that environment."""
    return env.get("CODEX_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".codex")


def rollouts(folder: str) -> Iterator[str]:
    """All rollouts below an agent's folder, or in a folder that simply holds some."""
    inner = os.path.join(folder, ".codex")
    below = [os.path.join(inner if os.path.isdir(inner) else folder, name) for name in FOLDERS]
    known = [path for path in below if os.path.isdir(path)]
    for top in known or [folder]:
        for parent, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                if name.startswith("rollout") and name.endswith((".jsonl", ".jsonl.zst")):
                    yield os.path.join(parent, name)


def named(path: str) -> str | None:
    """The thread that a file's name says it is."""
    found = _NAMED.fullmatch(os.path.basename(path))
    return found[1].lower() if found else None


def by_id(folder: str, native_id: str) -> list[str]:
    """The files of a thread; where a name says nothing, the first line does."""
    if not _IS_UUID.fullmatch(native_id):
        return []
    wanted = native_id.lower()
    return [path for path in rollouts(folder) if (named(path) or told_id(path)) == wanted]


def told_id(path: str) -> str | None:
    """The thread that a file says itself to be: in its first line, else in one of those after it."""
    fold = _head(path)
    return fold.facts.header_id or fold.facts.thread_id


def place(path: str) -> SessionRef:
    """What can be told of a rollout without reading all of it."""
    path = os.path.abspath(path)
    fold = _head(path)
    facts = fold.facts
    native_id = named(path) or facts.header_id or facts.thread_id or os.path.basename(path).split(".")[0]
    cwd, updated_at = _tail(path)
    if updated_at is None:
        with suppress(OSError):
            updated_at = timestamps.of_seconds(os.path.getmtime(path))
    archived = FOLDERS[1] in path.split(os.sep)
    return SessionRef(
        agent="codex",
        native_id=native_id,
        path=path,
        cwd=cwd or facts.cwd,
        title=facts.title,
        updated_at=updated_at,
        form="archived" if archived else "rollout",
    )


def _head(path: str) -> CodexRollout:
    fold = CodexRollout("codex", "")
    with suppress(OSError, CompressedRollout), opened(path) as file:
        for line in islice(jsonl.read(file, STARTS), _HEAD):
            fold.take(line)
            if fold.facts.title is not None and (fold.facts.header_id or fold.facts.thread_id):
                break
    return fold


def _tail(path: str) -> tuple[str | None, str | None]:
    """The cwd of the last turn and the time of the last record, read from the end."""
    cwd = at = None
    if path.endswith(".zst"):
        return None, None
    with suppress(OSError):
        for raw in _backwards(path):
            if at is not None and b'"turn_context"' not in raw:
                continue
            for line in jsonl.of(raw, STARTS):
                if line.value is None:
                    continue
                found = record(line.value)
                at = at or timestamps.when_stamp(found.at)
                if found.kind == "turn_context" and (cwd := plain(word(found.payload, "cwd"))):
                    return cwd, at
    return cwd, at


def _backwards(path: str) -> Iterator[bytes]:
    """The lines of a file from its end, as far back as is sensible."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        first = max(0, end - _BACK)
        rest = b""
        while end > first:
            begin = max(first, end - _BLOCK)
            file.seek(begin)
            lines = (file.read(end - begin) + rest).split(b"\n")
            end, rest = begin, lines[0]
            yield from reversed(lines[1:])
        if first == 0:
            yield rest
