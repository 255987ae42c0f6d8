"""Before anything is touched: a copy of all that will be, and what is to be put in its place."""

from __future__ import annotations

import os

from holdfast import clock, errors, fsio
from holdfast.doctor import files
from holdfast.doctor.case import ENDINGS, Case, Intent, Item
from holdfast.doctor.finding import Diagnosis, Progress
from holdfast.doctor.mark import mark_of, same
from holdfast.doctor.step import FileStep, Step


def stage(case: Case, found: Diagnosis, progress: Progress | None) -> Intent:
    """Backups of all that is touched, and what will be put in its place; on disk before the first step."""
    items = []
    for number, step in enumerate(found.steps):
        if progress is not None:
            progress(number, len(found.steps) + 1, f"a copy of {os.path.basename(step.path)}")
        items.append(_stage_one(case, number, step))
    intent = Intent(
        id=case.id,
        at=clock.now(),
        target=found.target,
        path=found.path,
        fingerprint=found.fingerprint,
        actions={f.id: f.action for f in found.findings if f.action},
        items=items,
    )
    case.write_intent(intent)
    return intent


def _stage_one(case: Case, number: int, step: Step) -> Item:
    endings = ("",) if isinstance(step, FileStep) else ENDINGS
    before = {ending: files.keep(step.path + ending, case.old(number, ending)) for ending in endings}
    if not isinstance(step, FileStep):
        return Item(
            kind="database",
            path=step.path,
            before=before,
            findings=step.findings,
            statements=list(step.statements),
            checks=list(step.checks),
        )
    was = before[""]
    if not same(was, step.before):
        raise errors.PlanChanged(f"{step.path} has changed since; nothing was done")
    after = None
    if step.content is not None:
        data = step.content()
        after = mark_of(data, 0o600 if was is None else was.mode)
        fsio.create(case.new_bytes(number), [data])
    return Item(kind="file", path=step.path, before=before, after={"": after}, findings=step.findings)
