"""The narrow door to a database: statements by name, rows out. Each store brings one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from holdfast.model.commit import Draft
    from holdfast.store.rows import Loaded

Row = tuple[Any, ...]


class Sql(Protocol):
    """One connection inside one transaction (or one consistent read).

    The methods are coroutines so that one text of the rules serves both stores; SQLite's never
    suspend (see `store/steps.py`).
    """

    async def rows(self, name: str, /, *, budget: int | None = None, **given: Any) -> list[Row]:
        """All rows; with a budget, stop after the row whose last column spends that many characters."""
        ...

    async def dicts(self, name: str, /, **given: Any) -> list[dict[str, Any]]:
        """All rows, by column name."""
        ...

    async def run(self, name: str, /, **given: Any) -> int:
        """Run a statement; the number of rows it changed."""
        ...

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row, its values in the statement's order.

        A store may put it off within the transaction until something is read.
        """
        ...

    async def reserve(self, count: int) -> int:
        """The last place in the log of all sessions; the `count` after it are the caller's."""
        ...

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that session `n`, whose last record is `head`, has already."""
        ...

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These were just added after record `head`; their origins are known from now on."""
        ...

    def recall(self, session: str) -> Loaded | None:
        """The session as an earlier commit left it, if this store remembers and nobody wrote since."""
        ...

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Keep a session as it is now (None: forget it) for the next commit."""
        ...

    def forget(self) -> None:
        """Keep nothing: something was written that does not go through `remember`."""
        ...
