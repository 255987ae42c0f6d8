"""A phone is first class: targets for fingers, no zoom, installable, and the last state without a hub."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Window, shoot
from tests.browser.hub_process import HubProcess

ASKS: list[dict[str, Any]] = [{"tool": "shell", "run": "echo allowed", "ask": True}, {"say": "Done."}]

# Buttons, fields and tabs lower than a finger is wide, and fields that make iOS zoom in.
SMALL = """() => [...document.querySelectorAll('button, select, textarea, nav a, a.button, '
    + 'input:not([type=checkbox])')]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }))
  .filter((one) => one.getBoundingClientRect().height < 44
    || (one.matches('input, select, textarea') && parseFloat(getComputedStyle(one).fontSize) < 16))
  .map((one) => one.outerHTML.slice(0, 120))"""


def test_targets_tabs_and_permissions(hub: HubProcess, window: Window) -> None:
    told = hub.dispatch("Ask me on a phone.", ASKS, permissions="ask")
    page = window.open(hub, "/", size=PHONE)
    expect(page.get_by_label("Needs you")).to_contain_text("echo allowed")
    assert page.evaluate(SMALL) == []
    shoot(page, "phone-needs-you")
    page.goto(f"{hub.page_url}/#/s/{told['session']}")
    bar = page.locator(".permission-bar")
    expect(bar).to_be_visible()
    assert page.evaluate(SMALL) == []
    # The request is beside what it is about, never over it.
    timeline, asks = page.locator(".timeline").bounding_box(), bar.bounding_box()
    assert timeline is not None and asks is not None
    assert timeline["y"] + timeline["height"] <= asks["y"] + 1
    shoot(page, "phone-permission")
    page.get_by_role("button", name="Sessions").click()
    expect(page.get_by_label("Search sessions")).to_be_visible()
    assert page.evaluate(SMALL) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="New task").click()
    assert page.evaluate(SMALL) == []
    page.keyboard.press("Escape")
    bar.get_by_role("button", name="Deny").click()
    hub.ended(told["task"])


def test_keys_allow_deny_and_next(hub: HubProcess, window: Window) -> None:
    first = hub.dispatch("First question.", ASKS, permissions="ask")
    second = hub.dispatch("Second question.", ASKS, permissions="ask")
    page = window.open(hub)
    expect(page.get_by_label("Needs you").locator(".asking")).to_have_count(2)
    page.keyboard.press("w")
    expect(page.locator("h1")).to_contain_text("First question.")
    expect(page.locator(".permission-bar .asking")).to_have_count(1)
    page.keyboard.press("a")
    assert hub.ended(first["task"]) == "succeeded"
    expect(page.locator(".permission-bar")).to_be_hidden()
    page.keyboard.press("w")
    expect(page.locator("h1")).to_contain_text("Second question.")
    expect(page.locator(".permission-bar .asking")).to_have_count(1)
    page.keyboard.press("x")
    hub.ended(second["task"])
    page.locator("article.tool summary").first.click()
    expect(page.locator(".answered.deny")).to_contain_text("Denied by")


def test_it_can_be_installed(hub: HubProcess) -> None:
    with urllib.request.urlopen(f"{hub.url}/page/manifest.webmanifest", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("application/manifest+json")
        manifest = json.load(answer)
    assert manifest["display"] == "standalone" and manifest["start_url"] == "/"
    sizes = set()
    for found in manifest["icons"]:
        with urllib.request.urlopen(f"{hub.url}{found['src']}", timeout=60) as answer:
            assert answer.headers["content-type"] == found["type"]
            sizes.add(found["sizes"])
    assert {"192x192", "512x512"} <= sizes
    with urllib.request.urlopen(f"{hub.url}/page/sw.js", timeout=60) as answer:
        assert answer.headers["service-worker-allowed"] == "/"


def test_the_last_known_state_is_there_without_a_hub(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("Read me on the train.", [{"say": "Still here."}])
    page = window.open(own_hub, "/", size=PHONE, offline=True)
    page.wait_for_function("() => navigator.serviceWorker.controller")
    page.wait_for_function("() => caches.open('holdfast-shell').then((c) => c.match('/page/app.js'))")
    page.goto(f"{own_hub.page_url}/#/s/{session}")
    page.reload()  # all of it through the worker once
    expect(page.locator("article.assistant")).to_contain_text("Still here.")
    own_hub.kill()
    page.goto(f"{own_hub.page_url}/#/")
    page.reload()
    expect(page.locator("#line")).to_contain_text("connection lost")
    expect(page.get_by_label("Finished since you last looked")).to_contain_text("Read me on the train.")
    shoot(page, "phone-offline")
    page.goto(f"{own_hub.page_url}/#/s/{session}")
    expect(page.locator("article.assistant")).to_contain_text("Still here.")
