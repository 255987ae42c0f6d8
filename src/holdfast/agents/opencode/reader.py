"""OpenCode's sessions: found, read and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from holdfast.agents.opencode.database import DAMAGE, OpenCodeDatabase, OpenCodeSession, UnknownOpenCodeSchema
from holdfast.agents.opencode.events import OpenCodeConversation
from holdfast.errors import StoreBusy
from holdfast.model.event import NewEvent
from holdfast.process import open_files
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem
from holdfast.transcripts.row_backups import SessionRows, SessionTable
from holdfast.transcripts.sqlite_snapshot import SnapshotCache, SqliteSnapshot, quick_check

NAME = "opencode.db"


def root(env: Mapping[str, str]) -> str:
    """As OpenCode 1.18 finds it: `OPENCODE_DB`, absolute or in its data folder; else that folder."""
    home = env.get("HOME") or os.path.expanduser("~")
    data = os.path.join(env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "opencode")
    named = env.get("OPENCODE_DB")
    return os.path.join(data, named) if named and named != ":memory:" else data


def databases(root: str) -> list[str]:
    """The databases meant by a file, its data folder, or a folder that this is in.

    A build of another channel than the release has a database of its own beside the usual one.
    """
    if os.path.isfile(root):
        return [] if root.endswith(("-wal", "-shm", "-journal")) else [root]
    for folder in (root, os.path.join(root, "opencode"), os.path.join(root, ".local", "share", "opencode")):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        found = [name for name in names if name.startswith("opencode-") and name.endswith(".db")]
        found = [NAME, *found] if NAME in names else found
        if found:
            return [os.path.join(folder, name) for name in found]
    return []


def is_same(one: str, other: str) -> bool:
    """Whether two paths name one folder."""
    return os.path.normpath(one) == os.path.normpath(other) or os.path.realpath(one) == os.path.realpath(
        other
    )


# --- What of OpenCode's database belongs to a session: it and its subagents' sessions, never a secret.

# A session and those of its subagents, which OpenCode deletes with it.
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


# --- OpenCode's sessions: found, read and judged.

CHECKED = 512 * 1024 * 1024  # bytes up to which a database is checked page by page


class OpenCodeReader:
    """The sessions in OpenCode's database."""

    agent = "opencode"
    missing = "no_transcript"

    def __init__(self) -> None:
        self._kept = SnapshotCache()

    def root(self, env: Mapping[str, str]) -> str:
        """The folder of its data, or the database that `OPENCODE_DB` names."""
        return root(env)

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The session with that id; or all in the database or folder at that path, or of that cwd.

        In a database that cannot be read any id may be: that is for `inspect` to say.
        """
        if not os.path.exists(name):
            return [place for path in databases(root) for place in self._one(path, name)]
        if found := databases(name):
            return [place for path in found for place in self._in(path, unreadable=True)]
        return list(self.sessions(root, name))

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions but those of subagents, or those of one cwd."""
        for path in databases(root):
            for place in self._in(path):
                if cwd is None or (place.cwd is not None and is_same(place.cwd, cwd)):
                    yield place

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """What its messages tell, in their order; the sessions of its subagents are not part of it."""
        fold = OpenCodeConversation(self.agent, OpenCodeSession(id=place.native_id))
        try:
            copy = self._kept.copy(place.path)
            with OpenCodeDatabase(copy.path) as store:
                fold = OpenCodeConversation(
                    self.agent, store.session(place.native_id) or OpenCodeSession(id=place.native_id)
                )
                for message in store.messages(place.native_id):
                    yield from fold.take(message, store.parts(message.id) if message.id else ())
        except (*DAMAGE, OSError, UnknownOpenCodeSchema, StoreBusy) as problem:
            body = {"text": _words(problem), "code": _problem(problem).code, "path": place.path}
            yield NewEvent("notice", body)
        yield from fold.end()

    def inspect(self, place: SessionRef) -> Inspection:
        """Whether OpenCode could go on with it as it is."""
        fold = OpenCodeConversation(self.agent, OpenCodeSession(id=place.native_id))
        problems: list[TranscriptProblem] = []
        found: OpenCodeSession | None = None
        try:
            copy = self._kept.copy(place.path)
            with OpenCodeDatabase(copy.path) as store:
                found = store.session(place.native_id)
                fold = OpenCodeConversation(self.agent, found or OpenCodeSession(id=place.native_id))
                for message in store.messages(place.native_id):
                    for _ in fold.take(message, store.parts(message.id) if message.id else ()):
                        pass
                fold.end()
                problems = _judge(fold, found, store, _check(copy, store))
        except (*DAMAGE, OSError, UnknownOpenCodeSchema, StoreBusy) as problem:
            problems = [_problem(problem)]
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=not problems,
            problems=problems,
            dangling=fold.turns.dangling,
            turns=fold.turns.count,
            last_complete=fold.turns.last_complete,
            title=found.title if found else place.title,
            cwd=found.directory if found else place.cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """None: the database holds all sessions of all projects, and secrets."""
        return []

    def database(self, place: SessionRef) -> str | None:
        """The one it was found in."""
        return place.path

    def share(self, database: str, native_id: str) -> SessionRows:
        """Its rows and those of its subagents."""
        return SessionRows(database, native_id, TABLES, MINE, self._kept)

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """OpenCode has no lock; those who were started for this session."""
        return open_files.named("opencode", place.native_id)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """Commands of calls that have no result, still running in the session's folder."""
        seen = self.inspect(place)
        return open_files.commands(seen.dangling, seen.cwd)

    def _one(self, path: str, id: str) -> Iterator[SessionRef]:
        try:
            with OpenCodeDatabase(self._kept.copy(path).path) as store:
                found = store.session(id)
        except (*DAMAGE, UnknownOpenCodeSchema):
            yield SessionRef(agent=self.agent, native_id=id, path=path)
        except (OSError, StoreBusy):
            return
        else:
            if found is not None:
                yield self._place(path, found)

    def _in(self, path: str, unreadable: bool = False) -> Iterator[SessionRef]:
        try:
            with OpenCodeDatabase(self._kept.copy(path).path) as store:
                found = [session for session in store.sessions() if session.id]
        except (*DAMAGE, UnknownOpenCodeSchema):
            if unreadable:
                yield SessionRef(agent=self.agent, native_id=os.path.basename(path), path=path)
            return
        except (OSError, StoreBusy):
            return
        yield from (self._place(path, session) for session in found if session.parent is None)

    def _place(self, path: str, found: OpenCodeSession) -> SessionRef:
        return SessionRef(
            agent=self.agent,
            native_id=found.id,
            path=path,
            cwd=found.directory,
            title=found.title,
            updated_at=found.updated_at,
        )


def _check(copy: SqliteSnapshot, store: OpenCodeDatabase) -> list[str]:
    if os.path.getsize(copy.path) > CHECKED:
        return []
    return quick_check(store.db)


def _judge(
    fold: OpenCodeConversation, found: OpenCodeSession | None, store: OpenCodeDatabase, broken: list[str]
) -> list[TranscriptProblem]:
    problems = []
    if damage := [*store.damage, *broken]:
        text = "its database is damaged, and OpenCode may refuse it"
        problems.append(TranscriptProblem("store_damaged", text, {"damage": damage[:20]}))
    elif fold.unreadable:
        text = f"{fold.unreadable} of its records cannot be read"
        problems.append(TranscriptProblem("bad_line", text, {"count": fold.unreadable}))
    if found is None:
        if not damage:
            problems.append(TranscriptProblem("no_transcript", "the database has no such session"))
        return problems
    sequence = store.sequence(found.id)
    if sequence is not None and sequence[0] != sequence[2] + 1:
        text = "the numbers of its events have a gap: some are missing"
        count, first, last = sequence
        problems.append(
            TranscriptProblem("ordinal_gap", text, {"count": count, "first": first, "last": last})
        )
    if not fold.turns.count and (later := store.other_messages(found.id)):
        text = f"its {later} messages are in a table that is not known here"
        return [*problems, TranscriptProblem("schema_unknown", text, {"table": "session_message"})]
    return problems + fold.turns.problems()


def _problem(problem: Exception) -> TranscriptProblem:
    if isinstance(problem, FileNotFoundError):
        return TranscriptProblem("missing_store", "its database is not there")
    if isinstance(problem, UnknownOpenCodeSchema):
        return TranscriptProblem("schema_unknown", str(problem))
    if isinstance(problem, StoreBusy):
        return TranscriptProblem("store_busy", problem.message)
    return TranscriptProblem("store_damaged", f"its database cannot be read: {_words(problem)}")


def _words(problem: Exception) -> str:
    return " ".join(str(problem).split())
