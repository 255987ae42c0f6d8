"""From a task's stdout to the log, each line once: events and offset in one commit, then what is sent."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Literal

import msgspec

from holdfast import errors, timestamps
from holdfast.agents.driver import Driver, DriverOutput
from holdfast.model.changes import Change, Deliver, SeeToken
from holdfast.model.commit import Commit, Entry, prepare
from holdfast.model.event import Event, NewEvent
from holdfast.model.task import ACTIVE, ENDED, Task
from holdfast.spool.outbox import Outbox
from holdfast.spool.reader_deaths import ReaderMarks
from holdfast.spool.tail import Line
from holdfast.store.store import Store

Forge = Literal["github", "gitlab", "forgejo"]

MOST = 100  # links that are taken from one event

_URL = re.compile(
    r"(?<![A-Za-z0-9])(https?)://"
    r"(?:[^\s/@<>\"'`()]{1,200}@)?"  # a name and password are not for a note
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?"
    r"/([A-Za-z0-9._~%/+-]+)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"([1-9][0-9]{0,9})(?:\.diff|\.patch)?[._~-]*\Z"
)  # what ends a sentence is no part of it
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


class PullRequest(msgspec.Struct, frozen=True):
    """A pull request, or a merge request as GitLab has it."""

    url: str  # of its own page, nothing behind the number
    forge: Forge  # by the shape of the address; Gitea's is Forgejo's
    host: str  # with its port, if that is not the usual one
    project: str  # owner/repo; GitLab's may be deeper
    number: int


def pull_requests_in(event: NewEvent) -> list[PullRequest]:
    """The pull requests that a live event names, each once; a replayed event has no effects."""
    text = None if event.replayed else _spoken(event)
    if text is None or ("/pull" not in text and "/merge_requests/" not in text):
        return []
    seen: dict[tuple[str, str, int], PullRequest] = {}
    for match in _URL.finditer(text):
        scheme, host, port, path = match.groups(default="")
        scheme = scheme.lower()
        place = host.lower() + ("" if port == _DEFAULT_PORT[scheme] else port)
        link = _read(scheme, place, path.split("/"))
        if link is not None:
            seen.setdefault((link.host, link.project, link.number), link)
            if len(seen) == MOST:
                break
    return list(seen.values())


def _spoken(event: NewEvent) -> str | None:
    """What the agent said or a tool printed; not what was asked of either, and not what was only thought."""
    if event.kind == "assistant":
        said = event.body["text"]
    elif event.kind == "tool_summary":
        said = event.body["output"]
    else:
        return None
    return said if isinstance(said, str) else msgspec.json.encode(said).decode()


def _read(scheme: str, host: str, path: list[str]) -> PullRequest | None:
    shape = _shape(host, path)
    if shape is None:
        return None
    forge, within, ending, last = shape
    digits = _NUMBER.match(last)
    if digits is None or any([part in ("", ".", "..", "-") for part in within]):
        return None
    project = "/".join(within)
    url = f"{scheme}://{host}/{project}/{ending}/{digits[1]}"
    return PullRequest(url, forge, host, project, int(digits[1]))


def _shape(host: str, path: list[str]) -> tuple[Forge, list[str], str, str] | None:
    """Whose address it is: forge, project, what is between, number. APIs have more before the project."""
    if len(path) >= 4 and path[2] == "pull":
        return "github", path[:2], "pull", path[3]
    if len(path) >= 4 and path[2] == "pulls" and host != "github.com":  # there: those of a user of that name
        return "forgejo", path[:2], "pulls", path[3]
    if "-" in path[2:-2]:
        dash = path.index("-", 2)
        if path[dash + 1] == "merge_requests":
            return "gitlab", path[:dash], "-/merge_requests", path[dash + 2]
    return None


# --- From a task's stdout to the log, each line once: events and offset in one commit, then what is sent.

log = logging.getLogger(__name__)

RETRY_S = (0.1, 0.5, 2.0)  # between tries of a store that does not take a commit just now
MAX_LINKS = 1000  # pull requests that one task is noted for
MANY = 1000  # entries of one commit; an agent may print a million lines that are not JSON

# The store will take it later; until then the spool keeps everything.
PASSING = (errors.DiskFull, errors.StoreBusy, errors.StoreUnreachable, errors.StoreReadOnly)


class OutputRecorder:
    """One task's way into the log."""

    def __init__(
        self,
        store: Store,
        task: Task,
        driver: Driver,
        outbox: Outbox | None,
        past: Sequence[Event],
        is_native_id: Callable[[str], bool] = bool,
        marks: ReaderMarks | None = None,
    ):
        """`past`: the tool_progress records of this task that are in the log.

        `marks`: where to mark what is read now, if output that kills its reader must be found.
        """
        self._marks = marks
        self._is_native_id = is_native_id
        self.task = task
        self.driver = driver
        self.links: list[str] = []
        self.listens = outbox is not None  # whether the agent can be told anything
        self.kept = False  # whether a line was too long for the log and must be kept in the spool
        self._store = store
        self._outbox = outbox
        self._known = task.spool  # entries of lines up to here are in the log
        self._offset = self._committed = task.spool
        self._accepted = task.delivery == "accepted"
        self._started = {str(event.body["call"]): event.at for event in past}

    def open(self) -> None:
        """Send what comes before anything is heard; after a restart, what of it was not sent yet."""
        self._send(self.driver.start_messages().sends)

    async def on_lines(self, lines: Sequence[Line], at: str) -> None:
        """Take lines, commit what they bring with the new offset, then send what follows from them."""
        entries: list[Entry] = []
        sends: list[bytes] = []
        first = lines[0].start  # of the lines that the next commit brings
        for line in lines:
            if self._marks is not None:
                self._marks.begin(line.start)
            out = self._on_line(line)
            sends += out.sends
            known = line.end <= self._known
            for entry in out.entries:
                decorated = self._decorate(entry, at, known)
                if not known:
                    entries += decorated
            self._offset = max(self._offset, line.end)
            if self.driver.accepted and not self._accepted:
                entries.append(Deliver(delivery="accepted"))
                self._accepted = True
            if len(entries) >= MANY:
                await self._commit_lines(entries, sends, first, line.end)
                entries, sends, first = [], [], line.end
        await self._commit_lines(entries, sends, first, lines[-1].end)

    async def append(self, out: DriverOutput) -> None:
        """Commit and send what follows from something other than a line."""
        entries = [
            decorated for entry in out.entries for decorated in self._decorate(entry, timestamps.now(), False)
        ]
        await self._commit_and_send(entries, out.sends)

    async def check_ownership(self) -> None:
        """Asked before the agent is touched without a commit: StaleGeneration if it is another's by now."""
        stored = await self._store.task(self.task.id)
        if stored.generation != self.task.generation or stored.status not in ACTIVE:
            raise errors.StaleGeneration(f"task {stored.id} is {stored.status} in {stored.generation}")

    def rest(self) -> list[Entry]:
        """What follows from the end of stdout."""
        out = self.driver.on_eof()
        return [
            decorated for entry in out.entries for decorated in self._decorate(entry, timestamps.now(), False)
        ]

    async def commit(self, entries: Sequence[Entry], *, last: bool = False) -> None:
        """Commit with the offset; waits while the store cannot take it, since the spool holds it all.

        `last`: without the offset, since the next launch of the task has another spool.
        """
        task, offset = self.task, None if last else self._offset
        commit = Commit(task.session, entries, task=task.id, generation=task.generation, spool=offset)
        for pause in chain(RETRY_S, repeat(RETRY_S[-1])):
            try:
                await self._store.commit(commit)
                break
            except errors.BadInput as problem:
                storable = [_storable(entry, task.session) for entry in commit.entries]
                if storable == list(commit.entries):
                    raise
                log.warning("task %s: %s", task.id, problem.message)
                commit = msgspec.structs.replace(commit, entries=storable)
            except PASSING as problem:
                log.warning("task %s: %s; its spool keeps what follows", task.id, problem.message)
                if self._marks is not None:
                    self._marks.pause()  # whoever is killed while the store is away did not die of a line
                if isinstance(problem, errors.CommitUnknown) and await self._is_in(last):
                    break
                await asyncio.sleep(pause)
        self._committed = self._offset

    async def _is_in(self, last: bool) -> bool:
        """Whether a commit of unknown fate happened: nearly all of ours move the offset or end the task."""
        stored = await self._store.task(self.task.id)
        return stored.status in ENDED or (not last and stored.spool >= self._offset > self._committed)

    def _on_line(self, line: Line) -> DriverOutput:
        if line.data is not None:
            return self.driver.on_line(line.data)
        self.kept = True
        body = {
            "text": line.head.decode("utf-8", "replace"),
            "code": line.problem,
            "bytes": line.end - line.start,
            "offset": line.start,  # where it is in the spool, which is kept for it
        }
        return DriverOutput(entries=[NewEvent("notice", body)])

    def _decorate(self, entry: NewEvent | Change, at: str, known: bool) -> list[Entry]:
        """An entry with its time, a tool's duration, and a note of each pull request it shows."""
        if isinstance(entry, SeeToken) and not self._is_native_id(entry.native_id):
            text = f"the agent named a conversation id that it cannot have: {entry.native_id[:100]!r}"
            entry = NewEvent("error", {"text": text, "code": "bad_native_id"})
        if not isinstance(entry, NewEvent):
            return [entry]
        event = entry if entry.at is not None else msgspec.structs.replace(entry, at=at)
        assert event.at is not None
        if event.kind == "tool_progress" and not known:
            self._started[str(event.body["call"])] = event.at
        if event.kind == "tool_summary" and "duration_ms" not in event.body:
            begun = self._started.get(str(event.body["call"]))
            if begun is not None:
                took = max(0, round((timestamps.parse(event.at) - timestamps.parse(begun)) * 1000))
                event = msgspec.structs.replace(event, body={**event.body, "duration_ms": took})
        new = [link for link in pull_requests_in(event) if link.url not in self.links]
        new = new[: MAX_LINKS - len(self.links)]
        self.links += [link.url for link in new]
        return [
            event,
            *[
                NewEvent(
                    "notice", {"text": link.url, "code": "pull_request", **msgspec.to_builtins(link)}, at
                )
                for link in new
            ],
        ]

    async def _commit_lines(self, entries: list[Entry], sends: list[bytes], start: int, end: int) -> None:
        """Commit what the lines from `start` to `end` brought."""
        if self._marks is None:
            await self._commit_and_send(entries, sends)
            return
        with self._marks.commit(start):
            await self._commit_and_send(entries, sends)
        self._marks.finish(end)

    async def _commit_and_send(self, entries: list[Entry], sends: list[bytes]) -> None:
        if entries:
            await self.commit(entries)
        elif sends:
            await self.check_ownership()
        self._send(sends)

    def _send(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if self._outbox is not None:
                self._outbox.send(line)


def _storable(entry: Entry, session: str) -> Entry:
    """The entry, or where the log cannot take it a notice of what it was."""
    try:
        prepare(Commit(session, [entry]), timestamps.now())
    except errors.BadInput as problem:
        if not isinstance(entry, NewEvent):
            raise
        text = f"a {entry.kind} event that the log cannot take: {problem.message}"
        return NewEvent("notice", {"text": text, "code": "unstorable"}, entry.at)
    return entry
