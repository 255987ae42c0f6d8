"""Applies a plan and undoes it: the intent is on disk first, then each step, then the receipt.

If a repair is interrupted, the next one on the same install finishes it or rolls it back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast import durable_io, errors, timestamps
from holdfast.doctor import files, receipts, restore, sqlite_rows
from holdfast.doctor.files import FileDigest, digest_bytes, digest_file, same_content
from holdfast.doctor.plan import Diagnosis, DoctorFinding, FileStep, Progress, RepairTarget, Step
from holdfast.doctor.receipts import Intent, OperationDir, Receipt, TouchedFile
from holdfast.home import Home
from holdfast.process.open_files import ENDINGS


def stage(directory: OperationDir, diagnosis: Diagnosis, progress: Progress | None) -> Intent:
    """Write the backups, the new bytes and the intent to disk, before the first step."""
    items = []
    for number, step in enumerate(diagnosis.steps):
        if progress is not None:
            progress(number, len(diagnosis.steps) + 1, f"backup of {os.path.basename(step.path)}")
        items.append(_stage_one(directory, number, step))
    intent = Intent(
        id=directory.id,
        at=timestamps.now(),
        target=diagnosis.target,
        path=diagnosis.path,
        fingerprint=diagnosis.fingerprint,
        actions={f.id: f.action for f in diagnosis.findings if f.action},
        items=items,
    )
    directory.write_intent(intent)
    return intent


def _stage_one(directory: OperationDir, number: int, step: Step) -> TouchedFile:
    endings = ("",) if isinstance(step, FileStep) else ENDINGS
    before = {ending: files.back_up(step.path + ending, directory.old(number, ending)) for ending in endings}
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
        raise errors.PlanChanged(f"{step.path} changed since the diagnosis; nothing was changed")
    after = None
    if step.content is not None:
        data = step.content()
        after = digest_bytes(data, 0o600 if was is None else was.mode)
        durable_io.create(directory.new_bytes(number), [data])
    return TouchedFile(kind="file", path=step.path, before=before, after={"": after}, findings=step.findings)


def apply(home: Home, target: RepairTarget, plan: str, progress: Progress | None = None) -> Receipt:
    """Apply the plan with that fingerprint; PlanChanged if the state is not the one that it was made from."""
    with exclusive(home, target.path):
        _refuse_running(target)
        receipts.remove_unstarted(home)
        for directory, intent in receipts.interrupted_operations(home, target.path):
            if intent.fingerprint == plan:
                return _run_steps(directory, intent, progress, again=True)
            finish_interrupted(directory, intent)
        diagnosis = target.diagnose(progress)
        if diagnosis.fingerprint != plan:
            raise _plan_changed(home, target, plan)
        if not diagnosis.steps:
            raise errors.Refused(f"the doctor can repair nothing in {target.path}")
        directory = OperationDir.new(home)
        try:
            intent = stage(directory, diagnosis, progress)
        except BaseException:
            directory.remove()
            raise
        return _run_steps(directory, intent, progress)


def diagnose(home: Home, target: RepairTarget, progress: Progress | None = None) -> Diagnosis:
    """Diagnose an install, interrupted repairs included; it changes nothing."""
    diagnosis = target.diagnose(progress)
    unfinished = [
        DoctorFinding(
            code="repair_unfinished",
            subject=directory.id,
            text=f"a repair from {intent.at} was interrupted; --apply {intent.fingerprint} finishes it",
            evidence={"fingerprint": intent.fingerprint},
        )
        for directory, intent in receipts.interrupted_operations(home, target.path)
    ]
    return replace(diagnosis, unfinished=unfinished)


def undo(home: Home, target: RepairTarget, receipt: Receipt) -> Receipt:
    """Restore every file that a repair touched, byte for byte; Refused if one changed since."""
    with exclusive(home, target.path):
        _refuse_running(target)
        return restore_files(OperationDir(home, receipt.id), receipt)


def restore_files(directory: OperationDir, receipt: Receipt) -> Receipt:
    """Undo a repair; the caller makes sure that nobody else uses these files."""
    if directory.undone():
        raise errors.Refused(f"{receipt.id} is already undone")
    if receipt.sealed is not None:
        raise errors.Refused(f"{receipt.id} cannot be undone: {receipt.sealed}")
    reasons = [why for item in receipt.items if (why := restore.why_not(directory, item))]
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise errors.Refused(
            f"{receipt.id} cannot be undone: {reasons[0]}{more}; nothing was changed",
            hint=f"the old bytes are in {directory.folder}",
        )
    directory.begin_undo()
    for number, item in reversed(list(zip(receipt.numbers, receipt.items, strict=True))):
        restore.restore_item(directory, number, item)
    directory.end_undo()
    return receipt


def load_receipt(home: Home, name: str) -> Receipt:
    """The receipt with that id; NotFound if there is none."""
    directory = OperationDir(home, name)
    receipt = directory.receipt()
    if receipt is None and (intent := directory.intent()) is not None:
        raise errors.Refused(
            f"{name} was interrupted before it finished",
            hint=f"finish it: holdfast doctor {intent.target} {intent.path} --apply {intent.fingerprint}",
        )
    if receipt is None:
        raise errors.NotFound(f"there is no receipt {name} in {home.path}")
    return receipt


@contextmanager
def exclusive(home: Home, path: str) -> Iterator[None]:
    """Lock a folder against other doctors, of any home; nothing is created in it."""
    durable_io.make_folder(os.path.join(home.path, receipts.FOLDER))
    locks = []
    try:
        lock = os.path.join(home.path, receipts.FOLDER, "lock")
        with durable_io.reported(lock):
            locks.append(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        locks.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for fd in locks:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.StoreBusy(
                    f"another doctor is working on {path}", hint="wait until it is done"
                ) from None
        yield
    finally:
        for fd in locks:
            os.close(fd)


def finish_interrupted(directory: OperationDir, intent: Intent) -> Receipt | None:
    """End an interrupted repair: keep the steps that are complete, roll back the others."""
    done = [number for number, item in enumerate(intent.items) if _is_done(item)]
    for number, item in enumerate(intent.items):
        for ending in item.before:
            files.remove_if_present(files.temp_path(item.path + ending, directory.id))
        if number not in done and item.kind == "database" and _has_old_rows(directory, number, item):
            restore.restore_database(directory, number, item)
    if not done:
        directory.remove()
        return None
    problems = ["the repair was interrupted; the files of its remaining steps were left as they were"]
    return _finish(directory, intent, done, problems if len(done) < len(intent.items) else [], again=True)


def _plan_changed(home: Home, target: RepairTarget, plan: str) -> errors.PlanChanged:
    """Why a plan does not match: it was applied before, or something changed."""
    for directory in receipts.all_operations(home):
        receipt = directory.receipt()
        if (
            receipt is None
            or (receipt.path, receipt.fingerprint) != (target.path, plan)
            or directory.undone()
        ):
            continue
        return errors.PlanChanged(
            f"the plan {plan} was already applied, as {receipt.id}",
            hint=f"to undo it: holdfast doctor --undo {receipt.id}",
        )
    return errors.PlanChanged(
        f"the plan {plan} was made from another state of {target.path}",
        hint=f"run `holdfast doctor {target.target} PATH` again and apply the new plan",
    )


def _refuse_running(target: RepairTarget) -> None:
    signs = target.running()
    if signs:
        raise errors.ProgramRunning(
            f"{target.target} is running: {'; '.join(signs)}; nothing was changed", signs=signs
        )


def _run_steps(
    directory: OperationDir, intent: Intent, progress: Progress | None = None, again: bool = False
) -> Receipt:
    """Run every step that is not done yet; a failed step does not stop the others."""
    done: list[int] = []
    problems: list[str] = []
    failure: errors.HoldfastError | OSError | None = None
    for number, item in enumerate(intent.items):
        if progress is not None:
            progress(number, len(intent.items) + 1, os.path.basename(item.path))
        try:
            if item.kind == "file":
                _replace_file(directory, number, item)
            else:
                _change_rows(directory, number, item, again)
            done.append(number)
        except (errors.HoldfastError, OSError) as problem:
            failure = failure or problem
            problems.append(str(problem))
            if isinstance(problem, errors.DiskFull):
                break
    if not done and failure is not None:
        directory.remove()
        raise failure
    return _finish(directory, intent, done, problems, again)


def _replace_file(directory: OperationDir, number: int, item: TouchedFile) -> None:
    assert item.after is not None
    before, after = item.before[""], item.after[""]
    files.remove_if_present(files.temp_path(item.path, directory.id))
    if same_content(digest_file(item.path), after):
        return  # an interrupted run did it
    if after is None:
        assert before is not None
        files.remove_file(item.path, before)
        return
    durable_io.make_folder(os.path.dirname(item.path))
    files.replace_file(
        directory.new_bytes(number), item.path, before, after, files.temp_path(item.path, directory.id)
    )
    files.require_unchanged(item.path, after)


def _change_rows(directory: OperationDir, number: int, item: TouchedFile, again: bool) -> None:
    if again and sqlite_rows.is_applied(item.path, item.checks):
        return
    if again:
        if not _has_old_rows(directory, number, item):
            raise errors.PlanChanged(f"{item.path} changed since the diagnosis; nothing was changed")
        restore.restore_database(directory, number, item)
    sqlite_rows.apply_changes(item.path, item.statements, None if again else item.before)
    if not sqlite_rows.is_applied(item.path, item.checks):
        restore.restore_database(directory, number, item)
        raise errors.StoreUnreadable(f"{item.path} did not read back as written; it was restored", hint="")


def _is_done(item: TouchedFile) -> bool:
    if item.kind == "file":
        assert item.after is not None
        return same_content(digest_file(item.path), item.after[""])
    return sqlite_rows.is_applied(item.path, item.checks)


def _has_old_rows(directory: OperationDir, number: int, item: TouchedFile) -> bool:
    """Whether a database has the rows of its backup: an interrupted transaction left no trace."""
    with restore.database_copy(directory, number, item) as copy:
        return sqlite_rows.same_rows(item.path, copy)


def _has_only_our_change(directory: OperationDir, number: int, item: TouchedFile) -> bool:
    """Whether a database has its old rows with our change, and nothing that others wrote."""
    with restore.database_copy(directory, number, item) as copy:
        sqlite_rows.apply_changes(copy, item.statements)
        return sqlite_rows.same_rows(item.path, copy)


def _finish(
    directory: OperationDir, intent: Intent, done: Sequence[int], problems: list[str], again: bool
) -> Receipt:
    items, sealed = [], None
    for number in done:
        item = intent.items[number]
        if item.kind == "database":
            if again and not _has_only_our_change(directory, number, item):
                sealed = f"another program changed {item.path} before the repair was finished"
            elif again:
                sqlite_rows.checkpoint(item.path)
            after: dict[str, FileDigest | None] = {"": digest_file(item.path)}
            item = TouchedFile(
                kind="database", path=item.path, before=item.before, after=after, findings=item.findings
            )
        items.append(item)
    repaired = {finding for number in done for finding in intent.items[number].findings}
    receipt = Receipt(
        id=directory.id,
        at=timestamps.now(),
        target=intent.target,
        path=intent.path,
        fingerprint=intent.fingerprint,
        actions={finding: action for finding, action in intent.actions.items() if finding in repaired},
        items=items,
        numbers=list(done),
        problems=problems,
        sealed=sealed,
    )
    directory.write_receipt(receipt)
    return receipt
