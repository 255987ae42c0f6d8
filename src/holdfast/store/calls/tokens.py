"""Calls on tokens."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.model import change as c
from holdfast.model.commit import Commit
from holdfast.model.token import ResumeTarget, Token, current, route
from holdfast.store import reads, tables
from holdfast.store.engine import Engine
from holdfast.store.sql import Row, Sql


class TokenCalls(Engine):
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
