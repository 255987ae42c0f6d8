"""What each store implements: writes and reads on its database, a change listener, and mirrors."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from holdfast import timestamps
from holdfast.model import changes as c
from holdfast.model.commit import Commit, prepare
from holdfast.model.session import Session
from holdfast.model.token import TokenRules
from holdfast.node import Node
from holdfast.store import reads, rows, writes
from holdfast.store.mirror.files import MirrorFiles
from holdfast.store.sql import Sql
from holdfast.store.writes import WriteResult

T = TypeVar("T")
Shaped = TypeVar("Shaped")

# The store prints nothing unless the program that uses it configures logging.
logging.getLogger("holdfast").addHandler(logging.NullHandler())


class OperationResult(NamedTuple):
    """The value of an operation for its caller, and the sessions that it added records to."""

    value: Any
    session: str | None = None
    more: tuple[str, ...] = ()  # further sessions

    @property
    def touched(self) -> tuple[str, ...]:
        """All sessions that got records."""
        return self.more if self.session is None else (self.session, *self.more)


Operation = Callable[[Sql], Awaitable[OperationResult]]


class ChangeListener(ABC):
    """Tells when something may have been committed."""

    async def __aenter__(self) -> ChangeListener:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @abstractmethod
    def clear(self) -> None:
        """Forget earlier commits."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait for a commit, or until it is time to look anyway."""


class Backend(ABC):
    """The part of a store that differs between databases, and the two writes that all calls use."""

    def __init__(self, rules: TokenRules, files: MirrorFiles | None):
        self._rules = rules
        self._files = files
        self.node: Node | None = None

    @abstractmethod
    async def transact(self, operation: Operation) -> Any:
        """Run an operation in a transaction, perhaps with others. Returns when it is durable."""

    @abstractmethod
    async def query(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Answer a question from one consistent state."""

    async def query_long(
        self, question: Callable[[Sql], Awaitable[T]], shape: Callable[[T], Shaped]
    ) -> Shaped:
        """Answer a question with a long result, and decode it, without blocking the event loop."""
        answer = await self.query(question)
        return await asyncio.to_thread(shape, answer)

    @abstractmethod
    def listen(self) -> ChangeListener:
        """A listener for everything that is committed after this call."""

    @abstractmethod
    async def with_mirrors(self, work: Callable[[MirrorFiles], T]) -> T | None:
        """Run `work` with the mirrors up to date and locked. None if this store has no mirrors."""

    @abstractmethod
    async def close(self) -> None:
        """Finish the accepted work and close everything."""

    async def _write(self, commit: Commit) -> WriteResult:
        written: WriteResult = await self.transact(self._writing(commit))
        return written

    def _writing(self, commit: Commit) -> Operation:
        prepared = prepare(commit, timestamps.now())

        async def operation(sql: Sql) -> OperationResult:
            written = await writes.write(sql, commit, prepared, self._rules)
            return OperationResult(written, commit.session)

        return operation

    async def _change_session(self, session: str, change: c.Change) -> Session:
        commit = Commit(session, [change])
        prepared = prepare(commit, timestamps.now())

        async def operation(sql: Sql) -> OperationResult:
            await writes.write(sql, commit, prepared, self._rules)
            return OperationResult(await reads.session(sql, session), session)

        return rows.as_session(await self.transact(operation))
