"""The interface to a database connection: statements by name. Each store implements it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from holdfast.model.commit import Draft
    from holdfast.store.rows import Loaded

Row = tuple[Any, ...]


class Sql(Protocol):
    """One connection inside one transaction, or one consistent read.

    The methods are coroutines so that both stores share the code on top; those of SQLite never
    suspend (see `store/sync_await.py`).
    """

    async def rows(self, name: str, /, *, budget: int | None = None, **parameters: Any) -> list[Row]:
        """All rows. With a budget, stop after the row whose last column exceeds that many characters."""
        ...

    async def dicts(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        """All rows by column name."""
        ...

    async def run(self, name: str, /, **parameters: Any) -> int:
        """Run a statement. Returns the number of changed rows."""
        ...

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        """Run a statement for each row, with its values in the order of the statement.

        A store may delay it within the transaction until the next read.
        """
        ...

    async def reserve(self, count: int) -> int:
        """The last id in the log of all sessions; the next `count` ids belong to the caller."""
        ...

    async def known_origins(self, n: int, head: int, origins: set[str]) -> set[str]:
        """Those of `origins` that are already in session `n`, whose last record is `head`."""
        ...

    def note_origins(self, n: int, head: int, drafts: Sequence[Draft]) -> None:
        """These drafts were added after record `head`: their origins are now known."""
        ...

    def recall(self, session: str) -> Loaded | None:
        """The cached session after an earlier commit, unless another process wrote since."""
        ...

    def remember(self, session: str, loaded: Loaded | None) -> None:
        """Cache a session for the next commit. None: drop it."""
        ...

    def forget(self) -> None:
        """Clear the cache, after a write that does not go through `remember`."""
        ...
