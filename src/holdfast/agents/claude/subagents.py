"""The files of a session's subagents, and which call started each.

2.0 keeps them as `agent-<id>.jsonl` beside the transcript, where the call's result names the id; later
versions below `<session id>/subagents/`, each with a `.meta.json` that names the call. 1.0 keeps what a
subagent does in the transcript itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from holdfast.agents.claude import stream
from holdfast.agents.claude.events import ClaudeEventBuilder
from holdfast.agents.claude.records import ClaudeRecord, decode, inside
from holdfast.agents.claude.transcript import ClaudeTranscript
from holdfast.model.event import NewEvent

_META_LIMIT = 1 << 20
_HEAD = 1 << 16
_MOST = 20_000  # files that are looked at
_PREFIX, _SUFFIX, _META = "agent-", ".jsonl", ".meta.json"


class ClaudeSubagents:
    """The files of the subagents of one transcript; each is taken once."""

    def __init__(self, path: str, native_id: str):
        """Of that transcript."""
        self._beside = os.path.dirname(path)
        self._native_id = native_id
        self._folder = os.path.join(os.path.dirname(path), native_id, "subagents")
        self.calls: dict[str, list[str]] = {}  # by call: files
        self._left: dict[str, str] = {}  # files that are not taken: the agent's id
        for file in _files(self._folder):
            self._left[file] = os.path.basename(file)[len(_PREFIX) : -len(_SUFFIX)]
            call = _meta(file).get("toolUseId")
            if isinstance(call, str):
                self.calls.setdefault(call, []).append(file)

    def take(self, call: str, helper: str | None, prompt: str | None) -> list[str]:
        """The files of what that call started; `helper` is the id that its result names."""
        files = [file for file in self.calls.pop(call, ()) if file in self._left]
        if helper is not None:
            files += [file for file, id in self._left.items() if id == helper and file not in files]
        if not files:
            files = list(self._among_neighbours(helper, prompt))
        for file in files:
            self._left.pop(file, None)
        return sorted(files, key=_began)

    def rest(self) -> Iterator[tuple[str, str]]:
        """What a call started that was not told of: the call and the file."""
        while self.calls:
            call, files = self.calls.popitem()
            for file in files:
                if self._left.pop(file, None) is not None:
                    yield call, file

    def all(self) -> list[str]:
        """Every file, also those that no call names."""
        found = list(_files(self._folder))
        found += [file for file in _agents(self._beside) if _first(file).session_id == self._native_id]
        return found

    def _among_neighbours(self, helper: str | None, prompt: str | None) -> Iterator[str]:
        """In 2.0 they lie beside the transcript, with those of other sessions and of no call at all."""
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
    """The call that started the subagent of that file."""
    call = _meta(path).get("toolUseId")
    return call if isinstance(call, str) else None


def is_subagent(path: str) -> bool:
    """Whether a file is named as a subagent's."""
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
            return inside(msgspec.Raw(file.read(_META_LIMIT)))
    except OSError:
        return {}


def _first(path: str) -> ClaudeRecord:
    try:
        with open(path, "rb") as file:
            return _head(file)
    except OSError:
        return ClaudeRecord()


def _head(file: BinaryIO) -> ClaudeRecord:
    """The first record that can be read, of the first few."""
    for _ in range(5):
        try:
            record = decode(file.readline(_HEAD))
        except (ValueError, RecursionError):
            continue
        if record.session_id is not None:
            return record
    return ClaudeRecord()


def _began(path: str) -> tuple[str, str]:
    return _first(path).timestamp or "", path


def _prompt(record: ClaudeRecord) -> str:
    return stream.joined(record.message.content) if record.message is not None else ""


# --- The history of one session: its transcript, and what its subagents did between a call and its result.

_DEEPEST = 20  # subagents that start subagents


def history(path: str, native_id: str) -> Iterator[NewEvent]:
    """All events of the session, in their logical order."""
    subagents = ClaudeSubagents(path, native_id)
    yield from _told(path, native_id, subagents, call_of(path) if is_subagent(path) else None, 0)
    for call, file in subagents.rest():
        yield from _told(file, native_id, subagents, call, 1)


def _told(
    path: str, native_id: str, subagents: ClaudeSubagents, parent: str | None, depth: int
) -> Iterator[NewEvent]:
    try:
        transcript = ClaudeTranscript(path)
    except OSError:
        return
    with transcript:
        teller = ClaudeEventBuilder(native_id, transcript.answered, parent)
        for piece in transcript.in_order():
            for event in teller.tell(piece):
                if event.kind == "tool_summary" and (subagents.calls or teller.prompts):
                    yield from _before(event, native_id, subagents, teller, depth)
                yield event
        for event in teller.close():
            yield from _before(event, native_id, subagents, teller, depth)
            yield event


def _before(
    event: NewEvent, native_id: str, subagents: ClaudeSubagents, teller: ClaudeEventBuilder, depth: int
) -> Iterator[NewEvent]:
    """What the subagent did whose call ends with this event."""
    call = event.body["call"]
    if depth >= _DEEPEST or (call not in subagents.calls and call not in teller.prompts):
        return
    for file in subagents.take(call, teller.helpers.pop(call, None), teller.prompts.pop(call, None)):
        yield from _told(file, native_id, subagents, call, depth + 1)
