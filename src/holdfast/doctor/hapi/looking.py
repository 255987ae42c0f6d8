"""One look at a hapi database: every session judged, and what would mend it gathered."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress

import apsw

from holdfast import errors
from holdfast.doctor.finding import Diagnosis, Finding, Progress
from holdfast.doctor.hapi import alive, candidate, judge, repair
from holdfast.doctor.hapi.candidate import Candidate
from holdfast.doctor.hapi.native import NativeStores
from holdfast.doctor.hapi.repair import Repair
from holdfast.doctor.hapi.session import Session
from holdfast.doctor.hapi.story import Story
from holdfast.doctor.hapi.surroundings import Surroundings
from holdfast.history.hapi import database
from holdfast.history.hapi.database import Database, Row
from holdfast.history.hapi.metadata import Metadata

SHOWN = 100  # sessions that one finding names
CONTESTED = (
    "another session may be of the same conversation, so a person must say which: --choose SESSION=TOKEN"
)


class Looking:
    """One look, as it goes."""

    def __init__(self, path: str, stores: NativeStores, chosen: Mapping[str, str], progress: Progress | None):
        self._path = path
        self._stores = stores
        self._chosen = chosen
        self._progress = progress
        self._findings: list[Finding] = []
        self._repairs: list[Repair] = []
        self._merged: list[str] = []  # sessions that hold messages of rows that are gone
        self._state = hashlib.sha256()

    def at(self, db: Database) -> None:
        """Everything in the database."""
        self._state.update(b"%d" % db.version)
        if not db.tables:
            text = "there are no tables in it; what a hub has not yet brought into the file is in its -wal"
            self.tell("schema_unknown", f"{text}, without which a copy of it is empty")
            return
        if not 1 <= db.version <= database.NEWEST or not {"sessions", "messages"} <= db.tables:
            known = f"versions 1 to {database.NEWEST} are known"
            self.tell("schema_unknown", f"its schema has version {db.version}; {known}; nothing is touched")
            return
        if self._progress is not None:
            self._progress(0, 100, "the file as a whole")
        for problem in db.problems():
            self.tell("database_damaged", f"SQLite says of the file: {problem}", part=problem)
        around = Surroundings(db)
        for name in self._chosen:
            if not db.has(name):
                raise errors.BadInput(f"there is no session {name} to choose a token for")
        last = 0
        with suppress(apsw.Error):  # of a damaged file; then nobody can say how far it is
            last = db.last()
        for row in db.sessions():
            if self._progress is not None:
                self._progress(row.rowid - 1, max(last, row.rowid, 1), row.id)
            self._session(db, row, around)
        for name, messages in db.orphans():
            text = f"{messages} messages are of a session that is not there: it was deleted or merged away"
            self._findings.append(Finding(code="orphan_messages", subject=name, text=text))
        if self._merged:
            text = (
                f"sessions that hold messages older than themselves: {len(self._merged)};"
                " hapi merged other rows into them and deleted those, and their tokens with them"
            )
            self.tell("rows_merged", text, sessions=self._merged[:SHOWN])

    def tell(self, code: str, text: str, part: str = "", **evidence: object) -> None:
        """A finding about the file as a whole."""
        subject = os.path.basename(self._path)
        self._findings.append(Finding(code=code, subject=subject, text=text, part=part, evidence=evidence))

    def diagnosis(self) -> Diagnosis:
        """What came of it; a damaged file is told of and left alone."""
        contested = repair.contested(self._repairs)
        repairs = [one for one in self._repairs if one.session not in contested]
        findings = [repair.left_alone(f, CONTESTED) if f.subject in contested else f for f in self._findings]
        if any(finding.code.startswith("database_") for finding in findings):
            repairs, findings = [], [repair.left_alone(finding) for finding in findings]
        return Diagnosis(
            target="hapi",
            path=self._path,
            findings=findings,
            steps=[repair.step(self._path, repairs, findings)] if repairs else [],
            state=self._state.hexdigest(),
        )

    def _session(self, db: Database, row: Row, around: Surroundings) -> None:
        metadata = Metadata(row.metadata)
        try:
            story = Story(db.messages(row))
        except (apsw.Error, UnicodeDecodeError) as problem:
            said = " ".join(str(problem).split())
            text = f"its messages cannot be read: {said}"
            self._findings.append(Finding(code="database_unreadable", subject=row.id, text=text))
            return
        self._state.update(repr((row.id, row.metadata, row.version, row.seq, story.count)).encode())
        self._state.update(story.digest.digest())
        session = Session(
            row=row,
            metadata=metadata,
            story=story,
            alive=alive.is_alive(metadata, row),
            superseded_gone=_superseded(db, metadata),
            host=around.host,
        )
        if session.merged:
            self._merged.append(row.id)
        candidates = [around.told(c, row.id) for c in self._candidates(session)]
        only = candidate.only(candidates)
        mended = None if only is None else repair.repair_of(session, only)
        found = judge.findings(session, candidates)
        if mended is None:
            found = [repair.left_alone(finding) for finding in found]
        else:
            self._repairs.append(mended)
        self._findings += found

    def _candidates(self, session: Session) -> list[Candidate]:
        if not session.metadata.is_object:
            found = candidate.from_messages(session) if session.metadata.is_nothing else []
        elif session.lacks_token:
            found = self._conversations(session)
        elif session.lacks_protocol:
            found = self._stores.protocols(session)
        else:
            found = candidate.from_tokens(session) or candidate.from_folders(session)
        chosen = self._chosen.get(session.row.id)
        return candidate.chosen(session, found, chosen) if chosen is not None else found

    def _conversations(self, session: Session) -> list[Candidate]:
        """Those that a session without a token may be of, from the strongest evidence that there is."""
        if session.cleared:
            return []
        return candidate.from_messages(session) or self._stores.conversations(session)


def _superseded(db: Database, metadata: Metadata) -> str | None:
    told = metadata.string("supersededBySessionId")
    if told is None:
        return None
    with suppress(apsw.Error, UnicodeEncodeError):
        return None if db.has(told) else told
    return None
