"""Calls on sessions."""

from __future__ import annotations

import os
from typing import Any, Unpack

from holdfast import clock, errors, ids
from holdfast.model import change as c
from holdfast.model.session import Deletion, Header, Link, Session, Worktree
from holdfast.store import reads, tables
from holdfast.store.contract import Page
from holdfast.store.engine import Engine
from holdfast.store.mirror.tombstone import remove_tombstone, write_tombstone


class SessionCalls(Engine):
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
    ) -> Page:
        """See the contract."""
        views, next_page = await self.query(
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
            )
        )
        return Page([tables.as_session(view) for view in views], next_page)

    async def headers(
        self, *, before: str | None = None, limit: int = 50, **filters: Unpack[reads.Filters]
    ) -> tuple[list[Header], str | None]:
        """See the contract."""
        rows, following = await self.query(
            lambda sql: reads.headers(sql, before=before, limit=limit, **filters)
        )
        return [tables.as_header(row) for row in rows], following

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
        deletion = Deletion(id=os.urandom(8).hex(), by=by, reason=reason, at=clock.now())
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
