"""Applying a plan: what was meant is on disk first, then each step, then the receipt; and undoing it.

Whenever it is cut short, the next operation on the same install finishes it or takes it back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast import durable_io, errors, timestamps
from holdfast.doctor import files, sqlite_rows
from holdfast.doctor import receipts as cases
from holdfast.doctor import restore as restoring
from holdfast.doctor.files import FileDigest, digest_bytes, digest_file, same_content
from holdfast.doctor.plan import Diagnosis, DoctorFinding, FileStep, Progress, RepairTarget, Step
from holdfast.doctor.receipts import Intent, OperationDir, Receipt, TouchedFile
from holdfast.home import Home
from holdfast.process.open_files import ENDINGS


def stage(case: OperationDir, found: Diagnosis, progress: Progress | None) -> Intent:
    """Backups of all that is touched, and what will be put in its place; on disk before the first step."""
    items = []
    for number, step in enumerate(found.steps):
        if progress is not None:
            progress(number, len(found.steps) + 1, f"a copy of {os.path.basename(step.path)}")
        items.append(_stage_one(case, number, step))
    intent = Intent(
        id=case.id,
        at=timestamps.now(),
        target=found.target,
        path=found.path,
        fingerprint=found.fingerprint,
        actions={f.id: f.action for f in found.findings if f.action},
        items=items,
    )
    case.write_intent(intent)
    return intent


def _stage_one(case: OperationDir, number: int, step: Step) -> TouchedFile:
    endings = ("",) if isinstance(step, FileStep) else ENDINGS
    before = {ending: files.back_up(step.path + ending, case.old(number, ending)) for ending in endings}
    if not isinstance(step, FileStep):
        return TouchedFile(
            kind="database",
            path=step.path,
            before=before,
            findings=step.findings,
            statements=list(step.statements),
            checks=list(step.checks),
        )
    was = before[""]
    if not same_content(was, step.before):
        raise errors.PlanChanged(f"{step.path} has changed since; nothing was done")
    after = None
    if step.content is not None:
        data = step.content()
        after = digest_bytes(data, 0o600 if was is None else was.mode)
        durable_io.create(case.new_bytes(number), [data])
    return TouchedFile(kind="file", path=step.path, before=before, after={"": after}, findings=step.findings)


# --- Applying a plan: what was meant is on disk first, then each step, then the receipt; and undoing it.


def apply(home: Home, patient: RepairTarget, plan: str, progress: Progress | None = None) -> Receipt:
    """Do what the plan of that fingerprint says; PlanChanged if the state is not what it was made from."""
    with exclusive(home, patient.path):
        _refuse_running(patient)
        cases.remove_unstarted(home)
        for case, intent in cases.interrupted_operations(home, patient.path):
            if intent.fingerprint == plan:
                return _carry_out(case, intent, progress, again=True)
            finish_interrupted(case, intent)
        found = patient.look(progress)
        if found.fingerprint != plan:
            raise _changed(home, patient, plan)
        if not found.steps:
            raise errors.Refused(f"there is nothing in {patient.path} that the doctor can mend")
        case = OperationDir.new(home)
        try:
            intent = stage(case, found, progress)
        except BaseException:
            case.remove()
            raise
        return _carry_out(case, intent, progress)


def diagnose(home: Home, patient: RepairTarget, progress: Progress | None = None) -> Diagnosis:
    """What the patient shows, and operations on it that were cut short; nothing is changed."""
    found = patient.look(progress)
    unfinished = [
        DoctorFinding(
            code="repair_unfinished",
            subject=case.id,
            text=f"an operation of {intent.at} was cut short; --apply {intent.fingerprint} finishes it",
            evidence={"fingerprint": intent.fingerprint},
        )
        for case, intent in cases.interrupted_operations(home, patient.path)
    ]
    return replace(found, unfinished=unfinished)


def undo(home: Home, patient: RepairTarget, receipt: Receipt) -> Receipt:
    """Give back every file that the operation touched, byte for byte; refused if any has changed since."""
    with exclusive(home, patient.path):
        _refuse_running(patient)
        return restore_files(OperationDir(home, receipt.id), receipt)


def restore_files(case: OperationDir, receipt: Receipt) -> Receipt:
    """Undo it; the caller sees to it that nobody else is at these files."""
    if case.undone():
        raise errors.Refused(f"{receipt.id} was undone before")
    if receipt.sealed is not None:
        raise errors.Refused(f"{receipt.id} cannot be undone: {receipt.sealed}")
    against = [why for item in receipt.items if (why := restoring.why_not(case, item))]
    if against:
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        raise errors.Refused(
            f"{receipt.id} cannot be undone: {against[0]}{more}; nothing was done",
            hint=f"the old bytes are kept in {case.folder}",
        )
    case.begin_undo()
    for number, item in reversed(list(zip(receipt.numbers, receipt.items, strict=True))):
        restoring.restore_item(case, number, item)
    case.end_undo()
    return receipt


def load_receipt(home: Home, name: str) -> Receipt:
    """The receipt of that name; NotFound if there is none."""
    case = OperationDir(home, name)
    found = case.receipt()
    if found is None and (intent := case.intent()) is not None:
        raise errors.Refused(
            f"{name} was cut short before its end",
            hint=f"finish it: holdfast doctor {intent.target} {intent.path} --apply {intent.fingerprint}",
        )
    if found is None:
        raise errors.NotFound(f"there is no receipt {name} in {home.path}")
    return found


@contextmanager
def exclusive(home: Home, path: str) -> Iterator[None]:
    """Be the only doctor at that folder, whichever home another one has; nothing is made in it."""
    durable_io.make_folder(os.path.join(home.path, cases.FOLDER))
    taken = []
    try:
        lock = os.path.join(home.path, cases.FOLDER, "lock")
        with durable_io.reported(lock):
            taken.append(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        taken.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for fd in taken:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.StoreBusy(f"another doctor is at work on {path}", hint="wait for it") from None
        yield
    finally:
        for fd in taken:
            os.close(fd)


def finish_interrupted(case: OperationDir, intent: Intent) -> Receipt | None:
    """End an operation that was cut short: keep what was done whole, take back the rest."""
    done = [number for number, item in enumerate(intent.items) if _is_done(item)]
    for number, item in enumerate(intent.items):
        for ending in item.before:
            files.remove_if_present(files.temp_path(item.path + ending, case.id))
        if number not in done and item.kind == "database" and _as_before(case, number, item):
            restoring.restore_database(case, number, item)
    if not done:
        case.remove()
        return None
    problems = ["it was cut short; what it had not done by then was left as it was"]
    return _end(case, intent, done, problems if len(done) < len(intent.items) else [], again=True)


def _changed(home: Home, patient: RepairTarget, plan: str) -> errors.PlanChanged:
    """Why a plan does not fit: it was carried out before, or something else has changed."""
    for case in cases.all_operations(home):
        receipt = case.receipt()
        if receipt is None or (receipt.path, receipt.fingerprint) != (patient.path, plan) or case.undone():
            continue
        return errors.PlanChanged(
            f"the plan {plan} was carried out before, as {receipt.id}",
            hint=f"to take it back: holdfast doctor --undo {receipt.id}",
        )
    return errors.PlanChanged(
        f"the plan {plan} was made from another state of {patient.path}",
        hint=f"look again with `holdfast doctor {patient.target} PATH` and apply the new plan",
    )


def _refuse_running(patient: RepairTarget) -> None:
    signs = patient.running()
    if signs:
        raise errors.ProgramRunning(
            f"{patient.target} is running: {'; '.join(signs)}; nothing was done", signs=signs
        )


def _carry_out(
    case: OperationDir, intent: Intent, progress: Progress | None = None, again: bool = False
) -> Receipt:
    """Every step that is not done yet; one that fails does not stop the rest."""
    done: list[int] = []
    problems: list[str] = []
    failure: errors.HoldfastError | OSError | None = None
    for number, item in enumerate(intent.items):
        if progress is not None:
            progress(number, len(intent.items) + 1, os.path.basename(item.path))
        try:
            if item.kind == "file":
                _put_file(case, number, item)
            else:
                _change_rows(case, number, item, again)
            done.append(number)
        except (errors.HoldfastError, OSError) as problem:
            failure = failure or problem
            problems.append(str(problem))
            if isinstance(problem, errors.DiskFull):
                break
    if not done and failure is not None:
        case.remove()
        raise failure
    return _end(case, intent, done, problems, again)


def _put_file(case: OperationDir, number: int, item: TouchedFile) -> None:
    assert item.after is not None
    before, after = item.before[""], item.after[""]
    files.remove_if_present(files.temp_path(item.path, case.id))
    if same_content(digest_file(item.path), after):
        return  # done by a run that was cut short
    if after is None:
        assert before is not None
        files.remove_file(item.path, before)
        return
    durable_io.make_folder(os.path.dirname(item.path))
    files.replace_file(case.new_bytes(number), item.path, before, after, files.temp_path(item.path, case.id))
    files.require_unchanged(item.path, after)


def _change_rows(case: OperationDir, number: int, item: TouchedFile, again: bool) -> None:
    if again and sqlite_rows.is_applied(item.path, item.checks):
        return
    if again:
        if not _as_before(case, number, item):
            raise errors.PlanChanged(f"{item.path} has changed since; nothing was done")
        restoring.restore_database(case, number, item)
    sqlite_rows.apply_changes(item.path, item.statements, None if again else item.before)
    if not sqlite_rows.is_applied(item.path, item.checks):
        restoring.restore_database(case, number, item)
        raise errors.StoreUnreadable(f"{item.path} did not read back as written; it was put back", hint="")


def _is_done(item: TouchedFile) -> bool:
    if item.kind == "file":
        assert item.after is not None
        return same_content(digest_file(item.path), item.after[""])
    return sqlite_rows.is_applied(item.path, item.checks)


def _as_before(case: OperationDir, number: int, item: TouchedFile) -> bool:
    """Whether a database's rows are those of its copy: a transaction that was cut short left no trace."""
    with restoring.database_copy(case, number, item) as copy:
        return sqlite_rows.same_rows(item.path, copy)


def _only_ours(case: OperationDir, number: int, item: TouchedFile) -> bool:
    """Whether a database holds what it held before and our change, and nothing that others wrote."""
    with restoring.database_copy(case, number, item) as copy:
        sqlite_rows.apply_changes(copy, item.statements)
        return sqlite_rows.same_rows(item.path, copy)


def _end(
    case: OperationDir, intent: Intent, done: Sequence[int], problems: list[str], again: bool
) -> Receipt:
    items, sealed = [], None
    for number in done:
        item = intent.items[number]
        if item.kind == "database":
            if again and not _only_ours(case, number, item):
                sealed = f"{item.path} was changed by others before the operation was finished"
            elif again:
                sqlite_rows.checkpoint(item.path)
            after: dict[str, FileDigest | None] = {"": digest_file(item.path)}
            item = TouchedFile(
                kind="database", path=item.path, before=item.before, after=after, findings=item.findings
            )
        items.append(item)
    mended = {finding for number in done for finding in intent.items[number].findings}
    receipt = Receipt(
        id=case.id,
        at=timestamps.now(),
        target=intent.target,
        path=intent.path,
        fingerprint=intent.fingerprint,
        actions={finding: action for finding, action in intent.actions.items() if finding in mended},
        items=items,
        numbers=list(done),
        problems=problems,
        sealed=sealed,
    )
    case.write_receipt(receipt)
    return receipt
