"""`Store`: every call of the SQLite and PostgreSQL stores. One test suite runs on both.

When a call returns, its records are on disk. A call that raises `Refused` or `BadInput` has changed
nothing. No call shortens or rewrites a log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Unpack

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.session import Deletion, Header, Link, Session, Worktree
from holdfast.model.token import ResumeTarget, Token, current, route
from holdfast.store import json_views, reads
from holdfast.store import rows as tables
from holdfast.store.backend import Operation
from holdfast.store.feed_calls import FeedCalls
from holdfast.store.mirror.files import remove_tombstone, write_tombstone
from holdfast.store.notification_calls import NotificationCalls
from holdfast.store.sql import Row, Sql
from holdfast.store.task_calls import TaskCalls
from holdfast.store.types import (
    CommitResult,
    Count,
    PendingPermission,
    SessionPage,
    StoreOverview,
)
from holdfast.store.writes import WriteResult

REFUSALS = (errors.Refused, errors.BadInput, errors.NotFound)


class Store(TaskCalls, FeedCalls, NotificationCalls):
    """The log of all sessions, its views, and the feed of their changes."""

    # --- the log

    async def commit(self, commit: Commit) -> CommitResult:
        """Add events and changes with their spool offset to a session's log, all or nothing.

        An event with a known origin is dropped and counted. With a generation, the commit is refused
        unless the task is still active in that generation.
        """
        return await self._committed(self._checked(commit))

    async def commit_all(self, commits: Sequence[Commit]) -> list[CommitResult | errors.HoldfastError]:
        """Several commits in as few transactions as possible; each one succeeds or is refused alone."""
        # All are prepared before the first is submitted: the writer takes what is in its queue.
        operations = [self._or_refusal(commit) for commit in commits]
        return list(await asyncio.gather(*[self._answer(operation) for operation in operations]))

    def _or_refusal(self, commit: Commit) -> Operation | errors.HoldfastError:
        try:
            return self._checked(commit)
        except REFUSALS as refusal:
            return refusal

    async def _answer(
        self, operation: Operation | errors.HoldfastError
    ) -> CommitResult | errors.HoldfastError:
        if isinstance(operation, errors.HoldfastError):
            return operation
        try:
            return await self._committed(operation)
        except REFUSALS as refusal:
            return refusal

    def _checked(self, commit: Commit) -> Operation:
        if any(isinstance(entry, c.ClaimTask) for entry in commit.entries):
            raise errors.BadInput("use the claim call to claim a task: it checks what else is running")
        return self._writing(commit)

    async def _committed(self, operation: Operation) -> CommitResult:
        written: WriteResult = await self.transact(operation)
        return CommitResult(written.seqs, written.dropped, written.unchanged)

    async def events(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[Event]:
        """Records after a seq, in order. An empty list is the end."""
        return await self.query_long(lambda sql: reads.log(sql, session, after, limit), tables.as_events)

    async def event_lines(self, session: str, after: int = 0, limit: int = reads.PAGE) -> list[str]:
        """The same as JSON lines of the wire format, with bodies as stored."""
        return await self.query_long(lambda sql: reads.log(sql, session, after, limit), _as_lines)

    # --- sessions

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
        """Create a live session. KeyTaken if another live one has the key."""
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
        """The id of the session that an id, the unique beginning of an id, or a key names."""
        return await self.query(lambda sql: reads.resolve(sql, name))

    async def session(self, session: str) -> Session:
        """The header of a session, deleted or not."""
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
        """Headers, the latest first. `state`: live, archived, deleted, present (not deleted) or all.

        `status`: of the last task.
        """
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
            lambda page: ([tables.listed_session(view) for view in page[0]], page[1]),
        )
        return SessionPage(views, next_page)

    async def headers(
        self, *, before: str | None = None, limit: int = 50, **filters: Unpack[reads.Filters]
    ) -> tuple[list[Header], str | None]:
        """A page like that of `sessions`, without metadata: for long lists."""

        async def question(sql: Sql) -> tuple[list[Row], str | None]:
            return await reads.headers(sql, before=before, limit=limit, **filters)

        # These two filters read every session; the others read one page by an index.
        if filters.get("text") or filters.get("status"):
            return await self.query_long(question, _as_headers)
        return _as_headers(await self.query(question))

    async def key_holder(self, key: str) -> str | None:
        """The live session with the key, if there is one."""
        return await self.query(lambda sql: reads.key_holder(sql, key))

    async def patch_metadata(self, session: str, patch: dict[str, Any], version: int) -> Session:
        """Apply a JSON merge patch to the metadata. VersionMismatch has the current value."""
        return await self._change_session(session, c.PatchMetadata(patch=patch, version=version))

    async def describe(self, session: str, **values: Any) -> Session:
        """Set title, cwd, worktree, link or key. The others stay."""
        return await self._change_session(session, c.Describe(**values))

    async def archive(self, session: str, by: str, reason: str) -> Session:
        """Archive a session with a note. Its key becomes free; its tokens and queued prompts stay."""
        return await self._change_session(session, c.Archive(by=by, reason=reason))

    async def unarchive(self, session: str, by: str) -> Session:
        """Unarchive a session. KeyTaken if another live session has its key."""
        return await self._change_session(session, c.Unarchive(by=by))

    async def delete(self, session: str, by: str, reason: str) -> Session:
        """Write the tombstone, then move the session to the trash. SessionRunning while a task runs."""
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
        await self.with_mirrors(lambda files: files.move_to_trash(session))
        return header

    async def restore(self, session: str, by: str) -> Session:
        """Restore a deleted session from the trash."""
        header = await self.session(session)
        if header.deletion is None:
            return header
        await self.with_mirrors(lambda files: files.restore_from_trash(session))
        try:
            change = c.Restore(by=by, undoes=header.deletion.id)
            header = await self._change_session(session, change)
        except (errors.Refused, errors.BadInput):
            await self.with_mirrors(lambda files: files.move_to_trash(session))
            raise
        await self.with_mirrors(lambda files: remove_tombstone(files, session))
        return header

    # --- tokens

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
        """Record the agent's id. A new one becomes current; the current one changes nothing (False)."""
        change = c.SeeToken(agent=agent, native_id=native_id, protocol=protocol, seen_in=seen_in)
        return not (await self._write(Commit(session, [change], task=task))).unchanged

    async def revoke_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """Mark a token as not resumable. It stays in the lineage."""
        change = c.RevokeToken(agent=agent, native_id=native_id, reason=reason)
        await self._write(Commit(session, [change]))

    async def reinstate_token(self, session: str, agent: str, native_id: str, reason: str) -> None:
        """Undo a revocation."""
        change = c.ReinstateToken(agent=agent, native_id=native_id, reason=reason)
        await self._write(Commit(session, [change]))

    async def tokens(self, session: str) -> list[Token]:
        """The lineage, oldest first."""
        rows = await self.query(lambda sql: reads.tokens(sql, session))
        return [tables.as_token(row) for row in rows]

    async def sessions_of_token(self, agent: str, native_id: str) -> list[str]:
        """All sessions that have or had the token."""

        async def question(sql: Sql) -> list[Row]:
            if not (reads.is_text(agent) and reads.is_text(native_id)):
                return []
            return await sql.rows("token_sessions", agent=agent, native_id=native_id)

        return [session for (session,) in await self.query(question)]

    async def resume_target(self, session: str) -> ResumeTarget:
        """What a launcher needs to resume. NoToken if there is nothing to resume."""

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

    # --- the whole store

    async def overview(self, since: str, limit: int = 100) -> StoreOverview:
        """Counts of everything, with the tasks that ended since a time by day."""

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
                [tables.listed_task(json_views.listed_task_view(row)) for row in rows],
                waiting,
            )

        return await self.query_long(question, lambda overview: overview)

    async def asked(self) -> list[PendingPermission]:
        """The permissions of running tasks that wait for an answer."""
        return await self.query_long(reads.asked, lambda rows: [PendingPermission(**row) for row in rows])

    async def mark(self) -> object | None:
        """A value that changes with every commit of any process. None if the store cannot know."""
        return None

    async def native_ids(self, agent: str) -> set[str]:
        """The agent's own ids of all conversations in this store."""

        async def question(sql: Sql) -> list[Row]:
            return await sql.rows("token_ids", agent=agent)

        return await self.query_long(question, lambda rows: {native_id for (native_id,) in rows})


def _as_headers(page: tuple[list[Row], str | None]) -> tuple[list[Header], str | None]:
    rows, following = page
    return [tables.as_header(row) for row in rows], following


def _as_lines(rows: list[Row]) -> list[str]:
    return [json_views.event_json(row) for row in rows]
