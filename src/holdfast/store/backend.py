"""What a store must bring of its own: a write and a read on its database, an ear, and its mirrors."""

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

# Nothing is printed unless the program that uses the store asks for it.
logging.getLogger("holdfast").addHandler(logging.NullHandler())


class OperationResult(NamedTuple):
    """What an operation gives its caller, and the sessions that it added records to."""

    value: Any
    session: str | None = None
    more: tuple[str, ...] = ()  # where it is more than one

    @property
    def touched(self) -> tuple[str, ...]:
        """All of them."""
        return self.more if self.session is None else (self.session, *self.more)


Operation = Callable[[Sql], Awaitable[OperationResult]]


class ChangeListener(ABC):
    """An ear for news: set whenever something may have been committed."""

    async def __aenter__(self) -> ChangeListener:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @abstractmethod
    def clear(self) -> None:
        """Forget what was heard."""

    @abstractmethod
    async def wait(self) -> None:
        """Until something is heard, or it is time to look anyway."""


class Backend(ABC):
    """The part of a store that differs between databases, and the two writes that all calls are made of."""

    def __init__(self, rules: TokenRules, files: MirrorFiles | None):
        self._rules = rules
        self._files = files
        self.node: Node | None = None

    @abstractmethod
    async def transact(self, operation: Operation) -> Any:
        """Run an operation in a transaction, maybe with others; answer when it is durable."""

    @abstractmethod
    async def query(self, question: Callable[[Sql], Awaitable[T]]) -> T:
        """Ask something of one consistent state."""

    async def query_long(
        self, question: Callable[[Sql], Awaitable[T]], shape: Callable[[T], Shaped]
    ) -> Shaped:
        """Ask for what can exceed a page, and decode it, without holding up the event loop."""
        found = await self.query(question)
        return await asyncio.to_thread(shape, found)

    @abstractmethod
    def listen(self) -> ChangeListener:
        """An ear for news; hears everything committed after this call."""

    @abstractmethod
    async def with_mirrors(self, work: Callable[[MirrorFiles], T]) -> T | None:
        """Run `work` with the mirrors level and locked; None where this store keeps no mirrors."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was handed in and let go of everything."""

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
