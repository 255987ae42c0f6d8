"""How are OpenCode's sessions found, read and inspected?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from holdfast.agents.opencode.database import DAMAGE, OpenCodeDatabase, OpenCodeSession, UnknownOpenCodeSchema
from holdfast.agents.opencode.events import OpenCodeConversation
from holdfast.errors import StoreBusy
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.transcripts.reader import (
    Inspection,
    SessionRef,
    TranscriptProblem,
    TranscriptReader,
    home_folder,
    is_same_folder,
)
from holdfast.transcripts.session_rows import SessionRows, SessionTable
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, SqliteSnapshot, quick_check

NAME = "opencode.db"


def root(env: Mapping[str, str]) -> str:
    """As in OpenCode 1.18: `OPENCODE_DB`, absolute or in its data folder; else that folder."""
    data = env.get("XDG_DATA_HOME") or os.path.join(home_folder(env), ".local", "share")
    data = os.path.join(data, "opencode")
    named = env.get("OPENCODE_DB")
    return os.path.join(data, named) if named and named != ":memory:" else data


def databases(root: str) -> list[str]:
    """The databases at a file, in its data folder, or in a folder around that.

    A build of another release channel has a database of its own beside the usual one.
    """
    if os.path.isfile(root):
        return [] if root.endswith(("-wal", "-shm", "-journal")) else [root]
    for folder in (root, os.path.join(root, "opencode"), os.path.join(root, ".local", "share", "opencode")):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        paths = [name for name in names if name.startswith("opencode-") and name.endswith(".db")]
        paths = [NAME, *paths] if NAME in names else paths
        if paths:
            return [os.path.join(folder, name) for name in paths]
    return []


# --- The rows of a session and of its subagents' sessions; never a secret

# A session and those of its subagents, which OpenCode deletes together.
MINE = "select ?1 union select session.id from session join mine on session.parent_id = mine.id"

TABLES = (
    SessionTable("session", ("id",), "id"),
    SessionTable("message", ("id",), "session_id"),
    SessionTable("part", ("id",), "session_id"),
    SessionTable("session_message", ("id",), "session_id", under="session"),
    SessionTable(
        "project",
        ("id",),
        under="session",
        where="id in (select project_id from session where id in mine)",
    ),
    SessionTable("event_sequence", ("aggregate_id",), "aggregate_id", under="session"),
    SessionTable("event", ("id",), "aggregate_id", under="event_sequence"),
    SessionTable("session_input", ("id",), "session_id", under="session"),
    SessionTable("session_context_epoch", ("session_id",), "session_id", under="session"),
    SessionTable("todo", ("session_id", "position"), "session_id", under="session"),
)


# --- The reader

CHECKED = 512 * 1024 * 1024  # bytes up to which a database is checked page by page


class OpenCodeReader(TranscriptReader):
    """The sessions in OpenCode's database."""

    agent = "opencode"

    def __init__(self) -> None:
        self._kept = SnapshotCache()

    def root(self, env: Mapping[str, str]) -> str:
        """Its data folder, or the database that `OPENCODE_DB` names."""
        return root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The session with this id; or all in the database or folder at this path, or of this cwd.

        An unreadable database may hold any id; `inspect` reports the damage.
        """
        if not os.path.exists(name):
            return [ref for path in databases(root) for ref in self._one(path, name)]
        if paths := databases(name):
            return [ref for path in paths for ref in self._in(path, unreadable=True)]
        return list(self.sessions(root, name))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions except subagents', or those of one cwd."""
        for path in databases(root):
            for ref in self._in(path):
                if cwd is None or is_same_folder(ref.cwd, cwd):
                    yield ref

    def events(self, ref: SessionRef) -> Iterator[NewEvent]:
        """The events of its messages, in order; the sessions of its subagents are not part of it."""
        conversation = OpenCodeConversation(self.agent, OpenCodeSession(id=ref.native_id))
        try:
            copy = self._kept.copy(ref.path)
            with OpenCodeDatabase(copy.path) as store:
                conversation = OpenCodeConversation(
                    self.agent, store.session(ref.native_id) or OpenCodeSession(id=ref.native_id)
                )
                for message in store.messages(ref.native_id):
                    yield from conversation.on_message(message, store.parts(message.id) if message.id else ())
        except (*DAMAGE, OSError, UnknownOpenCodeSchema, StoreBusy) as problem:
            body = {"text": _words(problem), "code": _problem(problem).code, "path": ref.path}
            yield NewEvent("notice", body)
        yield from conversation.end()

    def inspect(self, ref: SessionRef) -> Inspection:
        """Whether OpenCode can resume it as it is."""
        conversation = OpenCodeConversation(self.agent, OpenCodeSession(id=ref.native_id))
        problems: list[TranscriptProblem] = []
        session: OpenCodeSession | None = None
        try:
            copy = self._kept.copy(ref.path)
            with OpenCodeDatabase(copy.path) as store:
                session = store.session(ref.native_id)
                conversation = OpenCodeConversation(self.agent, session or OpenCodeSession(id=ref.native_id))
                for message in store.messages(ref.native_id):
                    for _ in conversation.on_message(message, store.parts(message.id) if message.id else ()):
                        pass
                conversation.end()
                problems = _problems(conversation, session, store, _check(copy, store))
        except (*DAMAGE, OSError, UnknownOpenCodeSchema, StoreBusy) as problem:
            problems = [_problem(problem)]
        return self.inspection(
            ref,
            problems,
            dangling=conversation.turns.dangling,
            turns=conversation.turns.count,
            last_complete=conversation.turns.last_complete,
            title=session.title if session else None,
            cwd=session.directory if session else None,
        )

    def files(self, ref: SessionRef) -> list[str]:
        """None: the database holds all sessions of all projects, and secrets."""
        return []

    def database(self, ref: SessionRef) -> str | None:
        """The database that the session was found in."""
        return ref.path

    def session_rows(self, database: str, native_id: str) -> SessionRows:
        """The session's rows and those of its subagents."""
        return SessionRows(database, native_id, TABLES, MINE, self._kept)

    def owners(self, root: str, ref: SessionRef) -> list[int]:
        """OpenCode has no lock: processes that were started for this session."""
        return open_files.named("opencode", ref.native_id)

    def _one(self, path: str, id: str) -> Iterator[SessionRef]:
        try:
            with OpenCodeDatabase(self._kept.copy(path).path) as store:
                session = store.session(id)
        except (*DAMAGE, UnknownOpenCodeSchema):
            yield SessionRef(agent=self.agent, native_id=id, path=path)
        except (OSError, StoreBusy):
            return
        else:
            if session is not None:
                yield self._session_ref(path, session)

    def _in(self, path: str, unreadable: bool = False) -> Iterator[SessionRef]:
        try:
            with OpenCodeDatabase(self._kept.copy(path).path) as store:
                sessions = [session for session in store.sessions() if session.id]
        except (*DAMAGE, UnknownOpenCodeSchema):
            if unreadable:
                yield SessionRef(agent=self.agent, native_id=os.path.basename(path), path=path)
            return
        except (OSError, StoreBusy):
            return
        yield from (self._session_ref(path, session) for session in sessions if session.parent is None)

    def _session_ref(self, path: str, session: OpenCodeSession) -> SessionRef:
        return SessionRef(
            agent=self.agent,
            native_id=session.id,
            path=path,
            cwd=session.directory,
            title=session.title,
            updated_at=session.updated_at,
        )


def _check(copy: SqliteSnapshot, store: OpenCodeDatabase) -> list[str]:
    if os.path.getsize(copy.path) > CHECKED:
        return []
    return quick_check(store.db)


def _problems(
    conversation: OpenCodeConversation,
    session: OpenCodeSession | None,
    store: OpenCodeDatabase,
    broken: list[str],
) -> list[TranscriptProblem]:
    problems = []
    if damage := [*store.damage, *broken]:
        text = "its database is damaged, and OpenCode may refuse it"
        problems.append(TranscriptProblem("store_damaged", text, {"damage": damage[:20]}))
    elif conversation.unreadable:
        text = f"{conversation.unreadable} of its records cannot be read"
        problems.append(TranscriptProblem("bad_line", text, {"count": conversation.unreadable}))
    if session is None:
        if not damage:
            problems.append(TranscriptProblem("no_transcript", "the database has no such session"))
        return problems
    sequence = store.sequence(session.id)
    if sequence is not None and sequence[0] != sequence[2] + 1:
        text = "event numbers have a gap: events are missing"
        count, first, last = sequence
        problems.append(
            TranscriptProblem("ordinal_gap", text, {"count": count, "first": first, "last": last})
        )
    if not conversation.turns.count and (later := store.other_messages(session.id)):
        text = f"its {later} messages are in an unknown table"
        return [*problems, TranscriptProblem("schema_unknown", text, {"table": "session_message"})]
    return problems + conversation.turns.problems()


def _problem(problem: Exception) -> TranscriptProblem:
    if isinstance(problem, FileNotFoundError):
        return TranscriptProblem("missing_store", "its database does not exist")
    if isinstance(problem, UnknownOpenCodeSchema):
        return TranscriptProblem("schema_unknown", str(problem))
    if isinstance(problem, StoreBusy):
        return TranscriptProblem("store_busy", problem.message)
    return TranscriptProblem("store_damaged", f"its database cannot be read: {_words(problem)}")


def _words(problem: Exception) -> str:
    return " ".join(str(problem).split())
