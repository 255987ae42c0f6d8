"""Where does Codex keep its rollouts?"""

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
from holdfast.transcripts.jsonl import storable_id, text_field
from holdfast.transcripts.reader import SessionRef

_READERS = ("compression.zstd", "zstandard")  # Python 3.14's own module, and the package for earlier versions


class CompressedRollout(BadInput):
    """The file is compressed and no decompressor is installed."""


@contextmanager
def open_rollout(path: str) -> Iterator[BinaryIO]:
    """Open a rollout for reading."""
    if not path.endswith(".zst"):
        with open(path, "rb") as file:
            yield file
        return
    module = _zstd()
    with module.open(path, "rb") as file:
        try:
            yield file
        except (EOFError, _error(module)) as problem:
            raise OSError(f"{path} cannot be decompressed: {problem}") from None


def _zstd() -> Any:
    for name in _READERS:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise CompressedRollout(
        "the rollout is compressed, and no decompressor is installed",
        hint="install the Python package zstandard",
    )


def _error(module: Any) -> type[Exception]:
    error = getattr(module, "ZstdError", None)
    return error if isinstance(error, type) and issubclass(error, Exception) else EOFError


# --- Files

FOLDERS = ("sessions", "archived_sessions")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_IS_UUID = re.compile(_UUID, re.IGNORECASE)
_NAMED = re.compile(rf"rollout-.*?({_UUID})\.jsonl(?:\.zst)?", re.IGNORECASE)
_HEAD = 50  # how many lines are searched for the first prompt
_BLOCK = 1 << 16
_BACK = 1 << 24  # how many bytes at the end are searched for the last turn's cwd


def rollouts(folder: str) -> Iterator[str]:
    """All rollouts in Codex's folder, or in any folder that holds some."""
    inner = os.path.join(folder, ".codex")
    below = [os.path.join(inner if os.path.isdir(inner) else folder, name) for name in FOLDERS]
    known = [path for path in below if os.path.isdir(path)]
    for top in known or [folder]:
        for parent, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                if name.startswith("rollout") and name.endswith((".jsonl", ".jsonl.zst")):
                    yield os.path.join(parent, name)


def thread_in_name(path: str) -> str | None:
    """The thread id in a file's name."""
    match = _NAMED.fullmatch(os.path.basename(path))
    return match[1].lower() if match else None


def by_id(folder: str, native_id: str) -> list[str]:
    """The files of a thread; if a name has no id, the first line is read."""
    if not _IS_UUID.fullmatch(native_id):
        return []
    wanted = native_id.lower()
    return [path for path in rollouts(folder) if (thread_in_name(path) or thread_in_file(path)) == wanted]


def thread_in_file(path: str) -> str | None:
    """The thread id inside a file: in its first line, else in a later one."""
    fold = _head(path)
    return fold.facts.header_id or fold.facts.thread_id


def session_ref(path: str) -> SessionRef:
    """A reference to a rollout, without reading all of it."""
    path = os.path.abspath(path)
    fold = _head(path)
    facts = fold.facts
    native_id = (
        thread_in_name(path) or facts.header_id or facts.thread_id or os.path.basename(path).split(".")[0]
    )
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
    with suppress(OSError, CompressedRollout), open_rollout(path) as file:
        for line in islice(jsonl.read(file, STARTS), _HEAD):
            fold.on_line(line)
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
            for line in jsonl.parse_line(raw, STARTS):
                if line.value is None:
                    continue
                entry = record(line.value)
                at = at or timestamps.when_stamp(entry.at)
                if entry.kind == "turn_context" and (cwd := storable_id(text_field(entry.payload, "cwd"))):
                    return cwd, at
    return cwd, at


def _backwards(path: str) -> Iterator[bytes]:
    """The lines of a file from its end, up to a limit."""
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
