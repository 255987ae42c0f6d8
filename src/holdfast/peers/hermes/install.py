"""One install of Hermes: what is wrong with its sessions and its folder, and the plan to repair it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, BinaryIO

import msgspec

from holdfast import durable_io, errors
from holdfast.doctor.files import digest_file
from holdfast.doctor.plan import Diagnosis, DoctorFinding, FileStep, Progress, finding_id
from holdfast.peers.hermes import index, sessions_folder, sidecar, values
from holdfast.peers.hermes.database import NEWEST, HermesDatabase, HermesDatabaseCache
from holdfast.peers.hermes.findings import ACTIONS, problem_key, problem_part
from holdfast.peers.hermes.layout import DELETED, INDEX
from holdfast.peers.hermes.repair import repair_session
from holdfast.peers.hermes.running import running_signs
from holdfast.peers.hermes.session_state import SessionStateReader
from holdfast.peers.hermes.sessions_folder import SessionsFolder
from holdfast.peers.hermes.sidecar import SidecarState
from holdfast.peers.hermes.temp_files import is_redundant, session_of_temp_file
from holdfast.transcripts.reader import TranscriptProblem

PROGRESS_EVERY = 20  # sessions between two progress reports


class HermesInstall:
    """A home of Hermes, the web UI's state folder in it, or the folder of its sessions."""

    target = "hermes"

    def __init__(self, path: str, env: Mapping[str, str]):
        layout = SessionsFolder(path)
        if layout.folder is None or not (layout.databases() or layout.has_sessions()):
            raise errors.NotFound(
                f"there is no Hermes install at {path}",
                hint="name the home that contains state.db or webui",
            )
        self._root = path
        self.path = os.path.realpath(layout.home or layout.folder)
        self._databases = HermesDatabaseCache()
        self._held = ExitStack()

    def diagnose(self, progress: Progress | None = None) -> Diagnosis:
        """All findings and the steps of the repair; it changes nothing, not even a file time."""
        self._held.close()
        scan = _HermesScan(self._open(), self.path, self._databases.check)
        scan.check_stores()
        scan.check_sessions(progress)
        scan.check_folder()
        state = hashlib.sha256(msgspec.json.encode(sorted(scan.reader.layout.listed))).hexdigest()
        return Diagnosis(
            target=self.target, path=self.path, findings=scan.findings, steps=scan.steps, state=state
        )

    def running(self) -> list[str]:
        """One sentence for each process that uses these files."""
        return running_signs(SessionsFolder(self._root))

    def _open(self) -> SessionStateReader:
        layout = SessionsFolder(self._root)
        opened: list[tuple[str, HermesDatabase | None, str]] = []
        for path in layout.databases():
            db, why = self._held.enter_context(self._databases.reading(path, full=True))
            opened.append((path, db, why))
        return SessionStateReader(layout, opened, time.time())


class _RepairedFiles:
    """The repaired bytes of all sessions in one unnamed temporary file.

    So a repair is computed once, and memory does not grow with the number of sessions.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def add(self, data: bytes) -> Callable[[], bytes]:
        """Store bytes; the result reads them back."""
        with durable_io.reported(tempfile.gettempdir()):
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, self._file.close)  # the steps of a plan read it later
            offset = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._file.flush()
        return partial(self._read, offset, len(data))

    def _read(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        self._file.seek(offset)
        return self._file.read(size)


class _HermesScan:
    """Collects the findings and steps of one diagnosis."""

    def __init__(self, reader: SessionStateReader, root: str, damage: Callable[[HermesDatabase], list[str]]):
        self.findings: list[DoctorFinding] = []
        self.steps: list[FileStep] = []
        self.reader = reader
        self._repaired = _RepairedFiles()
        self._root = root
        self._damage = damage
        self._damaged: dict[str, SidecarState] = {}  # sidecars that are not whole
        self._misnamed: dict[str, str] = {}  # session by file name: the session that the file names
        self._changed: dict[str, bytes] = {}  # repaired sessions: their new index entry

    def check_stores(self) -> None:
        """Databases that cannot be read or have an unknown schema, and unreadable tombstones."""
        if self.reader.deleted is None:
            text = "the list of deleted sessions cannot be read; sessions without a file are not recreated"
            self._add("tombstones_corrupt", text, DELETED, name=DELETED)
        for path, db, why in self.reader.opened:
            name = os.path.relpath(path, self._root)
            if db is None or (db.damage and not db.readable):
                why = why or (db.damage[0] if db is not None else "")
                self._add("store_damaged", f"the database cannot be read: {why}", name, path=path)
            elif not db.readable:
                text = "the database does not have the tables of hermes-agent; nothing is read from it"
                self._add("schema_unknown", text, name, path=path)
            elif not db.known:
                version = values.replace_lone_surrogates(str(db.version()))
                text = f"schema {version} is newer than the known versions (up to {NEWEST}); nothing is read"
                self._add("schema_unknown", text, name, path=path, version=version)
            elif errors_found := self._damage(db):
                self._add("store_damaged", "SQLite reports damage", name, said=errors_found)

    def check_sessions(self, progress: Progress | None) -> None:
        """Each session on its own; only its findings stay in memory."""
        ids = self.reader.ids()
        for number, own in enumerate(ids):
            if progress is not None and number % PROGRESS_EVERY == 0:
                progress(number, len(ids), own)
            self._check_session(own)
        if progress is not None and ids:
            progress(len(ids) - 1, len(ids), "")

    def check_folder(self) -> None:
        """The index, files that are not sessions, and temporary files of crashes."""
        layout = self.reader.layout
        gone: list[str] = []
        fixed: list[str] = []
        fresh = dict.fromkeys(self._changed)
        for problem in sessions_folder.folder_problems(
            layout, self._damaged, self._misnamed, self.reader.knows
        ):
            if problem.code == "foreign_file":
                for name in problem.evidence["names"]:
                    self._add("foreign_file", "the file is not a session of the web UI", name, name=name)
            elif problem.code == "tmp_litter":
                self._check_temp_files(problem)
            else:
                fixed.append(self._add_problem(problem, INDEX, ACTIONS[problem.code]))
                gone += problem.evidence.get("ghosts", [])
                missing = problem.evidence.get("missing", layout.sidecars)
                fresh |= dict.fromkeys(own for own in missing if own not in self._damaged)
        if fresh or fixed:
            self._rebuild_index(gone, [own for own in fresh if own not in self._misnamed], fixed)

    def _check_session(self, own: str) -> None:
        state = self.reader.read(own, full=False)
        if state.rows_skipped and state.problems:
            state = self.reader.read(own)
        live = state.facts.live
        if live.state not in ("whole", "absent"):
            self._damaged[own] = live.state
        if (other := live.other_id(own)) is not None:
            self._misnamed[own] = values.text(other)
        repair = repair_session(state)
        if live.nameless and repair.data is None:
            self._misnamed[own] = ""  # an index cannot list it
        ids = []
        for problem in repair.problems:
            is_fixed = problem_key(problem) in repair.fixed
            finding = self._add_problem(problem, own, ACTIONS.get(problem.code) if is_fixed else None)
            ids += [finding] if is_fixed else []
        if repair.data is not None:
            self._replace(live.path, self._repaired.add(repair.data), ids, _digest(repair.data))
            entry = index.index_entry(own, sidecar.read(live.path, repair.data))
            self._changed[own] = index.encode(entry)

    def _check_temp_files(self, problem: TranscriptProblem) -> None:
        layout = self.reader.layout
        assert layout.folder is not None
        redundant = []
        for name in problem.evidence["names"]:
            own = session_of_temp_file(name)
            path = os.path.join(layout.folder, name)
            if is_redundant(path, self.reader.read(own) if own else None):
                redundant.append(path)
        action = ACTIONS["tmp_litter"] if redundant else None
        finding = self._add_problem(problem, f"{os.path.basename(layout.folder)}/", action)
        for path in redundant:
            self.steps.append(
                FileStep(path=path, before=digest_file(path), content=None, findings=(finding,))
            )

    def _rebuild_index(self, gone: list[str], fresh: list[str], fixed: list[str]) -> None:
        layout = self.reader.layout
        assert layout.folder is not None
        path = os.path.join(layout.folder, INDEX)
        listed = sessions_folder.all_entries(layout) if INDEX in layout.listed else []
        data = index.rebuild_index(listed, gone, fresh, self._index_entry)
        digest = _digest(data)
        if (before := digest_file(path)) is None or before.sha256 != digest:
            self._replace(path, self._repaired.add(data), fixed, digest)

    def _index_entry(self, own: str) -> dict[str, Any] | None:
        """The entry that the rebuilt index has for a session."""
        if own in self._changed:
            entry: dict[str, Any] = json.loads(self._changed[own])
            return entry
        path = self.reader.layout.sidecar(own)
        side = sidecar.load(path) if path is not None else None
        return index.index_entry(own, side) if side is not None and side.state == "whole" else None

    def _replace(self, path: str, content: Callable[[], bytes], ids: list[str], digest: str) -> None:
        self.steps.append(
            FileStep(path=path, before=digest_file(path), content=content, findings=tuple(ids), says=digest)
        )

    def _add(self, code: str, text: str, subject: str, **evidence: Any) -> str:
        return self._add_problem(TranscriptProblem(code, text, evidence), subject)

    def _add_problem(self, problem: TranscriptProblem, subject: str, action: str | None = None) -> str:
        finding = DoctorFinding(
            code=problem.code,
            subject=subject,
            text=problem.text,
            action=action,
            evidence={name: _storable(value) for name, value in problem.evidence.items()},
            id=finding_id(problem.code, subject, values.replace_lone_surrogates(problem_part(problem))),
        )
        self.findings.append(finding)
        return finding.id


def _storable(value: Any) -> Any:
    """A value that a finding can hold: half characters become replacement marks."""
    if isinstance(value, str):
        return values.replace_lone_surrogates(value)
    return json.loads(values.replace_lone_surrogates(json.dumps(values.storable(value), ensure_ascii=False)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
