"""`holdfast up`: the hub, its page and a worker, in one process."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from holdfast.cli import arguments, common, output
from holdfast.cli.common import current_user
from holdfast.cli.qr_code import qr_lines
from holdfast.errors import HoldfastError, StoreBusy

if TYPE_CHECKING:
    from holdfast.hub.server import HttpServer
    from holdfast.hub.state import HubState
    from holdfast.settings import HubSettings


def parser(name: str) -> argparse.ArgumentParser:
    """Where to listen."""
    parser = common.parser(name, "Run the hub: its API, its page and its worker. Prints the address.")
    parser.add_argument("--host", metavar="H", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port",
        metavar="P",
        type=arguments.whole_number,
        help="the port (default: 8420, or a free one if it is taken; 0: any)",
    )
    parser.add_argument("--qr", action="store_true", help="print a QR code of the address, for a phone")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the agents keep running."""
    import asyncio

    import msgspec
    import uvloop

    from holdfast import config, settings
    from holdfast.client.discovery import find_hub as door_of
    from holdfast.forges import settings as forges
    from holdfast.hub.lifecycle import live
    from holdfast.notify import settings as notify

    home, location = common.home_and_location(options)
    written = config.load(home)
    forges.read_forges(written)  # refuses what is wrong before anything is begun
    notify.read_notify(written)
    chosen = settings.settings_read(written)
    if options.host is not None:
        chosen = msgspec.structs.replace(chosen, host=options.host)
    if options.port is not None:
        settings.check_port(options.port)
        chosen = msgspec.structs.replace(chosen, port=options.port)

    looking: list[asyncio.Task[None]] = []

    def tell(door: HttpServer, hub: HubState) -> None:
        _tell(options, chosen, door, hub)
        if not options.json:
            looking.append(asyncio.create_task(_tell_adoptable(door)))

    _log_to_stderr()
    home.make()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with ExitStack() as held:
        try:
            held.enter_context(home.lock("up"))
        except StoreBusy as busy:
            if there := door_of(home):
                busy.hint = f"it is at {there.url}/?token={there.token}"
            raise
        runner = held.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        runner.run(live(home, location, dict(os.environ), current_user(), chosen, tell))
    return 0


class _CleanFormatter(logging.Formatter):
    """The log may go to a terminal, and messages may hold control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, its traceback included."""
        return output.clean(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_CleanFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def _tell_adoptable(door: HttpServer) -> None:
    """Say whose sessions could be adopted, once that is known."""
    try:
        found = await door.adopting.adoptable()
    except HoldfastError:  # the hub ends just now, or its store is away
        return
    for one in found:
        what = output.counted(one.sessions, "session")
        told = f"{what} not imported yet; import them with `holdfast import {one.agent}` or on the page"
        output.note(f"holdfast: {one.agent}: {told}")


def _tell(options: argparse.Namespace, chosen: HubSettings, door: HttpServer, hub: HubState) -> None:
    """Print the address, and which tasks have ended; what was healed is in the log, on the same stderr."""
    from holdfast.hub import addresses, auth
    from holdfast.settings import PORT

    healed, host = hub.healed, chosen.host
    if options.json:
        output.json_line({"url": door.url, "token": door.token, "pid": os.getpid()})
        sys.stdout.flush()
        return
    if healed is not None:
        for one in healed.settled:
            output.note(output.finished_line(one.task, one.session, one.status, one.reason))
    port = int(door.url.rpartition(":")[2])
    if chosen.port is None and port != PORT:
        output.note(f"holdfast: port {PORT} is taken by another program, so the hub listens on port {port}")
    url = door.url
    if not auth.is_loopback(host):
        output.note(f"holdfast: other machines can reach {host}; they need the token in this address")
    if addresses.is_wildcard(host):
        url = addresses.network_url(host, port) or door.url
        note = f"on this machine it is also at {door.url}" if url != door.url else "there is no network now"
        output.note(f"holdfast: {note}")
    address = f"{url}/?token={door.token}"
    output.text(address)
    if options.qr:
        for line in qr_lines(address):
            output.text(line)
        if auth.is_loopback(host):
            output.note("holdfast: only this machine can open it; `holdfast up --host` makes it reachable")
    sys.stdout.flush()
    if sys.stderr.isatty():
        output.note("holdfast: open this address in a browser; Ctrl-C stops the hub, the agents keep running")
