"""`holdfast doctor`: find damage, show a plan, apply or undo it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.cli import common, exit_status, output

if TYPE_CHECKING:
    from holdfast.doctor.plan import Diagnosis, DoctorFinding, Progress, RepairTarget
    from holdfast.doctor.receipts import Receipt
    from holdfast.home import Home
    from holdfast.store.location import Location

INDENT = "  "
ALONE = "none: left unchanged"


def show(found: Diagnosis) -> None:
    """Print all findings and their count; without a terminal, one line each."""
    width = output.columns()
    if width is None:
        rows = [(f.subject, f.code, f.text, f.action or ALONE) for f in found.shown]
        output.table(("SUBJECT", "CODE", "WHAT", "REPAIR"), rows)
    else:
        for line in lines(found.shown, max(width, 40)):
            output.text(line)
    safe = sum(finding.safe for finding in found.shown)
    told = "1 finding" if len(found.shown) == 1 else f"{len(found.shown)} findings"
    output.text(f"{found.path}: {told}, {safe} of them can be repaired safely, the others are left unchanged")


def lines(findings: Sequence[DoctorFinding], width: int) -> Iterator[str]:
    """The findings as lines, none wider than `width`."""
    repairable = [finding for finding in findings if finding.safe]
    if repairable:
        yield "CAN BE REPAIRED"
        for finding in repairable:
            yield from _wrapped(f"{finding.subject}  {finding.code}", width, 1)
            yield from _wrapped(finding.text, width, 2)
            yield from _wrapped(f"→ {finding.action}", width, 2)
    kinds: dict[str, dict[str, list[DoctorFinding]]] = {}
    for finding in findings:
        if not finding.safe:
            kinds.setdefault(finding.code, {}).setdefault(finding.text, []).append(finding)
    if kinds:
        yield "LEFT UNCHANGED"
    for code, told in sorted(kinds.items(), key=lambda kind: sum(map(len, kind[1].values()))):
        yield f"{INDENT}{code} ({sum(map(len, told.values()))})"
        for text, alike in told.items():
            yield from _wrapped(text, width, 2)
            yield from _listed([finding.subject for finding in alike], width, 3)
            for choice in {choice: None for finding in alike for choice in _choices(finding)}:
                yield from _wrapped(f"? {choice}", width, 3)


def _choices(finding: DoctorFinding) -> Iterator[str]:
    """The candidates that a person chooses from."""
    for candidate in finding.evidence.get("candidates", ()):
        told = ", ".join(f"{key} {value}" for key, value in candidate["keys"].items())
        yield f"{told}, from {candidate['path'] or candidate['source']}"


def _wrapped(text: str, width: int, depth: int) -> list[str]:
    begin = INDENT * depth
    return textwrap.wrap(
        output.plain(text), width, initial_indent=begin, subsequent_indent=begin, break_on_hyphens=False
    )


def _listed(names: Iterable[str], width: int, depth: int) -> Iterator[str]:
    """Names beside each other, as many as there is room for."""
    line = ""
    for name in map(output.plain, names):
        longer = f"{line}  {name}" if line else INDENT * depth + name
        if line and len(longer) > width:
            yield line
            longer = INDENT * depth + name
        line = longer
    if line:
        yield line


TARGETS = ("self", "hapi", "hermes")


def parser(name: str) -> argparse.ArgumentParser:
    """The target, and whether to repair it."""
    parser = common.parser(
        name,
        "Find damage. Nothing is changed without --apply or --undo. "
        f"Exits with {exit_status.FINDINGS} if it finds any.",
    )
    parser.add_argument("target", nargs="?", choices=TARGETS, help="self (default): the Holdfast home")
    parser.add_argument("path", nargs="?", help="for hapi or hermes: its home folder or its database")
    parser.add_argument(
        "--choose",
        metavar="SESSION=TOKEN",
        action="append",
        default=[],
        help="the conversation that belongs to a hapi session; repeat it with --apply",
    )
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--apply", metavar="PLAN", help="the plan's fingerprint, or a file with --json output")
    do.add_argument("--undo", metavar="RECEIPT", help="undo an --apply, byte for byte")
    return parser


def run(options: argparse.Namespace) -> int:
    """Findings and a plan; with --apply or --undo, what was done."""
    home, location = common.home_and_location(options)
    if options.undo is not None:
        return _undo(options, home)
    target = options.target or "self"
    if (target == "self") != (options.path is None):
        raise errors.BadInput(
            "doctor self takes no path"
            if target == "self"
            else f"doctor {target} needs the path of the install",
            hint="holdfast doctor [self | hapi PATH | hermes PATH]",
        )
    if options.apply is None:
        found = _look(options, target, home, location)
        _show(found, options)
        return exit_status.FINDINGS if found.shown else 0
    receipt = _apply(options, target, home, location)
    _show_receipt(receipt, options.json)
    return 0 if not receipt.problems else 1


def _look(options: argparse.Namespace, target: str, home: Home, location: Location) -> Diagnosis:
    if options.path is None:
        import asyncio

        from holdfast.doctor import own_home

        return asyncio.run(own_home.diagnose(home, location))
    from holdfast.doctor import operation

    with _progress() as progress:
        return operation.diagnose(home, _repair_target(options, target), progress)


def _apply(options: argparse.Namespace, target: str, home: Home, location: Location) -> Receipt:
    plan = _fingerprint(options.apply, target)
    with _progress() as progress:
        if options.path is None:
            import asyncio

            from holdfast.doctor import own_home as own

            return asyncio.run(own.apply(home, location, plan, progress))
        from holdfast.doctor import operation

        return operation.apply(home, _repair_target(options, target), plan, progress)


def _repair_target(options: argparse.Namespace, target: str) -> RepairTarget:
    from holdfast.peers import repair_target

    chosen = dict(choice.partition("=")[::2] for choice in options.choose)
    if not all(chosen.values()) or (chosen and target != "hapi"):
        raise errors.BadInput("--choose takes SESSION=TOKEN, and is for hapi")
    return repair_target(target, options.path, os.environ, chosen)


def _undo(options: argparse.Namespace, home: Home) -> int:
    from holdfast.doctor import operation
    from holdfast.doctor import own_home as own
    from holdfast.peers import repair_target

    receipt = operation.load_receipt(home, options.undo)
    if options.target not in (None, receipt.target):
        raise errors.BadInput(f"{receipt.id} is a receipt for {receipt.target}")
    if receipt.target == own.TARGET:
        own.undo(home, receipt)
    else:
        operation.undo(home, repair_target(receipt.target, receipt.path, os.environ), receipt)
    if options.json:
        output.json_line({**receipt.as_json(), "undone": True})
    else:
        for item in receipt.items:
            output.text(f"restored: {item.path}")
        output.text(f"{receipt.id} is undone")
    return 0


def _fingerprint(plan_or_file: str, target: str) -> str:
    """The fingerprint that `--apply` names: as it is, in a file of `doctor --json`, or `-` for stdin."""
    if plan_or_file != "-" and not os.path.exists(plan_or_file):
        return plan_or_file
    try:
        if plan_or_file == "-":
            plan = json.load(sys.stdin)
        else:
            with open(plan_or_file, encoding="utf-8") as file:
                plan = json.load(file)
        if plan["target"] != target:
            raise errors.BadInput(f"{plan_or_file} is a plan for {plan['target']}")
        return str(plan["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise errors.BadInput(
            f"{plan_or_file} is not a plan from `holdfast doctor --json`: {problem}"
        ) from None


def _show(found: Diagnosis, options: argparse.Namespace) -> None:
    if options.json:
        output.json_line(found.as_json())
        return
    if not found.shown:
        output.text("no damage found")
        return
    show(found)
    if not found.plan:
        return
    words = ["holdfast", "doctor", *(["self"] if options.path is None else [found.target, options.path])]
    words += [word for choice in options.choose for word in ("--choose", choice)]
    output.text(f"to repair: {shlex.join([*words, '--apply', found.fingerprint])}")
    if options.path is not None and (signs := _repair_target(options, found.target).running()):
        output.text(f"but {found.target} is running: {'; '.join(signs)}; stop it first")


def _show_receipt(receipt: Receipt, as_json: bool) -> None:
    if as_json:
        output.json_line(receipt.as_json())
        return
    for finding, action in receipt.actions.items():
        output.text(f"{finding}: {action}")
    for path in receipt.kept:
        output.text(f"  kept: {path}")
    for problem in receipt.problems:
        output.text(f"FAILED {problem}")
    output.text(f"{len(receipt.actions)} repaired, {len(receipt.problems)} failed")
    if receipt.sealed is None:
        output.text(f"to undo: holdfast doctor --undo {receipt.id}")


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A progress bar, erased when the work ends."""
    if not sys.stderr.isatty():
        yield None
        return
    from holdfast.cli.output import ProgressBar

    bar = ProgressBar("doctor", 1.0)
    try:
        yield lambda done, of, what: bar.at((done + 1) / of, what, begins=done == 0)
    finally:
        bar.end()
