"""`holdfast open`: show the page of the hub that runs here."""

from __future__ import annotations

import argparse
import os
import sys
from urllib.parse import urlsplit

from holdfast.cli import common, output
from holdfast.client.discovery import HubAddress, find_hub
from holdfast.errors import HubGone

TIMEOUT_S = 10
# The hub leads a browser that knows names under localhost to the page's own host, with a code.
AS_BROWSER = {"Accept": "text/html", "User-Agent": "Mozilla/5.0 (holdfast open) Chrome/130.0"}


def parser(name: str) -> argparse.ArgumentParser:
    """Whether to start a browser."""
    parser = common.parser(name, "Open the page of the running hub in a browser, logged in.")
    parser.add_argument("--print", action="store_true", help="only print the address; it holds the token")
    return parser


def run(options: argparse.Namespace) -> int:
    """Open a browser if there is one, else print the address."""
    home, location = common.home_and_location(options)
    hub = find_hub(home, location)
    if hub is None:
        raise HubGone("no hub is running here")
    address = f"{hub.url}/?token={hub.token}"
    opened = not options.print and not options.json and _has_screen() and _browse(_login_url(hub) or address)
    if options.json:
        output.json_line({"url": hub.url, "token": hub.token})
    elif opened:
        output.text(f"opened {hub.url} in your browser")
    else:
        output.text(address)
    return 0


def _has_screen() -> bool:
    """Whether a browser window can be shown; a text browser would take over the terminal."""
    if sys.platform == "darwin" or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _browse(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)


def _login_url(hub: HubAddress) -> str | None:
    """An address with a code that works once: a browser's command line is visible to other users."""
    import http.client

    parts = urlsplit(hub.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/?token={hub.token}", headers=AS_BROWSER)
        answer = connection.getresponse()
        answer.read()
        location = answer.getheader("location") or ""
    except (OSError, http.client.HTTPException) as problem:
        raise HubGone(f"the hub at {hub.url} does not answer: {problem}") from None
    finally:
        connection.close()
    code = location.partition("?code=")[2]
    if not code:
        return None
    # Safari, the usual browser of macOS, does not find names under localhost.
    return f"{hub.url}/?code={code}" if sys.platform == "darwin" else location
