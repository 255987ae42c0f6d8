"""`holdfast init`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from holdfast.cli import common, output

if TYPE_CHECKING:
    from holdfast.home import Home
    from holdfast.recovery.findings import Report
    from holdfast.store.location import Location


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return common.parser(name, "Create the home and its store, or upgrade them to this version.")


def run(options: argparse.Namespace) -> int:
    """Create what is missing and heal what is there; nothing is replaced."""
    import asyncio

    home, location = common.home_and_location(options)
    report = asyncio.run(_init(home, location))
    if options.json:
        import msgspec

        output.json_line({"home": home.path, "report": msgspec.to_builtins(report)})
        return 0
    output.text(f"home   {home.path}")
    output.text(f"store  {location.address.split('@')[-1]}, {output.counted(report.sessions, 'session')}")
    for done in report.done:
        output.text(f"healed {done.subject}: {done.code}, {done.result}")
    for left in report.unhealed:
        output.text(f"not healed {left.subject}: {left.code}, {left.text}")
    for problem in report.problems:
        output.text(f"not healed: {problem}")
    return 0


async def _init(home: Home, location: Location) -> Report:
    from holdfast import config
    from holdfast.agents.registry import AgentRegistry
    from holdfast.recovery.heal import open_healed

    home.make()
    rules = AgentRegistry.from_config(config.load(home).get("agents", {})).token_rules()
    with home.lock("init"):
        store, report = await open_healed(location, home, rules)
        await store.close()
    return report
