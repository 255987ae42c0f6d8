"""What a reader of an agent's own history is; it reads, and never changes anything, not even a time.

An agent's *root* is the folder (or database) where it keeps its sessions; `--in PATH` names another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from holdfast.model.event import NewEvent
from holdfast.model.session import Worktree

if TYPE_CHECKING:
    from holdfast.transcripts.row_backups import SessionRows


class SessionRef(msgspec.Struct, frozen=True, kw_only=True):
    """One native session, and where it is."""

    agent: str
    native_id: str
    path: str  # its transcript; for a store of many sessions, the database
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None  # in the one form of `clock`
    form: str = ""  # which of an agent's formats this is, where it has several
    worktree: Worktree | None = None  # the git worktree that was made for it, where its store tells


class TranscriptProblem(msgspec.Struct, frozen=True):
    """Something wrong with a stored session: a code, a sentence, and what shows it."""

    code: str
    text: str
    evidence: dict[str, Any] = {}


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a stored session is sound, and how far it has come."""

    agent: str
    native_id: str
    path: str | None
    sound: bool  # nothing that would make a resume lose or repeat something
    problems: list[TranscriptProblem] = []
    dangling: list[dict[str, Any]] = []  # {"call", "name", "input"} of calls without a result
    turns: int = 0  # prompts that began a turn
    last_complete: int | None = None  # which of these (from 1) was the last to end with no call open
    title: str | None = None
    cwd: str | None = None


class TranscriptReader(Protocol):
    """One agent's store."""

    agent: str
    missing: str  # the code of a session that is not there

    def root(self, env: Mapping[str, str]) -> str:
        """Where the agent keeps its sessions, for a user with that environment."""
        ...

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions meant by a native id or a path: none, one, or several candidates."""
        ...

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd; one odd file never stops the rest."""
        ...

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """The history in its logical order, as the runner would have written it; memory stays flat.

        What cannot be read is a `notice` in its place. A call without a result ends in a `tool_summary`
        that says `interrupted`.
        """
        ...

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether the stored session is sound, from the store alone."""
        ...

    def files(self, place: SessionRef) -> list[str]:
        """All files that are this session's alone, to be copied."""
        ...

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """The pids of living processes that hold this session, as far as the agent's own marks tell."""
        ...

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """The pids of living processes that this session's agent started as tools."""
        ...


@runtime_checkable
class HasOwnWording(Protocol):
    """A reader whose store and stream word the same things differently and have no ids in common."""

    def said(self, kind: str, body: dict[str, Any]) -> tuple[str, ...] | None:
        """What an event says, such that both say it alike; None where the usual comparison will do."""
        ...


@runtime_checkable
class HasSharedDatabase(Protocol):
    """A reader of databases that hold many sessions, of which the rows of one can be told apart."""

    def database(self, place: SessionRef) -> str | None:
        """The database that has rows of this session."""
        ...

    def share(self, database: str, native_id: str) -> SessionRows:
        """What of it is the session's."""
        ...


@runtime_checkable
class NotBackedUp(Protocol):
    """A reader of stores of which no copy is made."""

    uncopied: str  # why, in one sentence
