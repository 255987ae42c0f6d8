"""The page in a real browser: until it is there, and until a session's end is seen; beside a bare page."""

from __future__ import annotations

import asyncio
import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable

from playwright.async_api import Browser, async_playwright

from bench.measure import Measured, compare
from tests.browser.conftest import ARGUMENTS
from tests.browser.hub_process import HubProcess
from tests.support.system_packages import CHROMIUM

BARE = b"<!doctype html><html lang=en><title>bare</title><main id=main>Here</main></html>"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class _Bare(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """The same few bytes for all."""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(BARE)))
        self.end_headers()
        self.wfile.write(BARE)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


async def run(quick: bool) -> list[Measured]:
    """All of it."""
    scale = 10 if quick else 1
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Bare)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bare = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        with tempfile.TemporaryDirectory() as folder:
            return await _measure(folder, bare, scale)
    finally:
        server.shutdown()
        server.server_close()


async def _measure(folder: str, bare: str, scale: int) -> list[Measured]:
    hub = HubProcess(folder)
    sessions, length = 10_000 // scale, 20_000 // scale
    await asyncio.to_thread(_fill, hub.home, "many", sessions)
    session = await asyncio.to_thread(_fill, hub.home, "long", length)
    await asyncio.to_thread(hub.start)
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
            theirs = _timed(browser, bare, "#main", None)
            results = [
                await compare(
                    f"page with {sessions:,} sessions: load to the list",
                    _timed(browser, f"{hub.url}/#/tasks", "li.session", hub),
                    "a bare static page",
                    theirs,
                    speed=False,
                ),
                await compare(
                    f"session of {length:,} records: load to its last record",
                    _timed(browser, f"{hub.url}/#/s/{session}", f"article[data-seq='{length - 1}']", hub),
                    "a bare static page",
                    theirs,
                    speed=False,
                ),
                await compare(
                    f"session of {length:,} records: load to the whole strip",
                    _timed(browser, f"{hub.url}/#/s/{session}", ".strip[data-whole]", hub),
                    "a bare static page",
                    theirs,
                    speed=False,
                ),
            ]
            await browser.close()
            return results
    finally:
        await asyncio.to_thread(hub.stop)


def _fill(home: str, what: str, number: int) -> str:
    command = [sys.executable, "-m", "tests.browser.fill", home, what, str(number)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()


def _timed(
    browser: Browser, url: str, selector: str, hub: HubProcess | None
) -> Callable[[], Awaitable[float]]:
    """Open an address in a browser that has nothing cached, until something is seen."""

    async def once() -> float:
        context = await browser.new_context(viewport={"width": 1280, "height": 800})
        if hub is not None:
            name = f"holdfast_{hub.url.rsplit(':', 1)[1]}"
            await context.add_cookies([{"name": name, "value": hub.token, "url": hub.url}])
        page = await context.new_page()
        started = time.perf_counter()
        await page.goto(url, wait_until="commit")
        await page.wait_for_selector(selector, state="attached", timeout=120_000)
        took = time.perf_counter() - started
        await context.close()
        return took

    return once
