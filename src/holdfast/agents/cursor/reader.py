"""How are Cursor's stores found, read and inspected?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.cursor import cli_store, display_transcript, sdk_store, sessions
from holdfast.agents.cursor.sdk_sqlite import SdkSqliteStore, blobs_path
from holdfast.agents.cursor.sdk_store import SdkJsonlStore
from holdfast.agents.cursor.sessions import ACP, LEGACY, SDK_JSONL, SDK_SQLITE, TRANSCRIPT, StoreLocation
from holdfast.errors import HoldfastError
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.process import table as process_table
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
    is_same_folder,
)

MOST = 20  # how many problems of one code are listed
_CUTS = frozenset({"cancelled", "expired"})  # after these a turn's last text is not an answer

_OPEN = frozenset({"run_still_open", "turn_unfinished"})  # problems of a run without a recorded end


class CursorFindings(msgspec.Struct):
    """Turns, open calls and problems of a conversation."""

    turns: int = 0
    last_complete: int | None = None
    dangling: list[dict[str, Any]] = []
    problems: list[TranscriptProblem] = []


def find_problems(items: Iterable[NewEvent | TranscriptProblem], has_runs: bool) -> CursorFindings:
    """Count turns, find calls without a result, and collect the problems.

    `has_runs`: the store says how each run ended, so the last text does not have to.
    """
    findings = CursorFindings()
    counted: Counter[str] = Counter()
    turn: _CursorTurn | None = None
    calls: dict[str, Any] = {}  # call id -> input, for open calls
    for item in items:
        if isinstance(item, TranscriptProblem):
            counted[item.code] += 1
            if counted[item.code] <= MOST:
                findings.problems.append(item)
            if item.code in _OPEN and item.evidence.get("began") and turn is not None:
                turn.cut = True
            continue
        body = item.body
        if item.kind == "user" or body.get("code") == "no_prompt":
            _count(findings, turn)
            turn = _CursorTurn()
            findings.turns += 1
        elif item.kind in ("notice", "error"):
            if turn is not None and body["code"] in _CUTS:
                turn.cut = True
        else:
            turn = turn or _CursorTurn()
            turn.on_event(item)
            if item.kind == "tool_progress":
                calls[str(body["call"])] = body["input"]
            elif item.kind == "tool_summary":
                arguments = calls.pop(str(body["call"]), {})
                if body["outcome"] == "interrupted" and item.origin is None:
                    turn.dangling = True
                    findings.dangling.append({"call": body["call"], "name": body["name"], "input": arguments})
    _count(findings, turn)
    findings.problems += _last_turn_problems(findings, turn, has_runs)
    return findings


class _CursorTurn:
    """One turn so far."""

    def __init__(self) -> None:
        self.last = ""  # the kind of its last event
        self.cut = False
        self.dangling = False

    def on_event(self, event: NewEvent) -> None:
        if not (event.kind == "tool_summary" and event.origin is None):
            self.last = event.kind

    @property
    def complete(self) -> bool:
        """Whether it ended with an answer and no open call."""
        return self.last == "assistant" and not self.cut and not self.dangling


def _count(findings: CursorFindings, turn: _CursorTurn | None) -> None:
    if turn is not None and turn.complete and findings.turns:
        findings.last_complete = findings.turns


def _last_turn_problems(
    findings: CursorFindings, turn: _CursorTurn | None, has_runs: bool
) -> list[TranscriptProblem]:
    problems = []
    if findings.dangling:
        calls = [{"call": call["call"], "name": call["name"]} for call in findings.dangling[:MOST]]
        count = len(findings.dangling)
        text = "a call has no result" if count == 1 else f"{count} calls have no result"
        problems.append(TranscriptProblem("dangling_call", text, {"calls": calls}))
    if turn is None:
        if not findings.problems:
            problems.append(TranscriptProblem("no_messages", "it has no messages", {}))
    elif not has_runs and not turn.complete and not turn.dangling:
        if any(problem.code == "no_reply" for problem in findings.problems):
            return problems
        code = "turn_unfinished" if turn.last else "no_reply"
        text = "the last turn has no answer" if turn.last else "the last prompt has no reply"
        problems.append(TranscriptProblem(code, text, {}))
    return problems


# --- The shells in which Cursor runs commands, even after Cursor has ended

# This is in the command line of every call's shell (SDK 1.1.0), which does not show the command itself. The
# shell leads a session of its own: it survives a SIGKILL of the SDK's bridge and its process group.
_MARK = "__cursor_command"


def surviving_shells(table: process_table.Table, cwd: str) -> list[int]:
    """The shells in this folder, and what they started."""
    shells = [p for p in table.values() if _MARK in p.command and p.pid != os.getpid() and _is_in(p.pid, cwd)]
    return [p.pid for p in [*shells, *process_table.below(table, shells)]]


def _is_in(pid: int, cwd: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:  # ended, another user's, or not available on this system
        return False


# --- The reader

Item = NewEvent | TranscriptProblem
_SDK = (SDK_SQLITE, SDK_JSONL)


class CursorReader(TranscriptReader):
    """The stores of Cursor's SDK, its CLI and its editor."""

    agent = "cursor"
    missing = "missing_store"
    not_backed_up = "Cursor's stores hold the key of the conversation, so only transcripts are copied"
    root_variable = "CURSOR_DATA_DIR"
    root_folder = ".cursor"

    def root(self, env: Mapping[str, str]) -> str:
        """`CURSOR_DATA_DIR` without surrounding white space, as Cursor reads it; else `~/.cursor`."""
        named = env.get(self.root_variable, "").strip()
        return super().root({**env, self.root_variable: named})

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions with this id or at this path; several only if none clearly counts.

        Of one conversation the ACP store counts before an older chat that it continues, and any store before
        a transcript.
        """
        refs: list[SessionRef] = []
        if sessions.is_id(name):
            for location in sessions.stores_at(root):
                if location.form in _SDK or _name(location) == name:
                    refs += [ref for ref in _refs_in(location) if ref.native_id == name]
        if not refs and os.path.exists(name):
            for location in sessions.stores_at(name):
                refs += _refs_in(location)
        return _best(refs)

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd. A damaged file does not hide the others."""
        by_id: dict[str, list[SessionRef]] = {}
        for location in sessions.stores_at(root):
            if cwd is None or location.form in (*_SDK, ACP) or _may_be_of(location, cwd):
                for ref in _refs_in(location, cwd):
                    if cwd is None or is_same_folder(ref.cwd, cwd):
                        by_id.setdefault(ref.native_id, []).append(ref)
        for several in by_id.values():
            yield from _best(several)

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """The history in logical order, as the runner would have written it."""
        for item in _store_items(ref, about=False):
            if isinstance(item, NewEvent):
                yield item

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether the stored session is sound, judged by the store alone."""
        findings = find_problems(_store_items(ref, about=True), has_runs=ref.form in _SDK)
        return self.inspection(
            ref,
            findings.problems,
            dangling=findings.dangling,
            turns=findings.turns,
            last_complete=findings.last_complete,
        )

    def files(self, ref: SessionRef) -> list[str]:
        """The transcript, but no store: each store holds a secret key of its conversation."""
        return [ref.path] if ref.form == TRANSCRIPT else []

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """The processes that have its database open; unknown for a JSONL store."""
        if ref.form == SDK_SQLITE:
            return open_files.writers(blobs_path(ref.path, ref.native_id))
        return open_files.writers(ref.path) if ref.form in (ACP, LEGACY) else []

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        """What those processes started, and shells that outlived them."""
        table = process_table.table()
        pids = {p.pid for owner in self.owners(root, ref) for p in process_table.descendants(table, owner)}
        if ref.cwd is not None and (dangling := self.inspect(ref).dangling):
            pids.update(surviving_shells(table, ref.cwd), open_files.commands(dangling, ref.cwd))
        return sorted(pids)


def _store_items(ref: SessionRef, about: bool) -> Iterator[Item]:
    """Everything in a store; `about`: also problems outside its events."""
    if ref.form in (ACP, LEGACY):
        yield from cli_store.read_conversation(ref.path, ref.form, ref.native_id)
    elif ref.form == TRANSCRIPT:
        yield from display_transcript.read_transcript(ref.path, ref.native_id)
    elif ref.form in _SDK:
        with _sdk_store(ref.form, ref.path) as store:
            agents = [agent for agent in store.agents() if agent.id == ref.native_id]
            for agent in agents[:1]:
                yield from sdk_store.read_agent(store, agent)
                if about:
                    yield from sdk_store.agent_problems(store, agent)
            if not agents:
                yield TranscriptProblem("missing_store", "the store has no such agent", {"path": ref.path})
                yield from store.rest(ref.native_id)


def _sdk_store(form: str, path: str) -> AbstractContextManager[sdk_store.SdkStore]:
    return SdkSqliteStore(path) if form == SDK_SQLITE else SdkJsonlStore(path)


def _refs_in(location: StoreLocation, cwd: str | None = None) -> list[SessionRef]:
    """The sessions in a store; none if it cannot be read now."""
    try:
        if location.form in _SDK:
            return list(_agents(location))
        if location.form == TRANSCRIPT:
            return [_session_ref(location, _name(location), cwd)]
        header = cli_store.header(location.path, location.form)
        # A store with another file name holds its own id.
        native_id = (
            _name(location)
            if os.path.basename(location.path) == sessions.STORE
            else header.id or _name(location)
        )
        known = header.cwd or (cwd if location.form == LEGACY else None)
        return [_session_ref(location, native_id, known, header.name)]
    except HoldfastError:
        return []


def _agents(location: StoreLocation) -> Iterator[SessionRef]:
    with _sdk_store(location.form, location.path) as store:
        for agent in store.agents():
            if location.only in (
                None,
                os.path.basename(os.path.dirname(blobs_path(location.path, agent.id))),
            ):
                ref = _session_ref(location, agent.id, agent.cwd, agent.name)
                yield msgspec.structs.replace(ref, updated_at=agent.updated or ref.updated_at)


def _session_ref(
    location: StoreLocation, native_id: str, cwd: str | None, title: str | None = None
) -> SessionRef:
    changed = None
    with suppress(OSError):
        changed = timestamps.stamp(os.stat(location.path).st_mtime)
    return SessionRef(
        agent=CursorReader.agent,
        native_id=native_id,
        path=location.path,
        cwd=cwd,
        title=title,
        updated_at=changed,
        form=location.form,
    )


def _name(location: StoreLocation) -> str:
    """The session id in a store's path."""
    if location.form == TRANSCRIPT or os.path.basename(location.path) != sessions.STORE:
        return os.path.splitext(os.path.basename(location.path))[0]
    return os.path.basename(os.path.dirname(location.path))


def _may_be_of(location: StoreLocation, cwd: str) -> bool:
    if location.form == LEGACY:
        return os.path.basename(
            os.path.dirname(os.path.dirname(location.path))
        ) == sessions.chats_folder_name(cwd)
    return sessions.project(location.path) == sessions.slug(cwd)


def _best(refs: Iterable[SessionRef]) -> list[SessionRef]:
    """The remaining candidates, best first, after dropping those that another one replaces."""
    rest = list(refs)
    stores = {ref.native_id for ref in rest if ref.form != TRANSCRIPT}
    rest = [ref for ref in rest if ref.form != TRANSCRIPT or ref.native_id not in stores]
    for acp in [ref for ref in rest if ref.form == ACP]:
        turns = cli_store.header(acp.path, ACP).turns
        rest = [p for p in rest if not (_is_older(p, acp) and _begins(turns, p))]
    return sorted(rest, key=lambda ref: (ref.native_id, _RANK.index(ref.form), ref.path))


_RANK = (SDK_SQLITE, SDK_JSONL, ACP, LEGACY, TRANSCRIPT)


def _is_older(ref: SessionRef, acp: SessionRef) -> bool:
    return ref.form == LEGACY and ref.native_id == acp.native_id


def _begins(turns: tuple[str, ...], legacy: SessionRef) -> bool:
    """Whether the ACP store holds everything that an older chat has; it was copied from it."""
    older = cli_store.header(legacy.path, LEGACY).turns
    return turns[: len(older)] == older
