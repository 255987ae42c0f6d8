"""The reader of Cursor's stores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.cursor import cli_store, display_transcript, sdk_store
from holdfast.agents.cursor import sessions as places
from holdfast.agents.cursor.sdk_sqlite import SdkSqliteStore, blobs_path
from holdfast.agents.cursor.sdk_store import SdkJsonlStore
from holdfast.agents.cursor.sessions import ACP, LEGACY, SDK_JSONL, SDK_SQLITE, TRANSCRIPT, StoreLocation
from holdfast.errors import HoldfastError
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.process import table as tree
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem

MOST = 20  # problems of one code that are told
_CUTS = frozenset({"cancelled", "expired"})  # marks after which a turn's last words are no answer

_OPEN = frozenset({"run_still_open", "turn_unfinished"})  # problems of a run whose end is not told


class CursorFindings(msgspec.Struct):
    """What the events show."""

    turns: int = 0
    last_complete: int | None = None
    dangling: list[dict[str, Any]] = []
    problems: list[TranscriptProblem] = []


def judge(items: Iterable[NewEvent | TranscriptProblem], has_runs: bool) -> CursorFindings:
    """Turns, calls without a result, and all that is wrong.

    `has_runs`: the store says of each run how it ended, so that its last words need not tell.
    """
    found = CursorFindings()
    counted: Counter[str] = Counter()
    turn: _CursorTurn | None = None
    calls: dict[str, Any] = {}  # the inputs of calls that are open
    for item in items:
        if isinstance(item, TranscriptProblem):
            counted[item.code] += 1
            if counted[item.code] <= MOST:
                found.problems.append(item)
            if item.code in _OPEN and item.evidence.get("began") and turn is not None:
                turn.cut = True
            continue
        body = item.body
        if item.kind == "user" or body.get("code") == "no_prompt":
            _count(found, turn)
            turn = _CursorTurn()
            found.turns += 1
        elif item.kind in ("notice", "error"):
            if turn is not None and body["code"] in _CUTS:
                turn.cut = True
        else:
            turn = turn or _CursorTurn()
            turn.hear(item)
            if item.kind == "tool_progress":
                calls[str(body["call"])] = body["input"]
            elif item.kind == "tool_summary":
                given = calls.pop(str(body["call"]), {})
                if body["outcome"] == "interrupted" and item.origin is None:
                    turn.dangling = True
                    found.dangling.append({"call": body["call"], "name": body["name"], "input": given})
    _count(found, turn)
    found.problems += _of_the_end(found, turn, has_runs)
    return found


class _CursorTurn:
    """One turn as far as it was heard."""

    def __init__(self) -> None:
        self.last = ""  # the kind of its last event
        self.cut = False
        self.dangling = False

    def hear(self, event: NewEvent) -> None:
        if not (event.kind == "tool_summary" and event.origin is None):
            self.last = event.kind

    @property
    def complete(self) -> bool:
        """Whether it ended with an answer and no call open."""
        return self.last == "assistant" and not self.cut and not self.dangling


def _count(found: CursorFindings, turn: _CursorTurn | None) -> None:
    if turn is not None and turn.complete and found.turns:
        found.last_complete = found.turns


def _of_the_end(found: CursorFindings, turn: _CursorTurn | None, has_runs: bool) -> list[TranscriptProblem]:
    problems = []
    if found.dangling:
        calls = [{"call": call["call"], "name": call["name"]} for call in found.dangling[:MOST]]
        count = len(found.dangling)
        text = "a call has no result" if count == 1 else f"{count} calls have no result"
        problems.append(TranscriptProblem("dangling_call", text, {"calls": calls}))
    if turn is None:
        if not found.problems:
            problems.append(TranscriptProblem("no_messages", "nothing was said in it", {}))
    elif not has_runs and not turn.complete and not turn.dangling:
        if any(problem.code == "no_reply" for problem in found.problems):
            return problems
        code = "turn_unfinished" if turn.last else "no_reply"
        text = "the last turn has no answer" if turn.last else "the last prompt has no reply"
        problems.append(TranscriptProblem(code, text, {}))
    return problems


# --- The shells in which Cursor runs commands, also when it is gone.

# In the command line of the shell of every call (SDK 1.1.0), which does not tell the command itself. The
# shell leads a session of its own: it outlives a SIGKILL of the SDK's bridge and of all its group.
_MARK = "__cursor_command"


def left(table: tree.Table, cwd: str) -> list[int]:
    """The shells that work in that folder, and what they started."""
    shells = [p for p in table.values() if _MARK in p.command and p.pid != os.getpid() and _is_in(p.pid, cwd)]
    return [p.pid for p in [*shells, *tree.below(table, shells)]]


def _is_in(pid: int, cwd: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(cwd)
    except OSError:  # gone, another user's, or a system that does not tell
        return False


# --- The reader of Cursor's stores.

Item = NewEvent | TranscriptProblem
_SDK = (SDK_SQLITE, SDK_JSONL)


class CursorReader:
    """All that Cursor's SDK, its CLI and its editor keep of their agents."""

    agent = "cursor"
    missing = "missing_store"
    uncopied = "a store of Cursor's holds the key of its conversation, so only transcripts are copied"

    def root(self, env: Mapping[str, str]) -> str:
        """`~/.cursor`, or where its variable says."""
        told = env.get("CURSOR_DATA_DIR", "").strip()
        return told or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".cursor")

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions of that id, or at that path; several only if none is clearly the one that counts.

        Of one conversation the ACP store counts before an older chat that it continues, and any store
        before a transcript.
        """
        found: list[SessionRef] = []
        if places.is_id(name):
            for spot in places.spots(root):
                if spot.form in _SDK or _name(spot) == name:
                    found += [place for place in _places(spot) if place.native_id == name]
        if not found and os.path.exists(name):
            for spot in places.spots(name):
                found += _places(spot)
        return _chosen(found)

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd; one odd file never stops the rest."""
        found: dict[str, list[SessionRef]] = {}
        for spot in places.spots(root):
            if cwd is None or spot.form in (*_SDK, ACP) or _may_be_of(spot, cwd):
                for place in _places(spot, cwd):
                    if cwd is None or _same_folder(place.cwd, cwd):
                        found.setdefault(place.native_id, []).append(place)
        for several in found.values():
            yield from _chosen(several)

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """The history in its logical order, as the runner would have written it."""
        for item in _story(place, about=False):
            if isinstance(item, NewEvent):
                yield item

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether the stored session is sound, from the store alone."""
        found = judge(_story(place, about=True), has_runs=place.form in _SDK)
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=not found.problems,
            problems=found.problems,
            dangling=found.dangling,
            turns=found.turns,
            last_complete=found.last_complete,
            title=place.title,
            cwd=place.cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """The transcript, and no store: each holds a key of its conversation that must not be copied."""
        return [place.path] if place.form == TRANSCRIPT else []

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """The processes that have its database open; a store in JSONL shows none."""
        if place.form == SDK_SQLITE:
            return open_files.writers(blobs_path(place.path, place.native_id))
        return open_files.writers(place.path) if place.form in (ACP, LEGACY) else []

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """What the processes that have its database open have started, and shells that outlived them."""
        table = tree.table()
        found = {p.pid for owner in self.owners(root, place) for p in tree.descendants(table, owner)}
        if place.cwd is not None and (dangling := self.inspect(place).dangling):
            found.update(left(table, place.cwd), open_files.commands(dangling, place.cwd))
        return sorted(found)


def _story(place: SessionRef, about: bool) -> Iterator[Item]:
    """Everything that a store tells; `about`: also what is wrong besides its events."""
    if place.form in (ACP, LEGACY):
        yield from cli_store.story(place.path, place.form, place.native_id)
    elif place.form == TRANSCRIPT:
        yield from display_transcript.story(place.path, place.native_id)
    elif place.form in _SDK:
        with _sdk_store(place.form, place.path) as store:
            agents = [agent for agent in store.agents() if agent.id == place.native_id]
            for agent in agents[:1]:
                yield from sdk_store.story(store, agent)
                if about:
                    yield from sdk_store.about(store, agent)
            if not agents:
                yield TranscriptProblem("missing_store", "the store has no such agent", {"path": place.path})
                yield from store.rest(place.native_id)


def _sdk_store(form: str, path: str) -> AbstractContextManager[sdk_store.SdkStore]:
    return SdkSqliteStore(path) if form == SDK_SQLITE else SdkJsonlStore(path)


def _places(spot: StoreLocation, cwd: str | None = None) -> list[SessionRef]:
    """The sessions in a store; none if it cannot be read now."""
    try:
        if spot.form in _SDK:
            return list(_agents(spot))
        if spot.form == TRANSCRIPT:
            return [_place(spot, _name(spot), cwd)]
        header = cli_store.header(spot.path, spot.form)
        # A store under a name of its own tells its id itself.
        told = _name(spot) if os.path.basename(spot.path) == places.STORE else header.id or _name(spot)
        known = header.cwd or (cwd if spot.form == LEGACY else None)
        return [_place(spot, told, known, header.name)]
    except HoldfastError:
        return []


def _agents(spot: StoreLocation) -> Iterator[SessionRef]:
    with _sdk_store(spot.form, spot.path) as store:
        for agent in store.agents():
            if spot.only in (None, os.path.basename(os.path.dirname(blobs_path(spot.path, agent.id)))):
                place = _place(spot, agent.id, agent.cwd, agent.name)
                yield msgspec.structs.replace(place, updated_at=agent.updated or place.updated_at)


def _place(spot: StoreLocation, native_id: str, cwd: str | None, title: str | None = None) -> SessionRef:
    changed = None
    with suppress(OSError):
        changed = timestamps.stamp(os.stat(spot.path).st_mtime)
    return SessionRef(
        agent=CursorReader.agent,
        native_id=native_id,
        path=spot.path,
        cwd=cwd,
        title=title,
        updated_at=changed,
        form=spot.form,
    )


def _name(spot: StoreLocation) -> str:
    """The id that a store's path tells."""
    if spot.form == TRANSCRIPT or os.path.basename(spot.path) != places.STORE:
        return os.path.splitext(os.path.basename(spot.path))[0]
    return os.path.basename(os.path.dirname(spot.path))


def _may_be_of(spot: StoreLocation, cwd: str) -> bool:
    if spot.form == LEGACY:
        return os.path.basename(os.path.dirname(os.path.dirname(spot.path))) == places.drawer(cwd)
    return places.project(spot.path) == places.slug(cwd)


def _same_folder(told: str | None, cwd: str) -> bool:
    return told is not None and os.path.normpath(told) == os.path.normpath(cwd)


def _chosen(found: Iterable[SessionRef]) -> list[SessionRef]:
    """The candidates that are left where one plainly stands for another, best first."""
    rest = list(found)
    stores = {place.native_id for place in rest if place.form != TRANSCRIPT}
    rest = [place for place in rest if place.form != TRANSCRIPT or place.native_id not in stores]
    for acp in [place for place in rest if place.form == ACP]:
        turns = cli_store.header(acp.path, ACP).turns
        rest = [p for p in rest if not (_is_older(p, acp) and _begins(turns, p))]
    return sorted(rest, key=lambda place: (place.native_id, _RANK.index(place.form), place.path))


_RANK = (SDK_SQLITE, SDK_JSONL, ACP, LEGACY, TRANSCRIPT)


def _is_older(place: SessionRef, acp: SessionRef) -> bool:
    return place.form == LEGACY and place.native_id == acp.native_id


def _begins(turns: tuple[str, ...], legacy: SessionRef) -> bool:
    """Whether what an older chat has is all in the ACP store, which was copied from it."""
    older = cli_store.header(legacy.path, LEGACY).turns
    return turns[: len(older)] == older
