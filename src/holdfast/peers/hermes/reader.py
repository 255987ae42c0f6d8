"""The reader of Hermes's sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from holdfast.model.event import NewEvent
from holdfast.peers.hermes import database as shares
from holdfast.peers.hermes import facts as found_facts
from holdfast.peers.hermes import inspect as judge
from holdfast.peers.hermes import journal, sidecar, transcript, values
from holdfast.peers.hermes import transcript as worktree
from holdfast.peers.hermes.conversation import HermesConversation, MessageRows
from holdfast.peers.hermes.database import HermesDatabase, HermesDatabaseCache, HermesSessionRow
from holdfast.peers.hermes.events import AGENT, HermesEventBuilder
from holdfast.peers.hermes.facts import HermesFacts, read_facts
from holdfast.peers.hermes.layout import HermesLayout, session_id
from holdfast.process import identity, open_files
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem
from holdfast.transcripts.row_backups import SessionRows


class HermesReader:
    """`state.db` of hermes-agent and the sidecars of hermes-webui."""

    agent = AGENT
    missing = "no_transcript"

    def __init__(self) -> None:
        self._databases = HermesDatabaseCache()

    def root(self, env: Mapping[str, str]) -> str:
        """`$HERMES_HOME`, else `~/.hermes`."""
        return env.get("HERMES_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".hermes")

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions meant by an id, a sidecar, a backup or a database."""
        if os.sep in name or os.path.exists(name):
            return self._at(os.path.abspath(name))
        layout = HermesLayout(root)
        places: list[SessionRef] = []
        broken: list[str] = []
        for path in layout.databases():
            with self._databases.reading(path) as (db, _):
                header = db.header(name) if db is not None and db.readable else None
                if header is not None:
                    places.append(_place(layout, name, header, path))
                elif db is None or not db.readable or db.damage:
                    broken.append(path)
        if places:
            return places[:1] if len({place.path for place in places}) == 1 else places
        path_of = layout.sidecar(name)
        if path_of and (os.path.isfile(path_of) or os.path.isfile(path_of + ".bak")):
            return [_place(layout, name, None, None)]
        # It may be in a database that cannot be read: then that is what there is to say of it.
        return [SessionRef(agent=AGENT, native_id=name, path=path, form="database") for path in broken]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions that nobody deleted."""
        layout = HermesLayout(root)
        seen: set[str] = set()
        deleted = found_facts.deleted_ids(layout)
        names = set(layout.names())
        for path in layout.databases():
            with self._databases.reading(path) as (db, _):
                for header in db.headers() if db is not None and db.readable else ():
                    gone = header.id in deleted and f"{header.id}.json" not in names
                    if header.id in seen or (gone and header.word("source") in (None, "webui")):
                        continue
                    seen.add(header.id)
                    place = _place(layout, header.id, header, path)
                    if cwd is None or place.cwd == cwd:
                        yield place
        for name in sorted(names):
            own = session_id(name)
            if own is None or own in seen or (own in deleted and f"{own}.json" not in names):
                continue
            seen.add(own)
            place = _place(layout, own, None, None)
            if place.form != "foreign" and (cwd is None or place.cwd == cwd):
                yield place

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """The conversation out of both stores, each message once."""
        with self._told(place) as (facts, _, rows):
            story = HermesConversation(facts, rows)
            telling = HermesEventBuilder(place.native_id, story.results)
            yield from _events(story, telling)

    def inspect(self, place: SessionRef) -> Inspection:
        """What is wrong with it in either store, and how far it has come."""
        with self._told(place) as (facts, db, rows):
            if db is not None:
                facts.damage += self._databases.check(db)
            story = HermesConversation(facts, rows)
            telling, tally = HermesEventBuilder(place.native_id, story.results), judge.TurnProgress()
            for event in _events(story, telling):
                tally.take(event)
            tally.end()
            facts.damage += db.damage if db is not None else []
            turns = [turn for turn, _ in story.open_turns(telling.prompts)]
            problems = judge.problems(story, telling, tally, turns, time.time())
        if not facts.exists and not facts.damage:
            problems = [
                *problems,
                TranscriptProblem("no_transcript", "there is no such session", {"path": place.path}),
            ]
        return Inspection(
            agent=AGENT,
            native_id=place.native_id,
            path=place.path,
            sound=judge.is_sound(problems),
            problems=problems,
            dangling=telling.dangling,
            turns=tally.turns,
            last_complete=tally.complete,
            title=place.title,
            cwd=place.cwd,
        )

    def files(self, place: SessionRef) -> list[str]:
        """Its sidecar, backup and journals."""
        layout = HermesLayout.around(place.path)
        path = layout.sidecar(place.native_id)
        found = [path, f"{path}.bak"] if path else []
        found += layout.turn_journals(place.native_id) + layout.run_journals(place.native_id)
        return [file for file in found if os.path.isfile(file)]

    def database(self, place: SessionRef) -> str | None:
        """The first that has it."""
        for path in HermesLayout.around(place.path).databases():
            with self._databases.reading(path) as (db, _):
                if db is not None and db.readable and db.header(place.native_id) is not None:
                    return path
        return None

    def share(self, database: str, native_id: str) -> SessionRows:
        """Its rows."""
        return SessionRows(database, native_id, shares.TABLES, shares.MINE, self._databases.kept(database))

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Who wrote a turn that is not ended, or says that it is compacting the session, and lives."""
        layout = HermesLayout.around(place.path)
        pids: set[int] = set()
        for path in layout.turn_journals(place.native_id):
            shard = os.path.basename(path)[: -len(".jsonl")].rpartition("~")
            if shard[1] and any(not turn.ended for turn in journal.read_turns([path])[0]):
                pids |= _pid(shard[2])
        for path in layout.databases():
            with self._databases.reading(path) as (db, _):
                for holder in db.locks(place.native_id) if db is not None else ():
                    pids |= _pid(holder.partition(":")[0])
        return sorted(pid for pid in pids if identity.started(pid) is not None)

    def tools(self, root: str, place: SessionRef) -> list[int]:
        """Commands of calls that have no result, still running in the session's folder."""
        seen = self.inspect(place)
        return open_files.commands(seen.dangling, seen.cwd)

    @contextmanager
    def _told(
        self, place: SessionRef
    ) -> Iterator[tuple[HermesFacts, HermesDatabase | None, MessageRows | None]]:
        """What both stores have of a session, with the database that has it, and where its rows are read."""
        layout = HermesLayout.around(place.path)
        damage: list[str] = []
        unknown, asked = False, 0
        with ExitStack() as stack:
            found = None
            for path in layout.databases():
                db, why = stack.enter_context(self._databases.reading(path))
                asked += 1
                if db is not None and db.readable and db.header(place.native_id) is not None:
                    found = db
                    break
                damage += [why] if why else db.damage if db is not None else []
                unknown = unknown or (db is not None and not db.readable and not db.damage)
            facts = read_facts(layout, place.native_id, found)
            facts.damage, facts.unknown_schema = damage, unknown and found is None
            facts.consulted = found is not None or (asked > 0 and not damage and not unknown)
            rows: MessageRows | None = found
            told = transcript.find(layout, place.native_id, facts.live)
            if told is not None and (found is None or not found.places(place.native_id)):
                facts.transcript, rows = told.path, told
            yield facts, found, rows

    def _at(self, path: str) -> list[SessionRef]:
        name = os.path.basename(path)
        own = session_id(name)
        if own is not None:
            return [_place(HermesLayout.around(path), own, None, None)] if os.path.isfile(path) else []
        return list(self.sessions(path)) if os.path.exists(path) else []


def _events(story: HermesConversation, telling: HermesEventBuilder) -> Iterator[NewEvent]:
    facts = story.facts
    if facts.deleted:
        yield NewEvent("notice", {"text": "this session was deleted in the web UI", "code": "deleted"})
        return
    told = 0
    for message in story.messages():
        if isinstance(message, int):
            yield telling.taken_back(message)
        else:
            yield from telling.message(message)
            told += 1
    if facts.why_shorter and len(facts.backup.messages) > len(facts.live.messages):
        key = "clear_generation" if facts.why_shorter == "clear" else "intentional_shrink_generation"
        count = len(facts.backup.messages) - len(facts.live.messages)
        yield telling.shortened(facts.why_shorter, values.identifier(facts.live.head.get(key)), count)
    if facts.live.gaps:
        text = "parts of this session's file could not be read"
        yield NewEvent("notice", {"text": text, "code": "torn_live", "bytes": facts.live.size})
    if story.lost_rows:
        text = f"{story.lost_rows:,} rows of this session could not be read"
        yield NewEvent("notice", {"text": text, "code": "store_damaged", "rows": story.lost_rows})
    for turn, said in list(story.open_turns(telling.prompts)):
        yield from telling.turn(turn, said, facts.runs.get(turn.stream))
    yield from telling.end()


def _place(
    layout: HermesLayout, native_id: str, header: HermesSessionRow | None, database: str | None
) -> SessionRef:
    path = layout.sidecar(native_id)
    file = next((one for one in (path, f"{path}.bak") if one and os.path.isfile(one)), None)
    side = sidecar.load(file) if file else None
    head = side.head if side is not None else {}
    title = (header.word("title") if header else None) or values.text(head.get("title")) or None
    workspace = values.text(head.get("worktree_path")) or values.text(head.get("workspace"))
    cwd = (worktree.folder_of_row(header) if header else None) or workspace or None
    moment = values.seconds(head.get("updated_at"))
    if header is not None:
        ended = values.seconds(header.values.get("ended_at")) or values.seconds(
            header.values.get("started_at")
        )
        moment = max(moment or 0.0, ended or 0.0)
    form = "database" if file is None else ("sidecar" if header is None else "both")
    if side is not None and side.state == "foreign" and header is None:
        form = "foreign"
    return SessionRef(
        agent=AGENT,
        native_id=native_id,
        path=file or database or "",
        cwd=cwd,
        title=title,
        updated_at=values.stamp(moment),
        form=form,
        worktree=worktree.worktree_of(head, header),
    )


def _pid(text: str) -> set[int]:
    return {int(text)} if text.isascii() and text.isdigit() and len(text) < 10 else set()
