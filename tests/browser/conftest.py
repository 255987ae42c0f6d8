"""A hub and a browser for the page's tests; both are real."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tests.browser.hub_process import LIMIT_S, HubProcess
from tests.support.system_packages import CHROMIUM

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TEST_S = 240  # less than what `make test` gives a test: that ends it where Playwright cannot go on
SHOTS = Path(__file__).parent / "shots"
WIDE, PHONE = (1280, 800), (390, 780)
# Rows are judged when they come into view; what is below is not waited for.
JUDGED = """() => ![...document.querySelectorAll('.chip:disabled')].some((chip) => {
  const place = chip.getBoundingClientRect();
  return place.width && place.top < innerHeight && place.bottom > 0;
})"""
# 503: what a hub answers while it ends.
EXPECTED = re.compile(r"ERR_CONNECTION_|ERR_INCOMPLETE_CHUNKED|status of (4\d\d|503)|ERR_EMPTY_RESPONSE")


expect.set_options(timeout=60_000)  # the machine may be slow


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for all tests of a worker."""
    found = HubProcess(str(tmp_path_factory.mktemp("hub")))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def cold_hub(tmp_path: Path) -> Iterator[HubProcess]:
    """A hub that a test starts itself."""
    found = HubProcess(str(tmp_path))
    yield found
    found.stop()


@pytest.fixture
def own_hub(cold_hub: HubProcess) -> HubProcess:
    """A hub that a test may kill."""
    cold_hub.start()
    return cold_hub


@pytest.fixture(scope="module")  # not longer: its event loop is in the way of tests that have their own
def playwright() -> Iterator[Playwright]:
    """Drives the browser."""
    with sync_playwright() as found:
        yield found


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Playwright waits for ever for a browser that does not answer: after so long, it is ended."""
    late = threading.Timer(seconds, end_browsers)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


def end_browsers() -> None:
    """Those that this process has started; whatever waits for one fails then."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "chrom" in process.name():
                process.kill()


class Browsers:
    """Debian's Chromium; a new one where the last one was ended."""

    def __init__(self, playwright: Playwright):
        self._playwright = playwright
        self._found: Browser | None = None

    def one(self) -> Browser:
        """One that answers."""
        if self._found is None or not self._found.is_connected():
            assert os.path.exists(CHROMIUM), "no Chromium: python -m tests.support.system_packages"
            self._found = self._playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        return self._found

    def close(self) -> None:
        """End it."""
        if self._found is not None:
            with limited(LIMIT_S):
                self._found.close()


@pytest.fixture(scope="module")
def browsers(playwright: Playwright) -> Iterator[Browsers]:
    """Without Chromium the tests fail."""
    found = Browsers(playwright)
    yield found
    found.close()


class Window:
    """Pages of one test; what goes wrong in them fails it."""

    def __init__(self, browser: Browser):
        self._browser = browser
        self.wrong: list[str] = []
        self.outside: list[str] = []

    def open(
        self,
        hub: HubProcess,
        path: str = "/",
        size: tuple[int, int] = WIDE,
        dark: bool = False,
        offline: bool = False,
    ) -> Page:
        """The page at an address within it; `offline`: with its service worker, which others go without."""
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
            timezone_id="UTC",
            service_workers="allow" if offline else "block",
        )
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("pageerror", lambda problem: self.wrong.append(str(problem)))
        page.on("console", self._heard)
        own = (hub.url, hub.page_url)
        page.on("request", lambda r: None if r.url.startswith(own) else self.outside.append(r.url))
        page.goto(f"{hub.url}/?token={hub.token}")
        page.goto(f"{hub.page_url}/#{path}")
        page.wait_for_selector("#line.live")
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not EXPECTED.search(message.text):
            self.wrong.append(message.text)


@pytest.fixture
def window(browsers: Browsers) -> Iterator[Window]:
    """Opens pages."""
    browser = browsers.one()
    found = Window(browser)
    with limited(TEST_S):
        yield found
    with limited(LIMIT_S):
        for context in browser.contexts:
            context.close()
    assert found.wrong == []
    assert [url for url in found.outside if not url.startswith("data:")] == []


def fill(hub: HubProcess, what: str, number: int = 0) -> str:
    """Put a session into the hub's home by way of another process: its id."""
    command = [sys.executable, "-m", "tests.browser.fill", hub.home, what, str(number)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root, timeout=TEST_S)
    return done.stdout.strip()


def check(page: Page) -> None:
    """No fault that axe can find, and nothing beside the screen."""
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    told = [
        (fault["id"], [(node["html"][:160], node["failureSummary"]) for node in fault["nodes"][:3]])
        for fault in found.response["violations"]
    ]
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def shoot(page: Page, name: str) -> None:
    """Keep pictures, light and dark, that people look at; what is in them is checked."""
    SHOTS.mkdir(exist_ok=True)
    if page.locator("#line.live").count():
        page.wait_for_function(JUDGED, polling=100)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.screenshot(path=SHOTS / f"{name}-{scheme}.png", animations="disabled")
        check(page)
    page.emulate_media(color_scheme="light")
