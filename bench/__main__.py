"""`python -m bench [SUITE …] [--quick] [--json FILE]`: run, print a table, optionally keep JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from bench import (
    agents,
    append,
    command,
    doctor,
    doctor_hermes,
    heal,
    history,
    hub,
    importing,
    reading,
    running,
    start,
)
from bench.measure import Measured


async def _page(quick: bool) -> list[Measured]:
    from bench import page

    return await page.run(quick)


SUITES = {
    "append": append.run,
    "read": reading.run,
    "heal": heal.run,
    "command": command.run,
    "start": start.run,
    "run": running.run,
    "history": history.run,
    "import": importing.run,
    "doctor": doctor.run,
    "doctor-hermes": doctor_hermes.run,
    "hub": hub.run,
}

# What they need must be installed first; the page brings a browser library that the rest does without.
ON_REQUEST = {"agents": agents.run, "page": _page}


def main() -> int:
    """Run the suites that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    suites = SUITES | ON_REQUEST
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suites))
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    given = parser.parse_args()
    unknown = set(given.suites) - set(suites)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    results: list[Measured] = []
    for name in given.suites or SUITES:
        print(f"… {name}", file=sys.stderr)
        results += asyncio.run(suites[name](given.quick))
    _table(results)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump([m.as_json() for m in results], file, indent=1)
    return 0


def _table(results: list[Measured]) -> None:
    rows: list[tuple[str, ...]] = [("what", "ours", "baseline", "", "ratio", "spread", "budget", "")]
    rows += [m.row() for m in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
