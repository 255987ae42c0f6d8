"""`holdfast doctor`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdfast.cli import options, output

if TYPE_CHECKING:
    from holdfast.doctor.own import Diagnosis, Receipt
    from holdfast.recover.heal import Progress


def parser(name: str) -> argparse.ArgumentParser:
    """Which patient, and whether to operate."""
    made = options.parser(name, "Look for damage; nothing is changed without --apply.")
    made.add_argument("target", nargs="?", default="self", choices=("self",), help="self: our own home")
    made.add_argument("--apply", metavar="PLAN", help="the plan's fingerprint, or a file with --json output")
    return made


def run(given: argparse.Namespace) -> int:
    """Findings and a plan; with --apply, what was done."""
    import asyncio

    from holdfast.doctor import own

    home, location = options.place(given)
    if given.apply is None:
        _show(asyncio.run(own.diagnose(home, location)), given.json)
        return 0
    plan = own.read_plan(given.apply)
    receipt = asyncio.run(own.apply(home, location, plan, _progress()))
    _show_receipt(receipt, given.json)
    return 0 if not receipt.problems else 1


def _show(found: Diagnosis, as_json: bool) -> None:
    if as_json:
        output.json_line(found.as_json())
        return
    if not found.findings:
        print("nothing is wrong")
        return
    output.table(
        ("SUBJECT", "CODE", "WHAT", "REPAIR"),
        [(f.subject, f.code, f.text, f.action or "none: left alone") for f in found.findings],
    )
    if found.plan:
        print(f"to do all of this: holdfast doctor self --apply {found.fingerprint}")


def _show_receipt(receipt: Receipt, as_json: bool) -> None:
    if as_json:
        output.json_line(receipt.as_json())
        return
    for done in receipt.done:
        output.text(f"{done.subject}: {done.result}")
        for path in done.kept:
            output.text(f"  kept: {path}")
    for problem in receipt.problems:
        output.text(f"FAILED {problem}")
    print(f"{len(receipt.done)} repaired, {len(receipt.problems)} failed")


def _progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None

    def show(done: int, of: int, what: str) -> None:
        print(f"\r{done + 1}/{of} {what:<20}", end="", file=sys.stderr, flush=True)
        if done + 1 == of:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)

    return show
