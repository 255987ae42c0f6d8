"""Kill a doctor at any line of an operation, many times: the old state or the new one, and a way on.

Run as a process of its own (`python -m tests.crash.doctor_campaign FOLDER ROUNDS SEED`), because it forks.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import apsw

from holdfast import errors
from holdfast.doctor import operation
from holdfast.doctor.files import digest_file
from holdfast.doctor.plan import Diagnosis, DoctorFinding, FileStep, Progress, RepairTarget
from holdfast.doctor.receipts import OperationDir, Receipt, all_operations
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from holdfast.peers.hermes.install import HermesInstall
from tests.support import hermes_holes
from tests.support.hapi_cases import copied, files, rows
from tests.support.hermes_builder import Made

EDITED = "edited-token-removed.db"
# Where a repair changes files. The peers only read; kills there would be most of them, and prove little.
WATCHED = (os.sep + os.path.join("holdfast", "doctor") + os.sep, os.sep + "durable_io.py")
RESTORING = os.path.join("doctor", "restore.py")
HOLES = ("wiped_with_backup", "torn_with_rows", "missing", "stale", "orphan_with_row", "behind_in_wal")

PLAIN = ("files", "hermes")  # kinds of which each file is for itself
KINDS = ("files", "rows", "hot", "hermes")


class Folder:
    """A target of plain files: one to replace, one to create, one to remove, many times."""

    target = "hermes"

    def __init__(self, path: str):
        self.path = path

    def running(self) -> list[str]:
        return []

    def diagnose(self, progress: Progress | None = None) -> Diagnosis:
        steps, findings = [], []
        for number in range(3):
            for name, want in (("replace", b"new" * 2000), ("make", b"made"), ("remove", None)):
                path = os.path.join(self.path, f"{name}-{number}")
                before = digest_file(path)
                if (None if before is None else before.size) == (None if want is None else len(want)):
                    continue
                found = DoctorFinding(
                    code=name, subject=f"{name}-{number}", text="it is not so", action="do it"
                )
                content: Callable[[], bytes] | None = None if want is None else (lambda data=want: data)
                findings.append(found)
                steps.append(FileStep(path=path, before=before, content=content, findings=(found.id,)))
        return Diagnosis(target="hermes", path=self.path, findings=findings, steps=steps)


def lines_of(job: Callable[[], object], only: str = "") -> int:
    """How many lines of ours a job runs, or of one module."""
    count = 0

    def local(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    sys.settrace(lambda frame, event, _: local if _watched(frame, only) else None)
    try:
        job()
    finally:
        sys.settrace(None)
    return count


def killed_at(number: int, job: Callable[[], object], only: str = "") -> bool:
    """Run a job in a child that kills itself before that line; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = number

        def local(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            if event == "line":
                left -= 1
                if left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return local

        sys.settrace(lambda frame, event, _: local if _watched(frame, only) else None)
        job()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def _watched(frame: FrameType, only: str) -> bool:
    name = frame.f_code.co_filename
    if only:
        return name.endswith(only)
    return any(part in name for part in WATCHED)


class Patientry:
    """One kind of repair_target: how it is made ill, and what of it counts."""

    def __init__(self, folder: Path, kind: str):
        self.kind = kind
        self.folder = folder / "repair_target"
        self.home = Home(str(folder / "home"))
        self.scratch = folder / "scratch"

    def begin(self) -> RepairTarget:
        for path in (self.folder, Path(self.home.path)):
            shutil.rmtree(path, ignore_errors=True)
        self.folder.mkdir()
        if self.kind == "files":
            for number in range(3):
                (self.folder / f"replace-{number}").write_bytes(b"old" * 5000)
                (self.folder / f"remove-{number}").write_bytes(b"litter")
            return Folder(str(self.folder))
        if self.kind == "hermes":
            return sick_hermes(self.folder / "hermes")
        path = copied(EDITED, self.folder)
        if self.kind == "hot":
            leave_in_wal(path)
        return HapiInstall(str(path), {"HOME": str(self.folder)})

    def state(self) -> Any:
        """What must be the old or the new one at every moment; of files, each for itself."""
        if self.kind in PLAIN:
            return files(self.folder)
        return rows(self.folder / "hapi.db", self.scratch)


def sick_hermes(path: Path) -> HermesInstall:
    """A home with several sessions to mend, an index, litter, and a hot database."""
    made = Made(path)
    for name in HOLES:
        hermes_holes.HOLES[name](made, name)
    made.index()
    hermes_holes.FOLDER_HOLES["litter"](made)
    return HermesInstall(str(path), {})


def leave_in_wal(path: Path) -> None:
    """Changes that are in the `-wal` only, as after a hub was killed."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.execute("pragma journal_mode = wal")
    db.execute("update sessions set tag = tag || ' in the wal'")
    db.close()
    assert Path(f"{path}-wal").stat().st_size > 0


class Lengths(NamedTuple):
    """How many lines there are to be killed at."""

    apply: int
    undo: int
    restoring: int  # of the undo, those between which files change


def one_round(patients: Patientry, chance: random.Random, lengths: Lengths) -> None:
    """Kill an apply, look at what is there, finish it; kill an undo, finish it."""
    repair_target = patients.begin()
    before, old = files(patients.folder), patients.state()
    plan = repair_target.diagnose().fingerprint
    killed_at(chance.randint(1, lengths.apply), lambda: operation.apply(patients.home, repair_target, plan))
    now = patients.state()
    receipt = _receipt(patients.home)
    if receipt is None:
        receipt = operation.apply(patients.home, repair_target, plan)
    new = patients.state()
    assert receipt.fingerprint == plan and not receipt.problems
    assert not repair_target.diagnose().plan
    if patients.kind in PLAIN:
        for name in set(old) | set(now) | set(new):
            assert now.get(name) in (old.get(name), new.get(name)) or ".holdfast-" in name, name
        assert not any(".holdfast-" in name for name in new)
    else:
        assert now in (old, new) and old != new
    again = receipt
    only, most = chance.choice([("", lengths.undo), (RESTORING, lengths.restoring)])
    killed_at(chance.randint(1, most), lambda: operation.undo(patients.home, repair_target, again), only)
    now = patients.state()
    if patients.kind not in PLAIN:
        assert now in (old, new)
    if not OperationDir(patients.home, receipt.id).undone():
        operation.undo(patients.home, repair_target, receipt)
    assert files(patients.folder) == before
    assert repair_target.diagnose().fingerprint == plan


def _receipt(home: Home) -> Receipt | None:
    found = [receipt for case in all_operations(home) if (receipt := case.receipt()) is not None]
    return found[0] if found else None


def lengths_of(patients: Patientry) -> Lengths:
    """How many lines an apply and its undo have."""
    undone = []
    for only in ("", RESTORING):
        repair_target = patients.begin()
        plan = repair_target.diagnose().fingerprint
        apply = lines_of(partial(operation.apply, patients.home, repair_target, plan))
        receipt = _receipt(patients.home)
        assert receipt is not None
        undo = partial(operation.undo, patients.home, repair_target, receipt)
        undone.append(lines_of(undo, only))
    return Lengths(apply, *undone)


def main(folder: str, rounds: int, seed: int) -> None:
    """Rounds of every kind."""
    chance = random.Random(seed)
    for kind in KINDS:
        patients = Patientry(Path(folder), kind)
        lengths = lengths_of(patients)
        for number in range(rounds):
            try:
                one_round(patients, chance, lengths)
            except (AssertionError, errors.HoldfastError, OSError):
                print(f"{kind}, round {number}, seed {seed}", file=sys.stderr)
                raise


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
