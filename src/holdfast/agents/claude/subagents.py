"""Where are a session's subagents stored, and which call started each?

2.0 keeps them as `agent-<id>.jsonl` beside the transcript, and the call's result names the id. Later versions
keep them in `<session id>/subagents/`, each with a `.meta.json` that names the call. 1.0 keeps a subagent's
records in the transcript itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from holdfast.agents.claude import stream
from holdfast.agents.claude.events import ClaudeEventBuilder
from holdfast.agents.claude.records import ClaudeRecord, decode, parse_raw
from holdfast.agents.claude.transcript import ClaudeTranscript
from holdfast.model.event import NewEvent

_META_LIMIT = 1 << 20
_HEAD = 1 << 16
_MOST = 20_000  # how many files are examined
_PREFIX, _SUFFIX, _META = "agent-", ".jsonl", ".meta.json"


class ClaudeSubagents:
    """The subagent files of one transcript; each is returned once."""

    def __init__(self, path: str, native_id: str):
        """Find the subagents of this transcript."""
        self._beside = os.path.dirname(path)
        self._native_id = native_id
        self._folder = os.path.join(os.path.dirname(path), native_id, "subagents")
        self.calls: dict[str, list[str]] = {}  # call -> files
        self._left: dict[str, str] = {}  # files not returned yet -> the subagent's id
        for file in _files(self._folder):
            self._left[file] = os.path.basename(file)[len(_PREFIX) : -len(_SUFFIX)]
            call = _meta(file).get("toolUseId")
            if isinstance(call, str):
                self.calls.setdefault(call, []).append(file)

    def take(self, call: str, helper: str | None, prompt: str | None) -> list[str]:
        """The files of the subagents that a call started; `helper` is the id in its result."""
        files = [file for file in self.calls.pop(call, ()) if file in self._left]
        if helper is not None:
            files += [file for file, id in self._left.items() if id == helper and file not in files]
        if not files:
            files = list(self._among_neighbours(helper, prompt))
        for file in files:
            self._left.pop(file, None)
        return sorted(files, key=_first_event)

    def rest(self) -> Iterator[tuple[str, str]]:
        """The remaining subagents: the call and the file."""
        while self.calls:
            call, files = self.calls.popitem()
            for file in files:
                if self._left.pop(file, None) is not None:
                    yield call, file

    def all(self) -> list[str]:
        """Every file, including those that no call names."""
        paths = list(_files(self._folder))
        paths += [file for file in _agents(self._beside) if _first(file).session_id == self._native_id]
        return paths

    def _among_neighbours(self, helper: str | None, prompt: str | None) -> Iterator[str]:
        """2.0 stores them beside the transcript, together with those of other sessions and of no call."""
        if helper is not None and helper.isalnum():
            file = os.path.join(self._beside, f"{_PREFIX}{helper}{_SUFFIX}")
            if os.path.isfile(file) and _first(file).session_id == self._native_id:
                yield file
        elif prompt is not None:
            for file in _agents(self._beside):
                first = _first(file)
                if first.session_id == self._native_id and first.is_sidechain and _prompt(first) == prompt:
                    yield file
                    return


def call_of(path: str) -> str | None:
    """The call that started the subagent of this file."""
    call = _meta(path).get("toolUseId")
    return call if isinstance(call, str) else None


def is_subagent(path: str) -> bool:
    """Whether a file has a subagent's name."""
    name = os.path.basename(path)
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def _files(folder: str) -> Iterator[str]:
    count = 0
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if is_subagent(name) and count < _MOST:
                count += 1
                yield os.path.join(base, name)


def _agents(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if is_subagent(entry.name) and entry.is_file())
    except OSError:
        return []


def _meta(path: str) -> dict[str, Any]:
    try:
        with open(path[: -len(_SUFFIX)] + _META, "rb") as file:
            return parse_raw(msgspec.Raw(file.read(_META_LIMIT)))
    except OSError:
        return {}


def _first(path: str) -> ClaudeRecord:
    try:
        with open(path, "rb") as file:
            return _head(file)
    except OSError:
        return ClaudeRecord()


def _head(file: BinaryIO) -> ClaudeRecord:
    """The first readable record among the first few."""
    for _ in range(5):
        try:
            record = decode(file.readline(_HEAD))
        except (ValueError, RecursionError):
            continue
        if record.session_id is not None:
            return record
    return ClaudeRecord()


def _first_event(path: str) -> tuple[str, str]:
    return _first(path).timestamp or "", path


def _prompt(record: ClaudeRecord) -> str:
    return stream.content_text(record.message.content) if record.message is not None else ""


# --- The history of a session: its transcript, with each subagent's events between a call and its result

_DEEPEST = 20  # nesting limit of subagents


def session_events(path: str, native_id: str) -> Iterator[NewEvent]:
    """All events of the session in logical order."""
    subagents = ClaudeSubagents(path, native_id)
    yield from _named_call(path, native_id, subagents, call_of(path) if is_subagent(path) else None, 0)
    for call, file in subagents.rest():
        yield from _named_call(file, native_id, subagents, call, 1)


def _named_call(
    path: str, native_id: str, subagents: ClaudeSubagents, parent: str | None, depth: int
) -> Iterator[NewEvent]:
    try:
        transcript = ClaudeTranscript(path)
    except OSError:
        return
    with transcript:
        builder = ClaudeEventBuilder(native_id, transcript.answered, parent)
        for piece in transcript.in_order():
            for event in builder.on_piece(piece):
                if event.kind == "tool_summary" and (subagents.calls or builder.prompts):
                    yield from _before(event, native_id, subagents, builder, depth)
                yield event
        for event in builder.close():
            yield from _before(event, native_id, subagents, builder, depth)
            yield event


def _before(
    event: NewEvent, native_id: str, subagents: ClaudeSubagents, builder: ClaudeEventBuilder, depth: int
) -> Iterator[NewEvent]:
    """The events of the subagent whose call ends with this event."""
    call = event.body["call"]
    if depth >= _DEEPEST or (call not in subagents.calls and call not in builder.prompts):
        return
    for file in subagents.take(call, builder.helpers.pop(call, None), builder.prompts.pop(call, None)):
        yield from _named_call(file, native_id, subagents, call, depth + 1)
