"""Reads Hermes sessions from the agent's database and the web UI's files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from holdfast.model.event import NewEvent
from holdfast.peers.hermes import database as shares
from holdfast.peers.hermes import inspect as rules
from holdfast.peers.hermes import journal, sidecar, transcript, values, worktree
from holdfast.peers.hermes.conversation import HermesConversation, MessageRows
from holdfast.peers.hermes.database import HermesDatabase, HermesDatabaseCache, HermesSessionRow
from holdfast.peers.hermes.events import AGENT, HermesEventBuilder
from holdfast.peers.hermes.facts import HermesFacts, deleted_ids, read_facts
from holdfast.peers.hermes.layout import HermesLayout, session_id
from holdfast.process import identity
from holdfast.transcripts.reader import Inspection, SessionRef, TranscriptProblem, TranscriptReader
from holdfast.transcripts.session_rows import SessionRows


class HermesReader(TranscriptReader):
    """`state.db` of hermes-agent and the sidecars of hermes-webui."""

    agent = AGENT
    harmless = rules.HARMLESS
    root_variable = "HERMES_HOME"
    root_folder = ".hermes"

    def __init__(self) -> None:
        self._databases = HermesDatabaseCache()

    def find(self, root: str, name: str) -> list[SessionRef]:
        """The sessions that an id, a sidecar, a backup or a database names."""
        if os.sep in name or os.path.exists(name):
            return self._at(os.path.abspath(name))
        layout = HermesLayout(root)
        refs: list[SessionRef] = []
        broken: list[str] = []
        for path in layout.databases():
            with self._databases.reading(path) as (db, _):
                header = db.header(name) if db is not None and db.readable else None
                if header is not None:
                    refs.append(_session_ref(layout, name, header, path))
                elif db is None or not db.readable or db.damage:
                    broken.append(path)
        if refs:
            return refs[:1] if len({ref.path for ref in refs}) == 1 else refs
        path_of = layout.sidecar(name)
        if path_of and (os.path.isfile(path_of) or os.path.isfile(path_of + ".bak")):
            return [_session_ref(layout, name, None, None)]
        # It may be in a database that cannot be read: then the inspection reports that.
        return [SessionRef(agent=AGENT, native_id=name, path=path, form="database") for path in broken]

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[SessionRef]:
        """All sessions that are not deleted."""
        layout = HermesLayout(root)
        listed: set[str] = set()
        deleted = deleted_ids(layout)
        names = set(layout.names())
        for path in layout.databases():
            with self._databases.reading(path) as (db, _):
                for header in db.headers() if db is not None and db.readable else ():
                    gone = header.id in deleted and f"{header.id}.json" not in names
                    if header.id in listed or (gone and header.text("source") in (None, "webui")):
                        continue
                    listed.add(header.id)
                    ref = _session_ref(layout, header.id, header, path)
                    if cwd is None or ref.cwd == cwd:
                        yield ref
        for name in sorted(names):
            own = session_id(name)
            if own is None or own in listed or (own in deleted and f"{own}.json" not in names):
                continue
            listed.add(own)
            ref = _session_ref(layout, own, None, None)
            if ref.form != "foreign" and (cwd is None or ref.cwd == cwd):
                yield ref

    def events(self, place: SessionRef) -> Iterator[NewEvent]:
        """The conversation from both stores, each message once."""
        with self._stores(place) as (facts, _, rows):
            conversation = HermesConversation(facts, rows)
            builder = HermesEventBuilder(place.native_id, conversation.results)
            yield from _events(conversation, builder)

    def inspect(self, place: SessionRef) -> Inspection:
        """What is wrong with it in either store, and how far it got."""
        with self._stores(place) as (facts, db, rows):
            if db is not None:
                facts.damage += self._databases.check(db)
            conversation = HermesConversation(facts, rows)
            builder, progress = (
                HermesEventBuilder(place.native_id, conversation.results),
                rules.TurnProgress(),
            )
            for event in _events(conversation, builder):
                progress.on_event(event)
            progress.finish()
            facts.damage += db.damage if db is not None else []
            turns = [turn for turn, _ in conversation.open_turns(builder.prompts)]
            problems = rules.problems(conversation, builder, progress, turns, time.time())
        if not facts.exists and not facts.damage:
            problems = [
                *problems,
                TranscriptProblem("no_transcript", "there is no such session", {"path": place.path}),
            ]
        return self.inspection(
            place,
            problems,
            dangling=builder.dangling,
            turns=progress.turns,
            last_complete=progress.complete,
        )

    def files(self, place: SessionRef) -> list[str]:
        """Its sidecar, backup and journals."""
        layout = HermesLayout.around(place.path)
        path = layout.sidecar(place.native_id)
        paths = [path, f"{path}.bak"] if path else []
        paths += layout.turn_journals(place.native_id) + layout.run_journals(place.native_id)
        return [file for file in paths if os.path.isfile(file)]

    def database(self, place: SessionRef) -> str | None:
        """The first database that has it."""
        for path in HermesLayout.around(place.path).databases():
            with self._databases.reading(path) as (db, _):
                if db is not None and db.readable and db.header(place.native_id) is not None:
                    return path
        return None

    def session_rows(self, database: str, native_id: str) -> SessionRows:
        """Its rows."""
        return SessionRows(
            database, native_id, shares.TABLES, shares.MINE, self._databases.snapshots(database)
        )

    def owners(self, root: str, place: SessionRef) -> list[int]:
        """Live processes that started an unfinished turn of the session, or claim to compact it."""
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

    @contextmanager
    def _stores(
        self, place: SessionRef
    ) -> Iterator[tuple[HermesFacts, HermesDatabase | None, MessageRows | None]]:
        """What both stores have of a session, the database that has it, and the source of its rows."""
        layout = HermesLayout.around(place.path)
        damage: list[str] = []
        unknown, asked = False, 0
        with ExitStack() as stack:
            holder = None
            for path in layout.databases():
                db, why = stack.enter_context(self._databases.reading(path))
                asked += 1
                if db is not None and db.readable and db.header(place.native_id) is not None:
                    holder = db
                    break
                damage += [why] if why else db.damage if db is not None else []
                unknown = unknown or (db is not None and not db.readable and not db.damage)
            facts = read_facts(layout, place.native_id, holder)
            facts.damage, facts.unknown_schema = damage, unknown and holder is None
            facts.database_answered = holder is not None or (asked > 0 and not damage and not unknown)
            rows: MessageRows | None = holder
            replacement = transcript.find(layout, place.native_id, facts.live)
            if replacement is not None and (holder is None or not holder.row_ids(place.native_id)):
                facts.transcript, rows = replacement.path, replacement
            yield facts, holder, rows

    def _at(self, path: str) -> list[SessionRef]:
        name = os.path.basename(path)
        native_id = session_id(name)
        if native_id is not None:
            return (
                [_session_ref(HermesLayout.around(path), native_id, None, None)]
                if os.path.isfile(path)
                else []
            )
        return list(self.sessions(path)) if os.path.exists(path) else []


def _events(conversation: HermesConversation, builder: HermesEventBuilder) -> Iterator[NewEvent]:
    facts = conversation.facts
    if facts.deleted:
        yield NewEvent("notice", {"text": "the user deleted this session in the web UI", "code": "deleted"})
        return
    for message in conversation.messages():
        if isinstance(message, int):
            yield builder.undone(message)
        else:
            yield from builder.on_message(message)
    if facts.shrink_reason and len(facts.backup.messages) > len(facts.live.messages):
        key = "clear_generation" if facts.shrink_reason == "clear" else "intentional_shrink_generation"
        count = len(facts.backup.messages) - len(facts.live.messages)
        yield builder.shortened(facts.shrink_reason, values.identifier(facts.live.head.get(key)), count)
    if facts.live.gaps:
        text = "part of this session's file cannot be read"
        yield NewEvent("notice", {"text": text, "code": "torn_live", "bytes": facts.live.size})
    if conversation.lost_rows:
        text = f"{conversation.lost_rows:,} rows of this session cannot be read"
        yield NewEvent("notice", {"text": text, "code": "store_damaged", "rows": conversation.lost_rows})
    for turn, has_prompt in list(conversation.open_turns(builder.prompts)):
        yield from builder.turn(turn, has_prompt, facts.runs.get(turn.stream))
    yield from builder.finish()


def _session_ref(
    layout: HermesLayout, native_id: str, header: HermesSessionRow | None, database: str | None
) -> SessionRef:
    path = layout.sidecar(native_id)
    file = next(
        (candidate for candidate in (path, f"{path}.bak") if candidate and os.path.isfile(candidate)), None
    )
    side = sidecar.load(file) if file else None
    head = side.head if side is not None else {}
    title = (header.text("title") if header else None) or values.text(head.get("title")) or None
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
