"""The statistics and the lists behind them, an empty inbox, what was healed, and the doctor."""

from __future__ import annotations

import os
import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Window, fill, shoot
from tests.browser.hub_process import HubProcess

DIES = [{"die": "KILL"}]


def stats(page: Page) -> None:
    """Go to the numbers."""
    page.get_by_role("link", name="Statistics").click()


def test_each_figure_leads_to_its_list(own_hub: HubProcess, window: Window) -> None:
    own_hub.ran("Good.", [{"say": "One."}])
    own_hub.ran("Good too.", [{"say": "One."}])
    own_hub.ran("Bad.", [{"error": "no"}])
    dead = own_hub.ran("Cut off.", DIES)
    page = window.open(own_hub, "/stats")
    day = page.locator(".chart a")
    expect(day).to_have_count(3)  # drawn: succeeded, failed, interrupted
    expect(page.locator(".totals")).to_contain_text("2 succeeded")
    expect(page.locator(".ring-key")).to_contain_text("2 safe to resume")
    expect(page.locator(".ring-key")).to_contain_text("2 start fresh")
    expect(page.locator(".bars")).to_contain_text("demo")
    shoot(page, "statistics")
    page.locator(".chart a[aria-label*='2 succeeded']").click()
    expect(page.locator("h1")).to_contain_text("Tasks: succeeded on")
    expect(page.locator(".tasks tbody tr")).to_have_count(2)
    shoot(page, "tasks")
    stats(page)
    page.locator(".figure", has_text="interrupted").click()
    expect(page.locator(".tasks tbody tr")).to_have_count(1)
    page.locator(".tasks tbody a").click()
    expect(page).to_have_url(re.compile(dead))
    stats(page)
    page.locator(".ring-key a", has_text="start fresh").click()
    expect(page.locator(".plain-list li")).to_have_count(2)
    shoot(page, "by-verdict")
    stats(page)
    page.locator(".figure", has_text="live sessions").click()
    expect(page.get_by_label("State", exact=True)).to_have_value("live")
    page.keyboard.press("Escape")
    page.locator(".bars a").click()
    expect(page.get_by_label("Agent", exact=True)).to_have_value("demo")


def test_verdicts_are_of_all_or_say_of_which(own_hub: HubProcess, window: Window) -> None:
    fill(own_hub, "many", 220)
    page = window.open(own_hub, "/stats")
    expect(page.locator(".figure", has_text="live sessions").locator("b")).to_have_text("220")
    ring = page.get_by_label("Sessions by verdict", exact=True)
    expect(ring.locator(".whole")).to_have_text("200")
    expect(page.locator(".covered")).to_contain_text("The newest 200 of 220 live sessions.")
    shoot(page, "verdicts-covered")
    page.get_by_role("button", name="Judge all").click()
    expect(ring.locator(".whole")).to_have_text("220")
    expect(page.locator(".covered")).to_have_count(0)
    page.locator(".ring-key a", has_text="start fresh").click()
    rows = page.locator(".plain-list li")
    expect(rows).to_have_count(200)  # as many as one can look at
    page.get_by_role("button", name="Show more · 200 of 220").click()
    expect(rows).to_have_count(220)


def test_nothing_yet(own_hub: HubProcess, window: Window) -> None:
    page = window.open(own_hub)
    expect(page.get_by_label("Welcome")).to_contain_text("Nothing needs you")
    shoot(page, "empty")
    page.get_by_role("button", name="Start a task").click()
    form = page.get_by_role("dialog", name="Start a task")
    form.get_by_label("Prompt").fill('First. <<[{"say":"Hello."}]>>')
    form.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("article.assistant")).to_contain_text("Hello.")
    page.keyboard.press("o")
    expect(page.get_by_label("Finished since you last looked")).to_contain_text("First.")
    expect(page.get_by_label("Welcome")).to_have_count(0)
    page.get_by_role("button", name="Mark as seen").click()
    expect(page.get_by_label("Welcome")).to_be_visible()


def test_interrupted_ones_are_sent_again(own_hub: HubProcess, window: Window) -> None:
    own_hub.ran("Cut off.", [{"tool": "shell", "run": "true"}, *DIES], key="again:1")
    page = window.open(own_hub, size=PHONE)
    expect(page.get_by_label("Died or failed")).to_contain_text("Cut off.")
    shoot(page, "phone-inbox")
    page.get_by_role("button", name="Send all again").click()
    expect(page.get_by_label("Sent again", exact=True)).to_contain_text("Sent 1 task again")


def test_healed_at_start_is_a_banner_until_dismissed(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("Keep me.", [{"say": "One."}])
    own_hub.stop()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(path := os.path.join(own_hub.home, name)):
            os.remove(path)
    own_hub.start()
    page = window.open(own_hub)
    banner = page.get_by_label("Repaired at start")
    expect(banner).to_contain_text("repaired at start")
    banner.locator("summary").click()
    expect(banner).to_contain_text(session)
    shoot(page, "healed")
    expect(page.locator(f"li.session[data-id='{session}']")).to_have_count(1)
    banner.get_by_role("button", name="Dismiss").click()
    expect(banner).to_have_count(0)
    page.reload()
    page.wait_for_selector("#line.live")
    expect(page.locator("h1")).to_have_text("Inbox")
    expect(banner).to_have_count(0)


def test_the_doctor_finds_plans_and_applies(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("Mend me.", [{"say": "One."}])
    page = window.open(own_hub, "/doctor")
    expect(page.locator(".note.good")).to_contain_text("as it should be")
    os.remove(os.path.join(own_hub.home, "sessions", f"{session}.jsonl"))
    page.get_by_role("button", name="Look").click()
    expect(page.locator(".findings li")).to_have_count(1)
    expect(page.locator(".findings")).to_contain_text("mirror_missing")
    expect(page.locator(".plan li")).to_have_count(1)
    shoot(page, "doctor")
    page.get_by_role("button", name="Apply the plan").click()
    expect(page.get_by_label("Receipt")).to_contain_text("mirror_missing")
    assert os.path.exists(os.path.join(own_hub.home, "sessions", f"{session}.jsonl"))
    expect(page.locator(".note.good").last).to_contain_text("as it should be")


def test_a_plan_that_is_stale_is_not_applied(own_hub: HubProcess, window: Window) -> None:
    first = own_hub.ran("One.", [{"say": "One."}])
    second = own_hub.ran("Two.", [{"say": "Two."}])
    os.remove(os.path.join(own_hub.home, "sessions", f"{first}.jsonl"))
    page = window.open(own_hub, "/doctor")
    expect(page.locator(".findings li")).to_have_count(1)
    os.remove(os.path.join(own_hub.home, "sessions", f"{second}.jsonl"))
    page.get_by_role("button", name="Apply the plan").click()
    expect(page.locator(".note.bad")).to_contain_text("have changed")
    expect(page.locator(".findings li")).to_have_count(2)
