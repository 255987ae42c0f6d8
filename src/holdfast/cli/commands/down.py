"""`holdfast down`: stop the hub; the agents keep running."""

from __future__ import annotations

import argparse
import os
import signal
import time

from holdfast.cli import common, output
from holdfast.client.discovery import running_hub
from holdfast.errors import StoreBusy
from holdfast.process.identity import is_alive

PATIENCE_S = 60.0


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return common.parser(
        name, "Stop the hub of this home. Agents keep running; the next hub takes them over."
    )


def run(options: argparse.Namespace) -> int:
    """Ask the hub to stop, and wait until it is gone."""
    home, _ = common.home_and_location(options)
    note = running_hub(home)
    if note is None:
        _report(options, None, "no hub is running here")
        return 0
    os.kill(note.pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while is_alive(note.pid, note.started, note.boot):
        if time.monotonic() > until:
            raise StoreBusy(f"the hub, process {note.pid}, does not stop", hint=f"kill -9 {note.pid}")
        time.sleep(0.05)
    _report(options, note.pid, f"the hub, process {note.pid}, has stopped; the agents keep running")
    return 0


def _report(options: argparse.Namespace, pid: int | None, text: str) -> None:
    if options.json:
        output.json_line({"stopped": pid})
    else:
        output.text(text)
