"""Sessions that agents had before: they are offered, and come when one asks for them."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Window, shoot
from tests.browser.hub_process import HubProcess
from tests.support.claude_transcripts import SLUG, Made

MANY = 3


def transcripts(hub: HubProcess) -> None:
    folder = Path(hub.folder, ".claude", "projects", SLUG)
    folder.mkdir(parents=True)
    for number in range(MANY):
        made = Made(folder, f"{number:08x}-1111-4111-8111-111111111111")
        made.user(f"Mend buoy {number}")
        made.calls("call")
        made.returns("call", "a line\n")
        made.says("It is mended.")
        made.place()


def test_an_offer_that_is_taken(cold_hub: HubProcess, window: Window) -> None:
    transcripts(cold_hub)
    cold_hub.start()
    page = window.open(cold_hub)
    offer = page.get_by_role("button", name="Import 3 sessions of claude")
    expect(offer).to_be_visible()
    expect(page.locator("li.session")).to_have_count(0)  # nothing is taken before one asks
    shoot(page, "import-offer")
    offer.click()
    expect(page.locator("li.session")).to_have_count(MANY)
    expect(offer).to_have_count(0)
    expect(page.locator("#toasts")).to_contain_text("Imported 3 sessions of claude")
    # They are as old as their last activity, not as old as the import, and ordered by it.
    ages = page.locator("li.session time")
    expect(ages.first).not_to_have_text("now")
    assert [row.get_attribute("datetime") for row in ages.all()] == sorted(
        (row.get_attribute("datetime") or "" for row in ages.all()), reverse=True
    )
    shoot(page, "imported")
    page.locator("li.session a", has_text="Mend buoy 1").click()
    expect(page.locator(".divider")).to_contain_text(f"Replayed from session {1:08x}-1111")
    expect(page.locator("article.replayed.user")).to_contain_text("Mend buoy 1")
    shoot(page, "imported-session")
    page.keyboard.press("o")
    page.goto(f"{cold_hub.page_url}/#/stats")
    expect(page.locator(".figure", has_text="live sessions").locator("b")).to_have_text(f"{MANY}")
    page.goto(f"{cold_hub.page_url}/#/")
    page.reload()
    expect(page.locator("h1")).to_have_text("Inbox")
    expect(offer).to_have_count(0)  # each is taken once


def test_what_could_not_be_imported_is_told(hub: HubProcess, window: Window) -> None:
    page = window.open(hub, "/doctor")
    # Damaged files are imported as far as they can be read: a failure has to be made up.
    came = {
        "agent": "claude",
        "done": 2,
        "of": 3,
        "running": False,
        "problems": ["a.jsonl: the disk is full"],
    }
    page.route("**/api/adopt", lambda route: route.fulfill(json=came))
    page.keyboard.press("o")
    told = page.locator(".note.bad")
    expect(told.locator("summary")).to_have_text("1 thing of claude could not be imported")
    told.locator("summary").click()
    expect(told).to_contain_text("a.jsonl: the disk is full")
