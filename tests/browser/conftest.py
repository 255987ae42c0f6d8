"""A hub and a browser for the page's tests; both are real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tests.browser.hub_process import HubProcess
from tests.browser.install import CHROMIUM

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SHOTS = Path(__file__).parent / "shots"
WIDE, PHONE = (1280, 800), (390, 780)
EXPECTED = re.compile(r"ERR_CONNECTION_|ERR_INCOMPLETE_CHUNKED|status of 4\d\d|ERR_EMPTY_RESPONSE")


expect.set_options(timeout=60_000)  # the machine may be slow


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for all tests of a worker."""
    found = HubProcess(str(tmp_path_factory.mktemp("hub")))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[HubProcess]:
    """A hub that a test may kill."""
    found = HubProcess(str(tmp_path))
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")  # not longer: its event loop is in the way of tests that have their own
def playwright() -> Iterator[Playwright]:
    """Drives the browser."""
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium; without it the tests fail."""
    assert os.path.exists(CHROMIUM), "no Chromium: python -m tests.browser.install"
    found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
    yield found
    found.close()


class Window:
    """Pages of one test; what goes wrong in them fails it."""

    def __init__(self, browser: Browser):
        self._browser = browser
        self.wrong: list[str] = []
        self.outside: list[str] = []

    def open(
        self, hub: HubProcess, path: str = "/", size: tuple[int, int] = WIDE, dark: bool = False
    ) -> Page:
        """The page at an address within it."""
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
            timezone_id="UTC",
        )
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("pageerror", lambda problem: self.wrong.append(str(problem)))
        page.on("console", self._heard)
        page.on("request", lambda r: None if r.url.startswith(hub.url) else self.outside.append(r.url))
        page.goto(f"{hub.url}/?token={hub.token}")
        page.goto(f"{hub.url}/#{path}")
        page.wait_for_selector("#line.live")
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not EXPECTED.search(message.text):
            self.wrong.append(message.text)


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Opens pages."""
    found = Window(browser)
    yield found
    for context in browser.contexts:
        context.close()
    assert found.wrong == []
    assert [url for url in found.outside if not url.startswith("data:")] == []


def fill(hub: HubProcess, what: str, number: int = 0) -> str:
    """Put a session into the hub's home by way of another process: its id."""
    command = [sys.executable, "-m", "tests.browser.fill", hub.home, what, str(number)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root)
    return done.stdout.strip()


def shoot(page: Page, name: str) -> None:
    """Keep a picture; nobody compares it, people look at it."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", animations="disabled")
