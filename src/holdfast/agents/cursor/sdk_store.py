"""What do the two stores of the SDK have in common? Agents, their runs, and the runs' logs."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec

from holdfast import timestamps
from holdfast.agents.cursor.checkpoints import Blobs, CheckpointGraph
from holdfast.agents.cursor.sdk_runs import AGENT, TERMINAL, SdkRun, SdkRunMessage, runs_with_problems
from holdfast.model.event import NewEvent
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import TranscriptProblem

Item = NewEvent | TranscriptProblem
_MOST_TURNS = 1 << 53


class SdkAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's row, without its metadata, which holds a key."""

    id: str
    cwd: str | None = None
    name: str | None = None
    status: str = ""  # in capitals
    active_run: str | None = None
    root: str | None = None  # the blob of its latest checkpoint
    updated: str | None = None
    has_row: bool = True


class SdkStore(Protocol):
    """An open store of the SDK."""

    def agents(self) -> Iterator[SdkAgent]:
        """All agents, including those of which only a run is left."""
        ...

    def runs(self, agent: str) -> list[SdkRun]:
        """Its runs in the order of their turns."""
        ...

    def log(self, run: SdkRun) -> Iterator[SdkRunMessage]:
        """A run's log in order of its numbers."""
        ...

    def rest(self, agent: str) -> Iterator[Item]:
        """The rest of an agent: entries without a run, and damage."""
        ...

    def blobs(self, agent: str) -> AbstractContextManager[Blobs]:
        """Its checkpoints."""
        ...


def read_agent(store: SdkStore, agent: SdkAgent) -> Iterator[Item]:
    """The events of all its runs, their problems, and entries without a run."""
    runs = store.runs(agent.id)
    asked: dict[str, str] | None = None

    def prompt(run: SdkRun) -> str | None:
        nonlocal asked
        if asked is None:
            with store.blobs(agent.id) as blob:
                asked = CheckpointGraph(agent.id, agent.root, blob).prompts_by_request() if agent.root else {}
        return asked.get(run.request or "")

    yield from runs_with_problems(agent.id, ((run, store.log(run)) for run in runs), prompt)
    yield from store.rest(agent.id)


def agent_problems(store: SdkStore, agent: SdkAgent) -> Iterator[TranscriptProblem]:
    """The problems of the agent's row and its checkpoint."""
    if not agent.has_row:
        yield TranscriptProblem(
            "bad_header", "the agent's own row is missing; only its runs are left", {"agent": agent.id}
        )
    runs = {run.id: run for run in store.runs(agent.id)}
    if agent.active_run is not None:
        active = runs.get(agent.active_run)
        if active is None or active.status in TERMINAL:
            text = "the agent's row names a running run that is not running"
            yield TranscriptProblem("row_stale", text, {"run": agent.active_run})
    if agent.root is not None:
        with store.blobs(agent.id) as blob:
            for item in CheckpointGraph(agent.id, agent.root, blob).items():
                if isinstance(item, TranscriptProblem) and item.code in (
                    "missing_blob",
                    "store_damaged",
                    "parent_cycle",
                ):
                    yield item


def run_of(row: dict[str, Any], names: Callable[[str], str], error: str | None = None) -> SdkRun | None:
    """A run from its row; None if it has no id."""
    run_id, turn = jsonl.storable_id(row.get(names("run_id"))), row.get(names("turn_number"))
    if run_id is None:
        return None
    ended = ("endedAt", "finished_at", "cancelled_at", "expired_at", "updatedAt", "updated_at")
    times = (timestamps.of(row.get(name)) for name in ended)
    return SdkRun(
        id=run_id,
        turn=turn if type(turn) is int and abs(turn) < _MOST_TURNS else 0,
        status=jsonl.text_field(row, "status").upper(),
        request=jsonl.storable_id(row.get(names("request_id"))),
        error=error,
        at=next((at for at in times if at is not None), None),
    )


def message_of(seq: int, at: Any, payload: dict[str, Any] | NewEvent) -> SdkRunMessage:
    """An event of a log."""
    return SdkRunMessage(seq=seq, at=timestamps.of(at), payload=payload)


# --- The SDK's JSONL store: four files, each rewritten whole at every change

AGENTS, RUNS, EVENTS, CHECKPOINTS = "agents.ndjson", "runs.ndjson", "run_events.ndjson", "checkpoints.ndjson"
FILES = (AGENTS, RUNS, EVENTS, CHECKPOINTS)
# How a row begins, so that nested objects of a torn row are not taken for rows.
_OF_AGENT = (b'{"agentId"',)
_OF_RUN = (b'{"runId"',)
_STARTS = {AGENTS: _OF_AGENT, RUNS: _OF_RUN, EVENTS: _OF_RUN, CHECKPOINTS: _OF_AGENT}
_CAMEL = {"run_id": "runId", "turn_number": "turnNumber", "request_id": "requestId"}


class _LogEntry(NamedTuple):
    """Where one event of a log is."""

    seq: int
    offset: int
    size: int
    odd: NewEvent | None = None


class SdkJsonlStore:
    """An open store: every file as it was when it was first read."""

    def __init__(self, folder: str):
        self.folder = folder
        self._agents: dict[str, SdkAgent] = {}
        self._runs: dict[str, tuple[str, SdkRun]] = {}  # run -> its agent and the run
        self._problems: list[TranscriptProblem] = []
        self._events: BinaryIO | None = None
        self._index: dict[str, list[_LogEntry]] = {}
        self._owners: dict[str, str] = {}  # run without a row -> the agent that its events name
        self._strays: list[tuple[str | None, NewEvent]] = []  # damage without a place in a log, and its run
        self._rows()

    def __enter__(self) -> SdkJsonlStore:
        return self

    def __exit__(self, *_: object) -> None:
        if self._events is not None:
            self._events.close()

    def agents(self) -> Iterator[SdkAgent]:
        """All agents, including those of which only a run is left."""
        yield from self._agents.values()
        left = dict.fromkeys(agent for agent, _ in self._runs.values() if agent not in self._agents)
        yield from (SdkAgent(id=agent, has_row=False) for agent in left)

    def runs(self, agent: str) -> list[SdkRun]:
        """Its runs in the order of their turns."""
        return sorted((run for owner, run in self._runs.values() if owner == agent), key=lambda run: run.turn)

    def log(self, run: SdkRun) -> Iterator[SdkRunMessage]:
        """A run's log in order of its numbers."""
        self._find_events()
        for entry in sorted(self._index.get(run.id, ())):
            if entry.odd is not None:
                yield message_of(entry.seq, None, entry.odd)
            elif (row := self._event(entry)) is not None:
                payload = row.get("payload")
                odd = jsonl.notice_event("bad_line", "an event without a payload")
                yield message_of(
                    entry.seq, row.get("createdAt"), payload if isinstance(payload, dict) else odd
                )

    def rest(self, agent: str) -> Iterator[Item]:
        """Entries without a run, and damage."""
        self._find_events()
        for run, owner in self._owners.items():
            if owner == agent:
                yield from orphans(agent, run, len(self._index.get(run, ())))
        for run_id, odd in self._strays:
            if run_id is None or self._owner(run_id) in (agent, None):
                yield odd
                yield TranscriptProblem(str(odd.body["code"]), "a line cannot be read", {"file": EVENTS})
        yield from self._problems

    @contextmanager
    def blobs(self, agent: str) -> Iterator[Blobs]:
        """Its checkpoints; a damaged blob counts as missing."""
        try:
            file = open(os.path.join(self.folder, CHECKPOINTS), "rb")  # noqa: SIM115
        except OSError:
            yield lambda _: None
            return
        with file:
            offsets = {}
            for line in jsonl.read(file, _STARTS[CHECKPOINTS]):
                value = line.value or {}
                if value.get("agentId") == agent and isinstance(blob := value.get("blobId"), str):
                    offsets[blob] = (line.offset, line.size)

            def get(blob: str) -> bytes | None:
                row = _read(file, *offsets[blob]) if blob in offsets else None
                with suppress(ValueError):
                    return (
                        base64.b64decode(jsonl.text_field(row, "dataBase64"), validate=True)
                        if row is not None
                        else None
                    )
                return None

            yield get

    # --- The files

    def _rows(self) -> None:
        for row in self._read(AGENTS):
            if (agent_id := jsonl.storable_id(row.get("agentId"))) is None:
                self._problems.append(
                    TranscriptProblem("bad_line", "an agent's row without an id", {"file": AGENTS})
                )
                continue
            checkpoint = row.get("latestCheckpoint")
            self._agents[agent_id] = SdkAgent(
                id=agent_id,
                cwd=jsonl.storable_id(row.get("cwd")),
                name=jsonl.storable_id(row.get("name")),
                status=jsonl.text_field(row, "status").upper(),
                active_run=jsonl.storable_id(row.get("activeRunId")),
                root=jsonl.storable_id(checkpoint.get("rootBlobId"))
                if isinstance(checkpoint, dict)
                else None,
                updated=timestamps.of(row.get("updatedAt")),
            )
        for row in self._read(RUNS):
            agent = jsonl.storable_id(row.get("agentId"))
            reason = row.get("error")
            error = jsonl.text_field(reason, "message") if isinstance(reason, dict) else reason
            run = run_of(row, lambda name: _CAMEL[name], error if isinstance(error, str) and error else None)
            if run is None or agent is None:
                self._problems.append(
                    TranscriptProblem("bad_line", "a run's row without an id", {"file": RUNS})
                )
                continue
            if run.id in self._runs:
                self._problems.append(
                    TranscriptProblem("duplicate_record", "a run has two rows", {"run": run.id})
                )
            self._runs[run.id] = (agent, run)

    def _read(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of a file. Damage is recorded without its bytes, which may hold a key."""
        path = os.path.join(self.folder, name)
        try:
            for line in jsonl.lines(path, _STARTS[name]):
                if line.problem is not None:
                    evidence = {"file": name, "line": line.number}
                    self._problems.append(
                        TranscriptProblem(line.problem, f"a line of {name} is damaged", evidence)
                    )
                if line.value is not None:
                    yield line.value
        except FileNotFoundError:
            if name in (AGENTS, RUNS):
                self._problems.append(
                    TranscriptProblem("missing_store", f"{name} is missing", {"file": name})
                )
        except OSError as problem:
            text = f"{name} cannot be read: {problem.strerror}"
            self._problems.append(TranscriptProblem("store_damaged", text, {"file": name}))

    def _find_events(self) -> None:
        """Index where each event is; events are read on demand."""
        if self._events is not None:
            return
        with suppress(FileNotFoundError):
            self._events = open(os.path.join(self.folder, EVENTS), "rb")  # noqa: SIM115
        if self._events is None:
            return
        run: str | None = None
        seq = 0
        odds: list[tuple[str | None, int, jsonl.JsonlLine]] = []
        for line in jsonl.read(self._events, _STARTS[EVENTS]):
            value = line.value
            run_id = jsonl.storable_id(value.get("runId")) if value is not None else None
            number = value.get("seq") if value is not None else None
            if value is None or run_id is None or type(number) is not int:
                odds.append((run, seq + 1, line))
                continue
            if line.problem is not None:
                self._problems.append(
                    TranscriptProblem(
                        line.problem, "a line is damaged", {"file": EVENTS, "line": line.number}
                    )
                )
            run, seq = run_id, number
            self._index.setdefault(run, []).append(_LogEntry(seq, line.offset, line.size))
            if run not in self._runs and run not in self._owners:
                payload = value.get("payload")
                owner = jsonl.storable_id(payload.get("agentId")) if isinstance(payload, dict) else None
                self._owners[run] = owner or ""
        for place, following, line in odds:
            odd = jsonl.notice(line, AGENT, "") if line.value is None else _no_event(line)
            log = self._index.get(place or "")
            if log is None or line.problem == jsonl.NULS or any(e.seq == following for e in log):
                self._strays.append((place, NewEvent(odd.kind, odd.body)))
            else:
                log.append(_LogEntry(following, line.offset, line.size, odd))

    def _event(self, entry: _LogEntry) -> dict[str, Any] | None:
        return _read(self._events, entry.offset, entry.size) if self._events is not None else None

    def _owner(self, run: str) -> str | None:
        return self._runs[run][0] if run in self._runs else self._owners.get(run) or None


def orphans(agent: str, run: str, count: int) -> Iterator[Item]:
    """Events of a run without a row, which the SDK no longer knows."""
    text = f"{count} events belong to a run without a row"
    origin = jsonl.origin(AGENT, agent, f"{run}:orphans")
    yield NewEvent("notice", {"text": text, "code": "orphan_events", "run": run}, origin=origin)
    yield TranscriptProblem("orphan_events", text, {"run": run, "events": count})


def _no_event(line: jsonl.JsonlLine) -> NewEvent:
    odd = jsonl.unknown(line.value or {})
    return NewEvent(odd.kind, {**odd.body, "code": "bad_line"})


def _read(file: BinaryIO, offset: int, size: int) -> dict[str, Any] | None:
    file.seek(offset)
    value = jsonl.parse(file.read(size))
    return value if isinstance(value, dict) else None
