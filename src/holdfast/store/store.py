"""The contract, kept by calls that need only what an `Engine` brings."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Unpack

import msgspec

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event, Origin
from holdfast.model.json_codec import decode, encode
from holdfast.model.session import Deletion, Header, Link, Session, Worktree
from holdfast.model.task import Delivery, OpenTask, Owner, QueueEntry, Status, Task
from holdfast.model.token import ResumeTarget, Token, current, route
from holdfast.store import reads, writes
from holdfast.store import rows as tables
from holdfast.store.backend import Backend, Operation, OperationResult
from holdfast.store.mirror.files import remove_tombstone, write_tombstone
from holdfast.store.sql import Row, Sql
from holdfast.store.types import (
    ChangeFeedEntry,
    ChangeFeedPage,
    CommitResult,
    Count,
    Dispatch,
    PendingPermission,
    SessionPage,
    StoreOverview,
)
from holdfast.store.writes import WriteResult


class SessionCalls(Backend):
    """Making, finding and changing sessions."""

    async def create_session(
        self,
        agent: str,
        *,
        key: str | None = None,
        cwd: str | None = None,
        host: str | None = None,
        title: str | None = None,
        worktree: Worktree | None = None,
        link: Link | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """See the contract."""
        change = c.Create(
            agent=agent,
            key=key,
            cwd=cwd,
            host=host,
            title=title,
            worktree=worktree,
            link=link,
            metadata={} if metadata is None else metadata,
        )
        return await self._change_session(ids.new(ids.SESSION), change)

    async def resolve(self, name: str) -> str:
        """See the contract."""
        return await self.query(lambda sql: reads.resolve(sql, name))

    async def session(self, session: str) -> Session:
        """See the contract."""
        return tables.as_session(await self.query(lambda sql: reads.session(sql, session)))

    async def sessions(
        self,
        *,
        state: str = "present",
        agent: str = "",
        key: str = "",
        text: str = "",
        status: str = "",
        empty: bool = False,
        before: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """See the contract."""
        views, next_page = await self.query_long(
            lambda sql: reads.sessions(
                sql,
                state=state,
                agent=agent,
                key=key,
                text=text,
                status=status,
                empty=empty,
                before=before,
                limit=limit,
            ),
            lambda found: ([tables.listed_session(view) for view in found[0]], found[1]),
        )
        return SessionPage(views, next_page)

    async def headers(
        self, *, before: str | None = None, limit: int = 50, **filters: Unpack[reads.Filters]
    ) -> tuple[list[Header], str | None]:
        """See the contract."""

        async def question(sql: Sql) -> tuple[list[Row], str | None]:
            return await reads.headers(sql, before=before, limit=limit, **filters)

        # These two filters look at every session; the rest reads one page by an index.
        if filters.get("text") or filters.get("status"):
            return await self.query_long(question, _as_headers)
        return _as_headers(await self.query(question))

    async def key_holder(self, key: str) -> str | None:
        """See the contract."""
        return await self.query(lambda sql: reads.key_holder(sql, key))

    async def patch_metadata(self, session: str, patch: dict[str, Any], version: int) -> Session:
        """See the contract."""
        return await self._change_session(session, c.PatchMetadata(patch=patch, version=version))

    async def describe(self, session: str, **given: Any) -> Session:
        """See the contract."""
        return await self._change_session(session, c.Describe(**given))

    async def archive(self, session: str, by: str, reason: str) -> Session:
        """See the contract."""
        return await self._change_session(session, c.Archive(by=by, reason=reason))

    async def unarchive(self, session: str, by: str) -> Session:
        """See the contract."""
        return await self._change_session(session, c.Unarchive(by=by))

    async def delete(self, session: str, by: str, reason: str) -> Session:
        """See the contract."""
        header = await self.session(session)
        if header.state == "deleted":
            return header
        deletion = Deletion(id=os.urandom(8).hex(), by=by, reason=reason, at=timestamps.now())
        wrote = await self.with_mirrors(lambda files: write_tombstone(files, session, deletion))
        try:
            change = c.Delete(id=deletion.id, by=by, reason=reason)
            header = await self._change_session(session, change)
        except (errors.Refused, errors.BadInput):
            if wrote:
                await self.with_mirrors(lambda files: remove_tombstone(files, session))
            raise
        await self.with_mirrors(lambda files: files.bury(session))
        return header

    async def restore(self, session: str, by: str) -> Session:
        """See the contract."""
        header = await self.session(session)
        if header.deletion is None:
            return header
        await self.with_mirrors(lambda files: files.exhume(session))
        try:
            change = c.Restore(by=by, undoes=header.deletion.id)
            header = await self._change_session(session, change)
        except (errors.Refused, errors.BadInput):
            await self.with_mirrors(lambda files: files.bury(session))
            raise
        await self.with_mirrors(lambda files: remove_tombstone(files, session))
        return header


def _as_headers(found: tuple[list[Row], str | None]) -> tuple[list[Header], str | None]:
    rows, following = found
    return [tables.as_header(row) for row in rows], following


# --- Calls on the log.

REFUSALS = (errors.Refused, errors.BadInput, errors.NotFound)


class LogCalls(Backend):
    """Adding to a log and reading it."""

    async def commit(self, commit: Commit) -> CommitResult:
        """See the contract."""
        return await self._committed(self._wanted(commit))

    async def commit_all(self, commits: Sequence[Commit]) -> list[CommitResult | errors.HoldfastError]:
        """See the contract."""
        # All are made ready before the first is handed in: the writer takes what it finds.
        ready = [self._or_refusal(commit) for commit in commits]
        return list(await asyncio.gather(*[self._answer(operation) for operation in ready]))

    def _or_refusal(self, commit: Commit) -> Operation | errors.HoldfastError:
        try:
            return self._wanted(commit)
        except REFUSALS as refusal:
            return refusal

    async def _answer(self, ready: Operation | errors.HoldfastError) -> CommitResult | errors.HoldfastError:
        if isinstance(ready, errors.HoldfastError):
            return ready
        try:
            return await self._committed(ready)
        except REFUSALS as refusal:
            return refusal

    def _wanted(self, commit: Commit) -> Operation:
        if any(isinstance(entry, c.ClaimTask) for entry in commit.entries):
            raise errors.BadInput("a task is claimed by the claim call, which looks at what else runs")
        return self._writing(commit)

    async def _committed(self, operation: Operation) -> CommitResult:
        written: WriteResult = await self.transact(operation)
        return CommitResult(written.seqs, written.dropped, written.unchanged)

    async def events(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[Event]:
        """See the contract."""
        return await self.query_long(lambda sql: reads.log(sql, session, after, limit), _as_events)

    async def event_lines(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[str]:
        """See the contract."""
        return await self.query_long(lambda sql: reads.log(sql, session, after, limit), _as_lines)


def as_event(row: Row) -> Event:
    """A log row as an event."""
    seq, kind, at, task, replayed, origin, _spool, _last, body = row
    where = None if origin is None else Origin(**decode(origin))
    return Event(seq, kind, decode(body), at, task, bool(replayed), where)


def _as_events(rows: list[Row]) -> list[Event]:
    return [as_event(row) for row in rows]


def _as_lines(rows: list[Row]) -> list[str]:
    return [reads.event_json(row) for row in rows]


# --- Calls on tasks.


def _as_tasks(views: list[dict[str, Any]]) -> list[Task]:
    return [tables.as_task(view) for view in views]


class TaskCalls(Backend):
    """The queue, and who owns what runs."""

    async def enqueue(
        self,
        session: str,
        prompt: str,
        *,
        options: dict[str, Any] | None = None,
        retry_of: str | None = None,
    ) -> Task:
        """See the contract."""
        task = ids.new(ids.TASK)
        change = c.QueueTask(prompt=prompt, options=options or {}, retry_of=retry_of)
        written = await self._write(Commit(session, [change], task=task))
        return written.view.tasks[task]

    async def resolve_task(self, name: str) -> str:
        """See the contract."""
        return await self.query(lambda sql: reads.resolve_task(sql, name))

    async def task(self, task: str) -> Task:
        """See the contract."""
        return tables.as_task(await self.query(lambda sql: reads.task(sql, task)))

    async def tasks(self, *, session: str = "", status: str = "", limit: int = reads.ALL) -> list[Task]:
        """See the contract."""
        return await self.query_long(
            lambda sql: reads.tasks(sql, session=session, status=status, limit=limit), _as_tasks
        )

    async def open_tasks(self, session: str) -> list[OpenTask]:
        """See the contract."""
        rows = await self.query(lambda sql: reads.open_tasks(sql, session))
        return [msgspec.convert(row, OpenTask) for row in rows]

    async def first_task(self, session: str) -> Task | None:
        """See the contract."""
        view = await self.query(lambda sql: reads.first_task(sql, session))
        return None if view is None else tables.as_task(view)

    async def started_tasks(self, session: str, *, but: str = "", limit: int = 1) -> list[Task]:
        """See the contract."""
        views = await self.query(lambda sql: reads.started_tasks(sql, session, but=but, limit=limit))
        return [tables.as_task(view) for view in views]

    async def first_started_task(self, session: str) -> Task | None:
        """See the contract."""
        view = await self.query(lambda sql: reads.first_started_task(sql, session))
        return None if view is None else tables.as_task(view)

    async def started_count(self, session: str) -> int:
        """See the contract."""
        return await self.query(lambda sql: reads.started_count(sql, session))

    async def has_unsuccessful(self, session: str) -> bool:
        """See the contract."""
        return await self.query(lambda sql: reads.has_unsuccessful(sql, session))

    async def redispatchable_tasks(self, key: str = "") -> list[Task]:
        """See the contract."""
        views = await self.query(lambda sql: reads.redispatchable_tasks(sql, key))
        return [tables.as_task(view) for view in views]

    async def key_has_tasks(self, key: str) -> bool:
        """See the contract."""
        return await self.query(lambda sql: reads.key_has_tasks(sql, key))

    async def delivered_tasks(self, key: str, delivery: str) -> list[Task]:
        """See the contract."""
        text = f'"delivery":{encode(delivery).decode()}'
        views = await self.query(lambda sql: reads.tasks_with_option(sql, key, text))
        found = [tables.as_task(view) for view in views]
        return [task for task in found if _delivery(task) == delivery]

    async def turns(self) -> list[QueueEntry]:
        """See the contract."""
        return await self.query_long(reads.turns, lambda rows: msgspec.convert(rows, list[QueueEntry]))

    async def unrecorded(self, host: str, code: str) -> list[str]:
        """Live sessions there whose token an unrecorded run has brought, but those told of with `code`."""
        return await self.query_long(lambda sql: reads.unrecorded(sql, host, code), list)

    async def latest_tasks(
        self, *, session: str = "", status: str = "", cwd: str = "", day: str = "", limit: int = 50
    ) -> list[Task]:
        """See the contract."""
        return await self.query_long(
            lambda sql: reads.latest_tasks(
                sql, session=session, status=status, cwd=cwd, day=day, limit=limit
            ),
            lambda views: [tables.listed_task(view) for view in views],
        )

    async def task_events(self, task: str, kinds: tuple[str, ...]) -> list[Event]:
        """See the contract."""
        return await self.query_long(lambda sql: reads.task_log(sql, task, kinds), _as_events)

    async def claim(self, task: str, generation: int, owner: Owner, lease_s: float) -> Task:
        """See the contract."""

        async def operation(sql: Sql) -> OperationResult:
            until = timestamps.stamp(time.time() + lease_s)
            claimed = await writes.claim(sql, task, generation, owner, until, self._rules)
            return OperationResult(claimed, claimed.session)

        claimed: Task = await self.transact(operation)
        return claimed

    async def claim_next(
        self,
        owner: Owner,
        lease_s: float,
        *,
        agents: frozenset[str] | None = None,
        any_host: bool = False,
    ) -> Task | None:
        """See the contract."""

        async def operation(sql: Sql) -> OperationResult:
            until = timestamps.stamp(time.time() + lease_s)
            found = await writes.claim_next(sql, owner, until, agents, any_host, self._rules)
            return OperationResult(found, found.session) if found else OperationResult(None)

        claimed: Task | None = await self.transact(operation)
        return claimed

    async def renew(self, task: str, generation: int, lease_s: float) -> None:
        """See the contract."""

        async def operation(sql: Sql) -> OperationResult:
            until = timestamps.stamp(time.time() + lease_s)
            sql.forget()
            if not ids.is_id(task, ids.TASK) or not await sql.run(
                "put_lease", id=task, generation=generation, lease_until=until
            ):
                raise errors.StaleGeneration(f"task {task} is not in generation {generation} any more")
            return OperationResult(None)

        await self.transact(operation)

    async def set_status(
        self,
        task: str,
        status: Status,
        *,
        generation: int | None = None,
        reason: str | None = None,
        outcome: dict[str, Any] | None = None,
    ) -> Task:
        """See the contract."""
        change = c.SetStatus(status=status, reason=reason, outcome=outcome)
        return await self._change_task(task, change, generation)

    async def deliver(self, task: str, delivery: Delivery, generation: int) -> Task:
        """See the contract."""
        return await self._change_task(task, c.Deliver(delivery=delivery), generation)

    async def _change_task(self, task: str, change: c.Change, generation: int | None) -> Task:
        session = (await self.task(task)).session
        commit = Commit(session, [change], task=task, generation=generation)
        return (await self._write(commit)).view.tasks[task]


def _delivery(task: Task) -> str | None:
    source = task.options.get("source")
    return source.get("delivery") if isinstance(source, dict) else None


# --- Calls on tokens.


class TokenCalls(Backend):
    """The lineage of a session's native ids."""

    async def see_token(
        self,
        session: str,
        agent: str,
        native_id: str,
        *,
        protocol: str | None = None,
        seen_in: str = "stream",
        task: str | None = None,
    ) -> bool:
        """See the contract."""
        change = c.SeeToken(agent=agent, native_id=native_id, protocol=protocol, seen_in=seen_in)
        return not (await self._write(Commit(session, [change], task=task))).unchanged

    async def revoke_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """See the contract."""
        change = c.RevokeToken(agent=agent, native_id=native_id, reason=reason)
        await self._write(Commit(session, [change]))

    async def reinstate_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """See the contract."""
        change = c.ReinstateToken(agent=agent, native_id=native_id, reason=reason)
        await self._write(Commit(session, [change]))

    async def tokens(self, session: str) -> list[Token]:
        """See the contract."""
        rows = await self.query(lambda sql: reads.tokens(sql, session))
        return [tables.as_token(row) for row in rows]

    async def sessions_of_token(self, agent: str, native_id: str) -> list[str]:
        """See the contract."""

        async def question(sql: Sql) -> list[Row]:
            if not (reads.is_text(agent) and reads.is_text(native_id)):
                return []
            return await sql.rows("token_sessions", agent=agent, native_id=native_id)

        return [session for (session,) in await self.query(question)]

    async def resume_target(self, session: str) -> ResumeTarget:
        """See the contract."""

        async def question(sql: Sql) -> tuple[dict[str, Any], list[dict[str, Any]]]:
            return await reads.session(sql, session), await reads.tokens(sql, session)

        view, rows = await self.query(question)
        header = tables.as_session(view)
        token = current([tables.as_token(row) for row in rows], header.agent)
        if token is None:
            raise errors.NoToken(f"session {session} has no current token of {header.agent}")
        return ResumeTarget(
            session=session,
            agent=token.agent,
            native_id=token.native_id,
            protocol=route(token, self._rules),
            cwd=header.cwd,
            host=header.host,
            worktree=header.worktree,
        )


# --- Calls on the change feed.


class FeedCalls(Backend):
    """News of all sessions, in commit order."""

    async def cursor(self) -> str:
        """See the contract."""
        epoch, last = await self.query(_end)
        return f"{epoch}.{last}"

    async def changes(self, after: str | None = None, limit: int = reads.PAGE) -> ChangeFeedPage:
        """See the contract."""
        return await self.query_long(_question(after, limit), _as_changes)

    async def follow(self, after: str | None = None) -> AsyncIterator[ChangeFeedPage]:
        """See the contract."""
        behind = True
        async with self.listen() as ear:
            while True:
                ear.clear()
                # A moment's news is a few records, which are read without a thread.
                found = await self.changes(after) if behind else await self._latest(after)
                after, behind = found.cursor, found.more
                if found.changes or found.gap:
                    yield found
                if not found.more:
                    await ear.wait()

    async def _latest(self, after: str | None) -> ChangeFeedPage:
        return _as_changes(await self.query(_question(after, reads.PAGE)))


def _question(after: str | None, limit: int) -> Callable[[Sql], Awaitable[_FeedRows]]:
    reads.check_limit(limit)

    async def question(sql: Sql) -> _FeedRows:
        epoch, last = await _end(sql)
        place, gap = _place(after, epoch, last)
        rows = await sql.rows("changes", budget=reads.PAGE_CHARACTERS, after=place, limit=limit)
        return _FeedRows(epoch, last, place, rows, gap)

    return question


class _FeedRows(NamedTuple):
    """What the database answers about the feed."""

    epoch: str
    last: int
    place: int
    rows: list[Row]
    gap: bool


def _as_changes(news: _FeedRows) -> ChangeFeedPage:
    epoch, rows = news.epoch, news.rows
    found = [ChangeFeedEntry(f"{epoch}.{row[0]}", row[1], as_event(row[2:])) for row in rows]
    end = rows[-1][0] if rows else news.place
    return ChangeFeedPage(found, f"{epoch}.{end}", news.gap, end < news.last)


async def _end(sql: Sql) -> tuple[str, int]:
    epoch = (await sql.rows("meta", name="epoch"))[0][0]
    return epoch, (await sql.rows("last_log"))[0][0]


def _place(cursor: str | None, epoch: str, last: int) -> tuple[int, bool]:
    """Where a cursor points, and whether it is not one of this feed's."""
    if cursor is None:
        return 0, False
    theirs, _, number = cursor.partition(".")
    if theirs != epoch or not reads.is_number(number) or int(number) > last:
        return 0, True
    return int(number), False


# --- Calls on all that a store holds.


class OverviewCalls(Backend):
    """Numbers."""

    async def overview(self, since: str, limit: int = 100) -> StoreOverview:
        """See the contract."""

        async def question(sql: Sql) -> StoreOverview:
            sessions = await sql.rows("session_counts")
            tasks = await sql.rows("task_counts")
            days = await sql.rows("task_days", since=since)
            rows = await sql.dicts("interrupted_tasks", limit=limit)
            ((waiting,),) = await sql.rows("interrupted_count")
            return StoreOverview(
                [Count(*row) for row in sessions],
                [Count(*row) for row in tasks],
                [Count(status, day, count) for day, status, count in days],
                [tables.listed_task(reads.listed_task_view(row)) for row in rows],
                waiting,
            )

        return await self.query_long(question, lambda found: found)

    async def asked(self) -> list[PendingPermission]:
        """See the contract."""
        return await self.query_long(reads.asked, lambda rows: [PendingPermission(**row) for row in rows])

    async def mark(self) -> object | None:
        """See the contract."""
        return None

    async def native_ids(self, agent: str) -> set[str]:
        """See the contract."""

        async def question(sql: Sql) -> list[Row]:
            return await sql.rows("token_ids", agent=agent)

        return await self.query_long(question, lambda rows: {native_id for (native_id,) in rows})


# --- The call that queues a judged prompt.


class DispatchCalls(Backend):
    """From a judgement into the queue."""

    async def dispatch(self, dispatch: Dispatch) -> Task:
        """See the contract."""

        async def operation(sql: Sql) -> OperationResult:
            task = await writes.dispatch(sql, dispatch, self._rules)
            old = () if dispatch.replaces is None else (dispatch.replaces.session,)
            return OperationResult(task, task.session, old)

        task: Task = await self.transact(operation)
        return task


# --- The contract, kept by calls that need only what an `Engine` brings.


class BaseStore(LogCalls, SessionCalls, TokenCalls, TaskCalls, DispatchCalls, FeedCalls, OverviewCalls):
    """Everything that `contract.py` promises."""
