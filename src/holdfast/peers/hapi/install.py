"""One hapi install: what is wrong with its sessions, and the plan to repair it."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

import apsw

from holdfast import errors
from holdfast.doctor.plan import Diagnosis, DoctorFinding, Progress, finding_id
from holdfast.peers.hapi import candidates as candidate
from holdfast.peers.hapi import database, repair
from holdfast.peers.hapi import findings as rules
from holdfast.peers.hapi.candidates import Candidate, InstallOverview, NativeStores
from holdfast.peers.hapi.database import HapiDatabase, HapiSessionRow
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.peers.hapi.repair import RowRepair
from holdfast.peers.hapi.sessions import HapiConversation, HapiSession
from holdfast.process import identity, open_files

FRESH_S = 60.0  # a wrapper on another host reports every two seconds; hapi allows it thirty
SLACK_S = 5.0


def is_alive(metadata: HapiMetadata, row: HapiSessionRow) -> bool:
    """Whether its process runs. On another host only its last report can tell."""
    if metadata.fields.get("host") != socket.gethostname():
        return abs(time.time() - row.active_at / 1000) < FRESH_S
    pid = metadata.fields.get("hostPid")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31:
        return False
    started = identity.started(pid)
    if started is None:
        return False
    moment = _moment(started)
    # A process that started after the session's last report only reuses its pid.
    return moment is None or moment <= max(row.active_at, row.updated_at) / 1000 + SLACK_S


def _moment(started: float) -> float | None:
    """When a process started, in seconds since 1970."""
    if not identity.HAS_PROC:
        return started
    with open("/proc/stat") as file:
        for line in file:
            if line.startswith("btime "):
                return int(line.split()[1]) + started / os.sysconf("SC_CLK_TCK")
    return None


# --- One diagnosis of a hapi database.

CONTESTED = "another session may belong to the same conversation, so choose one: --choose SESSION=TOKEN"


class HapiScan:
    """Collects the findings and repairs of one diagnosis."""

    def __init__(self, path: str, stores: NativeStores, chosen: Mapping[str, str], progress: Progress | None):
        self._path = path
        self._stores = stores
        self._chosen = chosen
        self._progress = progress
        self._findings: list[DoctorFinding] = []
        self._repairs: list[RowRepair] = []
        self._state = hashlib.sha256()

    def check(self, db: HapiDatabase) -> None:
        """Check everything in the database."""
        self._state.update(b"%d" % db.version)
        if not db.tables:
            text = "it has no tables: a hub may still have its content in the -wal, which a copy needs too"
            self.add("schema_unknown", text)
            return
        if not 1 <= db.version <= database.NEWEST or not {"sessions", "messages"} <= db.tables:
            known = f"versions 1 to {database.NEWEST} are supported"
            self.add("schema_unknown", f"it has schema version {db.version}; {known}; nothing is changed")
            return
        if self._progress is not None:
            self._progress(0, 100, "checking the file")
        for problem in db.problems():
            self.add("database_damaged", f"SQLite reports damage: {problem}", part=problem)
        overview = InstallOverview(db)
        for name in self._chosen:
            if not db.has(name):
                raise errors.BadInput(f"--choose names the session {name}, which does not exist")
        last = 0
        with suppress(apsw.Error):  # in a damaged file the total is unknown
            last = db.last()
        for row in db.sessions():
            if self._progress is not None:
                self._progress(row.rowid - 1, max(last, row.rowid, 1), row.id)
            self._check_session(db, row, overview)
        for name, messages in db.orphans():
            text = f"{messages} messages belong to a missing session: it was deleted or merged into another"
            self._findings.append(DoctorFinding(code="orphan_messages", subject=name, text=text))

    def add(self, code: str, text: str, part: str = "", **evidence: object) -> None:
        """Add a finding about the file as a whole."""
        subject = os.path.basename(self._path)
        self._findings.append(
            DoctorFinding(
                code=code, subject=subject, text=text, id=finding_id(code, subject, part), evidence=evidence
            )
        )

    def diagnosis(self) -> Diagnosis:
        """The result; a damaged file is reported and left as it is."""
        contested = repair.contested(self._repairs)
        repairs = [planned for planned in self._repairs if planned.session not in contested]
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

    def _check_session(self, db: HapiDatabase, row: HapiSessionRow, overview: InstallOverview) -> None:
        metadata = HapiMetadata(row.metadata)
        try:
            conversation = HapiConversation(db.messages(row))
        except (apsw.Error, UnicodeDecodeError) as problem:
            reason = " ".join(str(problem).split())
            text = f"its messages cannot be read: {reason}"
            self._findings.append(DoctorFinding(code="database_unreadable", subject=row.id, text=text))
            return
        self._state.update(repr((row.id, row.metadata, row.version, row.seq, conversation.count)).encode())
        self._state.update(conversation.digest.digest())
        session = HapiSession(
            row=row,
            metadata=metadata,
            conversation=conversation,
            alive=is_alive(metadata, row),
            superseded_gone=_superseded(db, metadata),
            host=overview.host,
        )
        candidates = [overview.with_holder(c, row.id) for c in self._candidates(session)]
        only = candidate.only_candidate(candidates)
        planned = None if only is None else repair.plan_repair(session, only)
        findings = rules.session_findings(session, candidates)
        if planned is None:
            findings = [repair.without_action(finding) for finding in findings]
        else:
            self._repairs.append(planned)
        self._findings += findings

    def _candidates(self, session: HapiSession) -> list[Candidate]:
        if not session.metadata.is_object:
            candidates = candidate.from_messages(session) if session.metadata.is_nothing else []
        elif session.lacks_token:
            candidates = self._conversations(session)
        elif session.lacks_protocol:
            candidates = self._stores.protocols(session)
        else:
            candidates = candidate.from_tokens(session) or candidate.from_folders(session)
        chosen = self._chosen.get(session.row.id)
        return candidate.apply_choice(session, candidates, chosen) if chosen is not None else candidates

    def _conversations(self, session: HapiSession) -> list[Candidate]:
        """The conversations that a session without a token may belong to, by the strongest evidence."""
        if session.cleared:
            return []
        return candidate.from_messages(session) or self._stores.conversations(session)


def _superseded(db: HapiDatabase, metadata: HapiMetadata) -> str | None:
    successor = metadata.string("supersededBySessionId")
    if successor is None:
        return None
    with suppress(apsw.Error, UnicodeEncodeError):
        return None if db.has(successor) else successor
    return None


class HapiInstall:
    """A hapi home, or only its database."""

    target = "hapi"

    def __init__(self, path: str, env: Mapping[str, str], chosen: Mapping[str, str] | None = None):
        self.path = database.database_path(path)
        self._env = env
        self._chosen = chosen or {}  # session: the token that the user chose

    def running(self) -> list[str]:
        """The processes that have the database open: that is the hub."""
        return open_files.database_open_in(self.path)

    def diagnose(self, progress: Progress | None = None) -> Diagnosis:
        """All sessions from one consistent state; one that cannot be read does not stop the rest."""
        scan = HapiScan(self.path, NativeStores(self._env), self._chosen, progress)
        try:
            with database.open_database(self.path) as db:
                scan.check(db)
        except (apsw.Error, OSError, UnicodeDecodeError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            scan.add("database_unreadable", f"part of it cannot be read: {' '.join(reason.split())}")
        return scan.diagnosis()
