"""`holdfast doctor`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast import errors
from holdfast.cli import findings, options, output

if TYPE_CHECKING:
    from holdfast.doctor.case import Receipt
    from holdfast.doctor.finding import Diagnosis, Progress
    from holdfast.doctor.patient import Patient
    from holdfast.home import Home
    from holdfast.store.location import Location

TARGETS = ("self", "hapi", "hermes")


def parser(name: str) -> argparse.ArgumentParser:
    """Which patient, and whether to operate."""
    made = options.parser(name, "Look for damage; nothing is changed without --apply or --undo.")
    made.add_argument("target", nargs="?", choices=TARGETS, help="self (the default): our own home")
    made.add_argument("path", nargs="?", help="of hapi or hermes: its home folder or its database")
    made.add_argument(
        "--choose",
        metavar="SESSION=TOKEN",
        action="append",
        default=[],
        help="the conversation that is meant, of several or as only you know; also with --apply",
    )
    do = made.add_mutually_exclusive_group()
    do.add_argument("--apply", metavar="PLAN", help="the plan's fingerprint, or a file with --json output")
    do.add_argument("--undo", metavar="RECEIPT", help="give back what an --apply changed, byte for byte")
    return made


def run(given: argparse.Namespace) -> int:
    """Findings and a plan; with --apply or --undo, what was done."""
    home, location = options.place(given)
    if given.undo is not None:
        return _undo(given, home)
    target = given.target or "self"
    if (target == "self") != (given.path is None):
        raise errors.BadInput(
            "doctor self takes no path" if target == "self" else f"say where the {target} install is",
            hint="holdfast doctor [self | hapi PATH | hermes PATH]",
        )
    if given.apply is None:
        _show(_look(given, target, home, location), given)
        return 0
    receipt = _apply(given, target, home, location)
    _show_receipt(receipt, given.json)
    return 0 if not receipt.problems else 1


def _look(given: argparse.Namespace, target: str, home: Home, location: Location) -> Diagnosis:
    if given.path is None:
        import asyncio

        from holdfast.doctor import own

        return asyncio.run(own.diagnose(home, location))
    from holdfast.doctor import operation

    with _progress() as progress:
        return operation.look(home, _patient(given, target), progress)


def _apply(given: argparse.Namespace, target: str, home: Home, location: Location) -> Receipt:
    plan = _fingerprint(given.apply, target)
    with _progress() as progress:
        if given.path is None:
            import asyncio

            from holdfast.doctor import own

            return asyncio.run(own.apply(home, location, plan, progress))
        from holdfast.doctor import operation

        return operation.apply(home, _patient(given, target), plan, progress)


def _patient(given: argparse.Namespace, target: str) -> Patient:
    from holdfast.doctor.patients import patient

    chosen = dict(choice.partition("=")[::2] for choice in given.choose)
    if not all(chosen.values()) or (chosen and target != "hapi"):
        raise errors.BadInput("--choose takes SESSION=TOKEN, and is for hapi")
    return patient(target, given.path, os.environ, chosen)


def _undo(given: argparse.Namespace, home: Home) -> int:
    from holdfast.doctor import operation, own
    from holdfast.doctor.patients import patient

    receipt = operation.receipt_of(home, given.undo)
    if given.target not in (None, receipt.target):
        raise errors.BadInput(f"{receipt.id} is a receipt for {receipt.target}")
    if receipt.target == own.TARGET:
        own.undo(home, receipt)
    else:
        operation.undo(home, patient(receipt.target, receipt.path, os.environ), receipt)
    if given.json:
        output.json_line({**receipt.as_json(), "undone": True})
    else:
        for item in receipt.items:
            output.text(f"as it was: {item.path}")
        print(f"{receipt.id} is undone")
    return 0


def _fingerprint(given: str, target: str) -> str:
    """What `--apply` was given: a fingerprint, a file of `doctor --json`, or `-` for stdin."""
    if given != "-" and not os.path.exists(given):
        return given
    try:
        if given == "-":
            plan = json.load(sys.stdin)
        else:
            with open(given, encoding="utf-8") as file:
                plan = json.load(file)
        if plan["target"] != target:
            raise errors.BadInput(f"{given} is a plan for {plan['target']}")
        return str(plan["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise errors.BadInput(f"{given} is not a plan of the doctor's: {problem}") from None


def _show(found: Diagnosis, given: argparse.Namespace) -> None:
    if given.json:
        output.json_line(found.as_json())
        return
    if not found.shown:
        print("nothing is wrong")
        return
    findings.show(found)
    if not found.plan:
        return
    words = ["holdfast", "doctor", *(["self"] if given.path is None else [found.target, given.path])]
    words += [word for choice in given.choose for word in ("--choose", choice)]
    print(f"to mend that: {shlex.join([*words, '--apply', found.fingerprint])}")
    if given.path is not None and (signs := _patient(given, found.target).running()):
        output.text(f"but {found.target} is running: {'; '.join(signs)}; end it first")


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
    print(f"{len(receipt.actions)} repaired, {len(receipt.problems)} failed")
    if receipt.sealed is None:
        print(f"to take it back: holdfast doctor --undo {receipt.id}")


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar that is gone when the work is over, however it ends."""
    if not sys.stderr.isatty():
        yield None
        return
    from holdfast.cli.progress import Bar

    bar = Bar("doctor", 1.0)
    try:
        yield lambda done, of, what: bar.at((done + 1) / of, what, begins=done == 0)
    finally:
        bar.end()
