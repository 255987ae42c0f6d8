"""One install of Hermes: its sessions looked at one by one, then its folder as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import msgspec

from holdfast import errors
from holdfast.doctor.files import digest_file
from holdfast.doctor.plan import Diagnosis, DoctorFinding, FileStep, Progress
from holdfast.peers.hermes import findings as actions
from holdfast.peers.hermes import index, journal, merge, repair, sessions_folder, sidecar, values
from holdfast.peers.hermes import sessions_folder as listing
from holdfast.peers.hermes.conversation import comparable_all
from holdfast.peers.hermes.database import NEWEST, HermesDatabase, HermesDatabaseCache
from holdfast.peers.hermes.findings import problem_part, session_problems
from holdfast.peers.hermes.layout import DELETED, INDEX
from holdfast.peers.hermes.repair import repair_session
from holdfast.peers.hermes.session_state import SessionState, SessionStateReader
from holdfast.peers.hermes.sessions_folder import SessionsFolder
from holdfast.peers.hermes.sidecar import SidecarState
from holdfast.process import identity, open_files
from holdfast.transcripts.reader import TranscriptProblem

_OWNER = re.compile(r"\.tmp(?:\.recovery)?\.(\d{1,9})\.\d+$")
_SESSION = re.compile(r"([0-9A-Za-z_-]{1,200})(?:\.json(?:\.bak|\.reconcile|\.recover)?)?\.tmp(?:\..*)?")
YOUNG_S = 3600.0  # after so long the web UI itself sweeps them


def session_of_temp_file(name: str) -> str | None:
    """The session that such a file was for."""
    found = _SESSION.fullmatch(name)
    return found[1] if found and not name.startswith("_") else None


def is_redundant(path: str, chart: SessionState | None) -> bool:
    """Whether nobody writes it any more, and every message in it is in another copy too."""
    return not _is_written(path) and _says_nothing_new(path, chart)


def _is_written(path: str) -> bool:
    owner = _OWNER.search(path)
    try:
        age = time.time() - os.stat(path).st_mtime
    except OSError:
        return True
    return owner is not None and age < YOUNG_S and identity.started(int(owner[1])) is not None


def _says_nothing_new(path: str, chart: SessionState | None) -> bool:
    side = sidecar.load(path)
    if side.state == "unreadable":
        return False
    if not side.messages:
        return True
    if chart is None:
        return False
    copies = [
        repair.comparable_raw(chart.facts.live.messages),
        repair.comparable_raw(chart.facts.backup.messages),
        comparable_all(chart.rows),
    ]
    mine = repair.comparable_raw(side.messages)
    return any(not merge.plan_merge(copy, mine).after for copy in copies)


# --- Whether the web UI or its agent is at work on an install, and how that is known.

_WORDS = ("hermes", "server.py")


def running_signs(layout: SessionsFolder) -> list[str]:
    """One sentence for each process that was found."""
    found = [sign for path in layout.databases() for sign in open_files.database_open_in(path)]
    journals = [path for paths in layout.shards.values() for path in paths]
    journals += [path for own in sorted(layout.with_runs) for path in layout.run_journals(own)]
    found += open_files.open_in(journals)
    found += _writers(layout)
    found += _servers(layout)
    return list(dict.fromkeys(found))


def _writers(layout: SessionsFolder) -> list[str]:
    """Processes that began a turn, did not end it, and live; a journal's name has its writer's pid."""
    found = []
    for own, paths in layout.shards.items():
        for path in paths:
            pid = os.path.basename(path)[: -len(".jsonl")].rpartition("~")[2]
            if not pid.isdigit() or len(pid) > 9 or identity.started(int(pid)) is None:
                continue
            command = open_files.command(int(pid))
            if any(word in command for word in _WORDS) and any(
                not turn.ended for turn in journal.read_turns([path])[0]
            ):
                found.append(f"process {pid} ({command}) is answering in session {own}")
    return found


def _servers(layout: SessionsFolder) -> list[str]:
    """Servers of the web UI whose state folder is this one, as far as we may look at them."""
    if layout.folder is None or not os.path.isdir("/proc/self"):
        return []
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):  # gone meanwhile, or not ours to look at
            if not _is_server(name):
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                told = file.read().decode(errors="replace")
            env = dict(pair.partition("=")[::2] for pair in told.split("\0") if "=" in pair)
            if os.path.realpath(_sessions(env)) == os.path.realpath(layout.folder):
                found.append(f"process {name} ({open_files.command(int(name))}) serves this folder")
    return found


def _is_server(pid: str) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(65536).decode(errors="replace").split("\0")
    script = next((word for word in words if os.path.basename(word) in ("server.py", "bootstrap.py")), None)
    if script is None:
        return False
    folder = os.path.dirname(os.path.join(os.readlink(f"/proc/{pid}/cwd"), script))
    return os.path.exists(os.path.join(folder, "api", "session_recovery.py"))


def _sessions(env: Mapping[str, str]) -> str:
    home = env.get("HERMES_HOME") or os.path.join(env.get("HOME", ""), ".hermes")
    return os.path.join(env.get("HERMES_WEBUI_STATE_DIR") or os.path.join(home, "webui"), "sessions")


# --- One install of Hermes: its sessions looked at one by one, then its folder as a whole.

EVERY = 20  # sessions between two words about how far it has come


class HermesInstall:
    """A home of Hermes, the web UI's state folder in it, or its folder of sessions."""

    target = "hermes"

    def __init__(self, path: str, env: Mapping[str, str]):
        layout = SessionsFolder(path)
        if layout.folder is None or not (layout.databases() or layout.has_sessions()):
            raise errors.NotFound(
                f"there is no Hermes at {path}", hint="give its home, which has state.db or webui in it"
            )
        self._root = path
        self.path = os.path.realpath(layout.home or layout.folder)
        self._databases = HermesDatabaseCache()
        self._held = ExitStack()
        self._charting: SessionStateReader | None = None

    def look(self, progress: Progress | None = None) -> Diagnosis:
        """All findings and the steps that would mend them; nothing is changed by it, nor any time."""
        found = _HermesScan(self._open(), self)
        found.stores()
        found.sessions(progress)
        found.folder()
        state = hashlib.sha256(msgspec.json.encode(sorted(found.charting.layout.listed))).hexdigest()
        return Diagnosis(
            target=self.target, path=self.path, findings=found.findings, steps=found.steps, state=state
        )

    def running(self) -> list[str]:
        """For each sign that the program runs on these files, one sentence that says how it is known."""
        return running_signs(SessionsFolder(self._root))

    def mended(self, native_id: str, wanted: str) -> bytes:
        """What that session's sidecar should hold; PlanChanged if that is not what was planned."""
        charting = self._charting or self._open()
        data = repair_session(charting.chart(native_id)).data
        if data is None or _digest(data) != wanted:
            raise errors.PlanChanged(f"session {native_id} has changed since; nothing was done")
        return data

    def _open(self) -> SessionStateReader:
        """Everything as it is now; kept, because the steps of a plan are worked out again one by one."""
        self._held.close()
        layout = SessionsFolder(self._root)
        opened: list[tuple[str, HermesDatabase | None, str]] = []
        for path in layout.databases():
            db, why = self._held.enter_context(self._databases.reading(path, full=True))
            opened.append((path, db, why))
        self._charting = SessionStateReader(layout, opened, time.time())
        return self._charting

    def damage(self, db: HermesDatabase) -> list[str]:
        """What SQLite says against a database."""
        return self._databases.check(db)


class _HermesScan:
    """Findings and steps while they are gathered."""

    def __init__(self, charting: SessionStateReader, install: HermesInstall):
        self.findings: list[DoctorFinding] = []
        self.steps: list[FileStep] = []
        self.charting = charting
        self._install = install
        self._odd: dict[str, SidecarState] = {}  # sidecars that are not whole
        self._misnamed: dict[str, str] = {}
        self._changed: dict[str, bytes] = {}  # sessions that get other bytes, and what the index says then

    def stores(self) -> None:
        """Databases that cannot be read, or are of a kind that nobody knows; tombstones likewise."""
        if self.charting.deleted is None:
            text = "the list of deleted sessions cannot be read; no session that has no file is made again"
            self._tell(TranscriptProblem("tombstones_corrupt", text, {"name": DELETED}), DELETED)
        for path, db, why in self.charting.opened:
            name = os.path.relpath(path, self._install.path)
            if db is None or (db.damage and not db.readable):
                why = why or (db.damage[0] if db is not None else "")
                self._tell(
                    TranscriptProblem("store_damaged", f"it cannot be read: {why}", {"path": path}), name
                )
            elif not db.readable:
                text = "it has not the tables of hermes-agent; nothing is taken from it"
                self._tell(TranscriptProblem("schema_unknown", text, {"path": path}), name)
            elif not db.known:
                version = values.replace_lone_surrogates(str(db.version()))
                text = f"its schema {version} is not one of those up to {NEWEST}; nothing is taken from it"
                self._tell(
                    TranscriptProblem("schema_unknown", text, {"path": path, "version": version}), name
                )
            elif said := self._install.damage(db):
                self._tell(
                    TranscriptProblem("store_damaged", "SQLite says that it is damaged", {"said": said}), name
                )

    def sessions(self, progress: Progress | None) -> None:
        """Each session by itself; only what is wrong with it is kept."""
        ids = self.charting.ids()
        for number, own in enumerate(ids):
            if progress is not None and number % EVERY == 0:
                progress(number, len(ids), own)
            self._session(own)
        if progress is not None and ids:
            progress(len(ids) - 1, len(ids), "")

    def folder(self) -> None:
        """The index, files that are no sessions, and what crashes left."""
        layout = self.charting.layout
        gone: list[str] = []
        mended: list[str] = []
        fresh = dict.fromkeys(self._changed)
        for problem in sessions_folder.folder_problems(
            layout, self._odd, self._misnamed, self.charting.knows
        ):
            if problem.code == "foreign_file":
                for name in problem.evidence["names"]:
                    self._tell(
                        TranscriptProblem(problem.code, "it is no session of the web UI", {"name": name}),
                        name,
                    )
            elif problem.code == "tmp_litter":
                self._litter(problem)
            else:
                mended.append(self._tell(problem, INDEX, actions.ACTIONS[problem.code]))
                gone += problem.evidence.get("ghosts", [])
                missing = problem.evidence.get("missing", layout.sidecars)
                fresh |= dict.fromkeys(own for own in missing if own not in self._odd)
        if fresh or mended:
            self._index(gone, [own for own in fresh if own not in self._misnamed], mended)

    def _session(self, own: str) -> None:
        chart = self.charting.chart(own, full=False)
        if chart.in_step and session_problems(chart):
            chart = self.charting.chart(own)
        live = chart.facts.live
        if live.state not in ("whole", "absent"):
            self._odd[own] = live.state
        if (other := live.other_id(own)) is not None:
            self._misnamed[own] = values.text(other)
        found = repair_session(chart)
        if live.nameless and found.data is None:
            self._misnamed[own] = ""  # nothing that an index could list
        ids = []
        for problem in found.found:
            done = (problem.code, problem_part(problem)) in found.mended
            told = self._tell(problem, own, actions.ACTIONS.get(problem.code) if done else None)
            ids += [told] if done else []
        if found.data is not None:
            digest = _digest(found.data)
            content = partial(self._install.mended, own, digest)
            self._put(live.path, content, ids, digest)
            after = index.index_entry(own, sidecar.read(live.path, found.data))
            self._changed[own] = index.encode(after)

    def _litter(self, problem: TranscriptProblem) -> None:
        layout = self.charting.layout
        assert layout.folder is not None
        names = problem.evidence["names"]
        spare = []
        for name in names:
            own = session_of_temp_file(name)
            path = os.path.join(layout.folder, name)
            if is_redundant(path, self.charting.chart(own) if own else None):
                spare.append(path)
        action = actions.ACTIONS["tmp_litter"] if spare else None
        told = self._tell(problem, f"{os.path.basename(layout.folder)}/", action)
        for path in spare:
            self.steps.append(FileStep(path=path, before=digest_file(path), content=None, findings=(told,)))

    def _index(self, gone: list[str], fresh: list[str], mended: list[str]) -> None:
        layout = self.charting.layout
        assert layout.folder is not None
        path = os.path.join(layout.folder, INDEX)
        data = partial(self._rebuilt, gone, fresh)
        digest = _digest(data())
        if (before := digest_file(path)) is None or before.sha256 != digest:
            self._put(path, data, mended, digest)

    def _rebuilt(self, gone: list[str], fresh: list[str]) -> bytes:
        layout = self.charting.layout
        listed = listing.all_entries(layout) if INDEX in layout.listed else []
        return index.rebuild_index(listed, gone, fresh, self._entry)

    def _entry(self, own: str) -> dict[str, Any] | None:
        """What the index will say of a session."""
        if own in self._changed:
            made: dict[str, Any] = json.loads(self._changed[own])
            return made
        path = self.charting.layout.sidecar(own)
        side = sidecar.load(path) if path is not None else None
        return index.index_entry(own, side) if side is not None and side.state == "whole" else None

    def _put(self, path: str, content: Callable[[], bytes], ids: list[str], digest: str) -> None:
        before = digest_file(path)
        self.steps.append(
            FileStep(path=path, before=before, content=content, findings=tuple(ids), says=digest)
        )

    def _tell(self, problem: TranscriptProblem, subject: str, action: str | None = None) -> str:
        finding = DoctorFinding(
            code=problem.code,
            subject=subject,
            text=problem.text,
            action=action,
            evidence={name: _told(value) for name, value in problem.evidence.items()},
            part=values.replace_lone_surrogates(problem_part(problem)),
        )
        self.findings.append(finding)
        return finding.id


def _told(value: Any) -> Any:
    """A value as a finding can hold it: with marks for halves of characters."""
    if isinstance(value, str):
        return values.replace_lone_surrogates(value)
    return json.loads(values.replace_lone_surrogates(json.dumps(values.storable(value), ensure_ascii=False)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
