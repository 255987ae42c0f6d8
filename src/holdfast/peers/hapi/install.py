"""One hapi install: looked at as a whole, and the plan to mend it."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

import apsw

from holdfast import errors
from holdfast.doctor.plan import Diagnosis, DoctorFinding, Progress
from holdfast.peers.hapi import candidates as candidate
from holdfast.peers.hapi import database, repair
from holdfast.peers.hapi import findings as judge
from holdfast.peers.hapi.candidates import Candidate, InstallOverview, NativeStores
from holdfast.peers.hapi.database import HapiDatabase, HapiSessionRow
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.peers.hapi.repair import RowRepair
from holdfast.peers.hapi.sessions import HapiConversation, HapiSession
from holdfast.process import identity, open_files

FRESH_S = 60.0  # a wrapper elsewhere says every two seconds that it lives; hapi gives it thirty
SLACK_S = 5.0


def is_alive(metadata: HapiMetadata, row: HapiSessionRow) -> bool:
    """On this host: whether its process is there. Elsewhere only its last sign of life can tell."""
    if metadata.fields.get("host") != socket.gethostname():
        return abs(time.time() - row.active_at / 1000) < FRESH_S
    pid = metadata.fields.get("hostPid")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
        return False
    started = identity.started(pid)
    if started is None:
        return False
    moment = _moment(started)
    # A process that began after the session's last sign of life has only its number.
    return moment is None or moment <= max(row.active_at, row.updated_at) / 1000 + SLACK_S


def _moment(started: float) -> float | None:
    """When a process was started, in seconds since 1970."""
    if not identity.HAS_PROC:
        return started
    with open("/proc/stat") as file:
        for line in file:
            if line.startswith("btime "):
                return int(line.split()[1]) + started / os.sysconf("SC_CLK_TCK")
    return None


# --- One look at a hapi database: every session judged, and what would mend it gathered.

CONTESTED = (
    "another session may be of the same conversation, so a person must say which: --choose SESSION=TOKEN"
)


class HapiScan:
    """One look, as it goes."""

    def __init__(self, path: str, stores: NativeStores, chosen: Mapping[str, str], progress: Progress | None):
        self._path = path
        self._stores = stores
        self._chosen = chosen
        self._progress = progress
        self._findings: list[DoctorFinding] = []
        self._repairs: list[RowRepair] = []
        self._state = hashlib.sha256()

    def at(self, db: HapiDatabase) -> None:
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
        around = InstallOverview(db)
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
            self._findings.append(DoctorFinding(code="orphan_messages", subject=name, text=text))

    def tell(self, code: str, text: str, part: str = "", **evidence: object) -> None:
        """A finding about the file as a whole."""
        subject = os.path.basename(self._path)
        self._findings.append(
            DoctorFinding(code=code, subject=subject, text=text, part=part, evidence=evidence)
        )

    def diagnosis(self) -> Diagnosis:
        """What came of it; a damaged file is told of and left alone."""
        contested = repair.contested(self._repairs)
        repairs = [one for one in self._repairs if one.session not in contested]
        findings = [
            repair.without_action(f, CONTESTED) if f.subject in contested else f for f in self._findings
        ]
        if any(finding.code.startswith("database_") for finding in findings):
            repairs, findings = [], [repair.without_action(finding) for finding in findings]
        return Diagnosis(
            target="hapi",
            path=self._path,
            findings=findings,
            steps=[repair.step(self._path, repairs, findings)] if repairs else [],
            state=self._state.hexdigest(),
        )

    def _session(self, db: HapiDatabase, row: HapiSessionRow, around: InstallOverview) -> None:
        metadata = HapiMetadata(row.metadata)
        try:
            story = HapiConversation(db.messages(row))
        except (apsw.Error, UnicodeDecodeError) as problem:
            said = " ".join(str(problem).split())
            text = f"its messages cannot be read: {said}"
            self._findings.append(DoctorFinding(code="database_unreadable", subject=row.id, text=text))
            return
        self._state.update(repr((row.id, row.metadata, row.version, row.seq, story.count)).encode())
        self._state.update(story.digest.digest())
        session = HapiSession(
            row=row,
            metadata=metadata,
            story=story,
            alive=is_alive(metadata, row),
            superseded_gone=_superseded(db, metadata),
            host=around.host,
        )
        candidates = [around.told(c, row.id) for c in self._candidates(session)]
        only = candidate.only_candidate(candidates)
        mended = None if only is None else repair.plan_repair(session, only)
        found = judge.session_findings(session, candidates)
        if mended is None:
            found = [repair.without_action(finding) for finding in found]
        else:
            self._repairs.append(mended)
        self._findings += found

    def _candidates(self, session: HapiSession) -> list[Candidate]:
        if not session.metadata.is_object:
            found = candidate.from_messages(session) if session.metadata.is_nothing else []
        elif session.lacks_token:
            found = self._conversations(session)
        elif session.lacks_protocol:
            found = self._stores.protocols(session)
        else:
            found = candidate.from_tokens(session) or candidate.from_folders(session)
        chosen = self._chosen.get(session.row.id)
        return candidate.apply_choice(session, found, chosen) if chosen is not None else found

    def _conversations(self, session: HapiSession) -> list[Candidate]:
        """Those that a session without a token may be of, from the strongest evidence that there is."""
        if session.cleared:
            return []
        return candidate.from_messages(session) or self._stores.conversations(session)


def _superseded(db: HapiDatabase, metadata: HapiMetadata) -> str | None:
    told = metadata.string("supersededBySessionId")
    if told is None:
        return None
    with suppress(apsw.Error, UnicodeEncodeError):
        return None if db.has(told) else told
    return None


# --- One hapi install: looked at as a whole, and the plan to mend it.


class HapiInstall:
    """A hapi home, or only its database."""

    target = "hapi"

    def __init__(self, path: str, env: Mapping[str, str], chosen: Mapping[str, str] | None = None):
        self.path = database.database_path(path)
        self._env = env
        self._chosen = chosen or {}  # session: the token that a person chose

    def running(self) -> list[str]:
        """Who has the database open: that is the hub."""
        return open_files.database_open_in(self.path)

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All sessions, from one consistent state; one that cannot be read does not stop the rest."""
        looking = HapiScan(self.path, NativeStores(self._env), self._chosen, progress)
        try:
            with database.open_database(self.path) as db:
                looking.at(db)
        except (apsw.Error, OSError, UnicodeDecodeError) as problem:
            said = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            looking.tell(
                "database_unreadable", f"it cannot be read, or not to its end: {' '.join(said.split())}"
            )
        return looking.diagnosis()
