"""How does Holdfast read the sessions that an agent keeps in its own store? Through a `TranscriptReader`.

A reader only reads: it changes no file and no timestamp. An agent's *root* is the folder (or database) that
holds its sessions. `--in PATH` names another one.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from holdfast.model.event import NewEvent
from holdfast.model.session import Worktree
from holdfast.process import open_files

if TYPE_CHECKING:
    from holdfast.transcripts.session_rows import SessionRows

# Problems of a last turn that ended, only not well. Nothing is lost and nothing runs twice on a resume.
HARMLESS = frozenset({"ended_in_api_error", "interrupted_on_purpose", "unknown_outcome"})


class SessionRef(msgspec.Struct, frozen=True, kw_only=True):
    """One native session and where it is stored."""

    agent: str
    native_id: str
    path: str  # its transcript; for a store of many sessions, the database
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None  # in the format of `timestamps`
    form: str = ""  # which of the agent's formats this is, if it has several
    worktree: Worktree | None = None  # the git worktree that was created for it, if its store names one


class TranscriptProblem(msgspec.Struct, frozen=True):
    """Something wrong with a stored session: a code, a sentence, and the evidence."""

    code: str
    text: str
    evidence: dict[str, Any] = {}


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a stored session is sound, and how far it got."""

    agent: str
    native_id: str
    path: str | None
    sound: bool  # a resume loses nothing and repeats nothing
    problems: list[TranscriptProblem] = []
    dangling: list[dict[str, Any]] = []  # {"call", "name", "input"} of calls without a result
    turns: int = 0  # prompts that began a turn
    last_complete: int | None = None  # the last turn (from 1) that ended with no open call
    title: str | None = None
    cwd: str | None = None


class TranscriptReader(ABC):
    """Reads one agent's own store.

    A subclass must define `agent`, `sessions`, `events` and `inspect`, and either `root_folder` or `root`.
    Everything else has a default that fits one file per session.
    """

    agent: ClassVar[str]
    missing: ClassVar[str] = "no_transcript"  # the problem code of a session that does not exist
    not_backed_up: ClassVar[str] = ""  # why stores are never copied, in one sentence; empty: they are
    harmless: ClassVar[frozenset[str]] = frozenset()  # problem codes that leave a session sound
    root_variable: ClassVar[str] = ""  # the environment variable that names the root
    root_folder: ClassVar[str] = ""  # the root below the user's home, without that variable

    def root(self, env: Mapping[str, str]) -> str:
        """The agent's root for a user with this environment."""
        return env.get(self.root_variable) or os.path.join(home_folder(env), self.root_folder)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions that a native id or a path can mean: none, one, or several candidates."""
        if os.path.isfile(name):
            return self.at_file(os.path.abspath(name))
        if os.path.isdir(name):
            return list(self.sessions(name))
        return self.with_id(root, name)

    def at_file(self, path: str) -> list[SessionRef]:
        """The sessions in the file at an absolute path."""
        return [ref for ref in self.sessions(os.path.dirname(path)) if ref.path == path]

    def with_id(self, root: str, native_id: str) -> list[SessionRef]:
        """The sessions with this native id."""
        return [ref for ref in self.sessions(root) if ref.native_id == native_id]

    @abstractmethod
    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions, or those of one cwd. A damaged file does not hide the others."""

    @abstractmethod
    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """The history in logical order, as the runner would have written it, in constant memory.

        An unreadable part becomes a `notice` where it stands. A call without a result ends with a
        `tool_summary` whose outcome is `interrupted`.
        """

    @abstractmethod
    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether the stored session is sound, judged by the store alone."""

    def files(self, ref: SessionRef) -> list[str]:
        """The files that belong to this session alone. These are backed up."""
        return [ref.path] if os.path.isfile(ref.path) else []

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """The pids of living processes that have this session open."""
        return open_files.writers(ref.path)

    def tools(self, root: str, ref: SessionRef) -> list[int]:
        """The pids of living processes that this session's agent started as tools.

        By default: processes in the session's folder that run the command of a call without a result.
        """
        inspection = self.inspect(ref)
        return open_files.commands(inspection.dangling, inspection.cwd)

    def wording(self, kind: str, body: dict[str, Any]) -> tuple[str, ...] | None:
        """A comparison key for agents whose stream and store word an event differently and share no ids.

        None: the usual comparison applies.
        """
        return None

    def database(self, ref: SessionRef) -> str | None:
        """The database that holds this session's rows next to other sessions' rows, if there is one."""
        return None

    def session_rows(self, database: str, native_id: str) -> SessionRows:
        """The session's rows in that database."""
        raise NotImplementedError(f"{self.agent} keeps no rows of several sessions in one database")

    def is_sound(self, problems: Sequence[TranscriptProblem]) -> bool:
        """Whether a resume loses nothing and repeats nothing in spite of these problems."""
        return all(problem.code in self.harmless for problem in problems)

    def inspection(
        self,
        ref: SessionRef,
        problems: Sequence[TranscriptProblem],
        *,
        dangling: Sequence[dict[str, Any]] = (),
        turns: int = 0,
        last_complete: int | None = None,
        title: str | None = None,
        cwd: str | None = None,
    ) -> Inspection:
        """The result of `inspect`; title and cwd are the reference's unless the store knows better."""
        return Inspection(
            agent=self.agent,
            native_id=ref.native_id,
            path=ref.path,
            sound=self.is_sound(problems),
            problems=list(problems),
            dangling=list(dangling),
            turns=turns,
            last_complete=last_complete,
            title=title or ref.title,
            cwd=cwd or ref.cwd,
        )


def home_folder(env: Mapping[str, str]) -> str:
    """The home of a user with this environment."""
    return env.get("HOME") or os.path.expanduser("~")


def is_same_folder(one: str | None, other: str) -> bool:
    """Whether two paths name the same folder."""
    if one is None:
        return False
    return os.path.normpath(one) == os.path.normpath(other) or os.path.realpath(one) == os.path.realpath(
        other
    )
