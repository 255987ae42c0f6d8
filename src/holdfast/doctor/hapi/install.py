"""One hapi install: looked at as a whole, and the plan to mend it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress

import apsw

from holdfast.doctor import holders
from holdfast.doctor.finding import Diagnosis, Finding, Progress
from holdfast.doctor.hapi import alive, judge
from holdfast.doctor.hapi.judge import Candidate, Session
from holdfast.doctor.hapi.native import NativeStores
from holdfast.doctor.hapi.story import Story
from holdfast.doctor.step import Check, DatabaseStep, Statement
from holdfast.history.hapi import database
from holdfast.history.hapi.database import Database, Row
from holdfast.history.hapi.flavor import PROTOCOL, PROTOCOLS
from holdfast.history.hapi.metadata import Metadata

_SET = (
    "update sessions set metadata = ?, metadata_version = metadata_version + 1, seq = seq + 1"
    " where rowid = ? and id = ? and cast(metadata as blob) is cast(? as blob)"
    " and metadata_version is ? and seq is ?"
)
_NOW = "select metadata, metadata_version from sessions where id = ?"


class HapiInstall:
    """A hapi home, or only its database."""

    target = "hapi"

    def __init__(self, path: str, env: Mapping[str, str], chosen: Mapping[str, str] | None = None):
        self.path = database.place_of(path)
        self._stores = NativeStores(env)
        self._chosen = chosen or {}  # session: the token that a person chose

    def running(self) -> list[str]:
        """Who has the database open: that is the hub."""
        return holders.database_open_in(self.path)

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All sessions, from one consistent state; one that cannot be read does not stop the rest."""
        looking = _Looking(self.path, self._stores, self._chosen, progress)
        try:
            with database.opened(self.path) as db:
                looking.at(db)
        except (apsw.Error, OSError, UnicodeDecodeError) as problem:
            said = " ".join(str(problem).split())
            looking.tell("database_unreadable", f"the database cannot be read on: {said}")
        return looking.diagnosis()


class _Looking:
    """One look, as it goes."""

    def __init__(self, path: str, stores: NativeStores, chosen: Mapping[str, str], progress: Progress | None):
        self._path = path
        self._stores = stores
        self._chosen = chosen
        self._progress = progress
        self._findings: list[Finding] = []
        self._statements: list[Statement] = []
        self._checks: list[Check] = []
        self._mended: list[str] = []
        self._state = hashlib.sha256()

    def at(self, db: Database) -> None:
        """Everything in the database."""
        self._state.update(b"%d" % db.version)
        if not 1 <= db.version <= database.NEWEST or not {"sessions", "messages"} <= db.tables:
            known = f"versions 1 to {database.NEWEST} are known"
            self.tell("schema_unknown", f"its schema has version {db.version}; {known}; nothing is touched")
            return
        if self._progress is not None:
            self._progress(0, 100, "the file as a whole")
        for problem in db.problems():
            self.tell("database_damaged", f"SQLite says of the file: {problem}", part=problem)
        count = db.count()
        for number, row in enumerate(db.sessions()):
            if self._progress is not None:
                self._progress(number, count, row.id)
            self._session(db, row)
        for name, messages in db.orphans():
            text = f"{messages} messages are of a session that is not there: it was deleted or merged away"
            self._findings.append(Finding(code="orphan_messages", subject=name, text=text))

    def tell(self, code: str, text: str, part: str = "") -> None:
        """A finding about the file as a whole."""
        subject = os.path.basename(self._path)
        self._findings.append(Finding(code=code, subject=subject, text=text, part=part))

    def diagnosis(self) -> Diagnosis:
        """What came of it; a damaged file is told of and left alone."""
        steps = []
        if self._statements and not any(f.code.startswith("database_") for f in self._findings):
            steps.append(
                DatabaseStep(
                    path=self._path,
                    statements=self._statements,
                    checks=self._checks,
                    findings=tuple(self._mended),
                )
            )
        elif self._statements:
            self._findings = [_left_alone(finding) for finding in self._findings]
        return Diagnosis(
            target="hapi",
            path=self._path,
            findings=self._findings,
            steps=steps,
            state=self._state.hexdigest(),
        )

    def _session(self, db: Database, row: Row) -> None:
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
        )
        candidates = self._candidates(session)
        mended = self._mend(session, candidates)
        found = judge.findings(session, candidates)
        self._findings += found if mended else [_left_alone(finding) for finding in found]
        if mended:
            self._mended += [finding.id for finding in found if finding.action]

    def _candidates(self, session: Session) -> list[Candidate]:
        if not session.metadata.is_object:
            return judge.from_messages(session) if session.metadata.is_nothing else []
        if session.lacks_token:
            if session.cleared:
                return []
            found = judge.from_messages(session) or self._stores.conversations(session)
            chosen = self._chosen.get(session.row.id)
            if chosen is not None:
                picked = [c for c in found if chosen in c.keys.values()]
                return [Candidate(c.keys, "choice", c.path) for c in picked[:1]] or found
            return found or judge.from_tokens(session)
        if session.flavor == "cursor":
            return self._stores.protocols(session) if _lacks_protocol(session) else []
        return judge.from_tokens(session)

    def _mend(self, session: Session, candidates: list[Candidate]) -> bool:
        """Put the one repair of a session into the plan, if there is one and it can be made."""
        if len(candidates) != 1:
            return False
        row, old = session.row, session.metadata.text
        text = session.metadata.with_keys(candidates[0].keys)
        if text is None or not isinstance(row.version, int) or not isinstance(row.seq, int):
            return False
        with suppress(UnicodeDecodeError):
            was = None if old is None else old.decode()
            values = (text, row.rowid, row.id, was, row.version, row.seq)
            self._statements.append(Statement(_SET, values))
            self._checks.append(Check(_NOW, (row.id,), [(text, row.version + 1)]))
            return True
        return False


def _lacks_protocol(session: Session) -> bool:
    return session.token is not None and session.metadata.fields.get(PROTOCOL) not in PROTOCOLS


def _superseded(db: Database, metadata: Metadata) -> str | None:
    told = metadata.string("supersededBySessionId")
    if told is None:
        return None
    with suppress(apsw.Error, UnicodeEncodeError):
        return None if db.has(told) else told
    return None


def _left_alone(finding: Finding) -> Finding:
    if finding.action is None:
        return finding
    return Finding(
        code=finding.code,
        subject=finding.subject,
        text=finding.text,
        evidence=finding.evidence,
        part=finding.part,
    )
