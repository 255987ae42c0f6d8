"""The sessions at the left."""

from __future__ import annotations

import os
import urllib.request

from playwright.sync_api import expect

from tests.browser.conftest import Window, fill, shoot
from tests.browser.hub_process import HubProcess

DIES = [{"die": "KILL"}]


def test_a_row_tells_what_it_is_and_its_verdict_opens(hub: HubProcess, window: Window) -> None:
    session = hub.ran("List me.", [{"say": "One."}], key="list:1")
    dead = hub.ran("I die.", DIES)
    page = window.open(hub)
    row = page.locator(f"li.session[data-id='{session}']")
    expect(row.locator(".title")).to_contain_text("List me.")
    expect(row.locator(".agent")).to_have_text("demo")
    expect(row.locator(".key")).to_have_text("list:1")
    expect(row.locator(".word")).to_have_count(0)  # all is normal: no mark
    expect(row.locator("time")).to_have_text("now")
    expect(row.locator(".chip")).to_be_hidden()
    chip = page.locator(f"li.session[data-id='{dead}'] .chip")
    expect(chip).to_have_text("fresh")
    chip.click()
    expect(page.get_by_role("dialog")).to_contain_text("last_interrupted")
    shoot(page, "reasons")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(f"li.session[data-id='{dead}'] .word")).to_have_text("died")
    project = page.locator("details.project", has=row)
    expect(project.locator("> summary .project-name")).to_have_text(os.path.basename(hub.work))


def test_search_and_filters(hub: HubProcess, window: Window) -> None:
    found = hub.ran("Needle in the haystack.", [{"say": "One."}], key="needle:1")
    dead = hub.ran("Some other that dies.", DIES)
    page = window.open(hub)
    rows = page.locator("li.session")
    expect(page.locator(f"li.session[data-id='{dead}']")).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("Needle in")
    expect(rows).to_have_count(1)
    expect(rows.first).to_have_attribute("data-id", found)
    page.get_by_label("Search sessions").fill("")
    page.get_by_label("Last task").select_option("interrupted")
    expect(page.locator(f"li.session[data-id='{found}']")).to_have_count(0)
    expect(page.locator(f"li.session[data-id='{dead}']")).to_have_count(1)
    page.get_by_label("Last task").select_option("")
    page.get_by_label("State").select_option("archived")
    expect(page.locator(f"li.session[data-id='{found}']")).to_have_count(0)
    hub.ask("POST", f"/api/sessions/{found}/archive", {})
    expect(page.locator(f"li.session[data-id='{found}']")).to_have_count(1)


def test_it_is_kept_up_to_date(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    told = hub.dispatch("Newly begun.", [{"hang": True}])
    row = page.locator(f"li.session[data-id='{told['session']}']")
    expect(row.locator(".word")).to_have_text("running")
    expect(page.locator("li.session").first).to_have_attribute("data-id", told["session"])
    hub.ask("POST", f"/api/tasks/{told['task']}/cancel", {})
    hub.ended(told["task"])
    expect(row.locator(".word")).to_have_text("cancelled")


def test_many_sessions_come_as_one_scrolls(own_hub: HubProcess, window: Window) -> None:
    fill(own_hub, "many", 180)
    page = window.open(own_hub)
    expect(page.locator("li.session").first).to_contain_text("Session number 179")
    page.wait_for_function(
        "() => { const list = document.querySelector('.list-scroll'); list.scrollTop = list.scrollHeight;"
        " return document.querySelectorAll('li.session').length >= 180 }"
    )
    expect(page.locator("li.session").last).to_contain_text("Session number 0")
    assert len({row.get_attribute("data-id") for row in page.locator("li.session").all()}) == 180


def test_empty_sessions_are_hidden(own_hub: HubProcess, window: Window) -> None:
    fill(own_hub, "empty")
    page = window.open(own_hub)
    expect(page.locator(".list-foot")).to_contain_text("No sessions here yet")
    page.get_by_label("empty ones too").check()
    expect(page.locator("li.session")).to_have_count(1)


def test_an_empty_session_with_a_worktree_is_shown(own_hub: HubProcess, window: Window) -> None:
    empty, kept = fill(own_hub, "empty"), fill(own_hub, "worktree")
    page = window.open(own_hub)
    expect(page.locator("li.session")).to_have_count(1)
    row = page.locator(f"li.session[data-id='{kept}']")
    expect(row.locator(".meta")).to_contain_text("holdfast/tide")
    expect(page.locator(".how-many")).to_have_text("1 session")
    row.locator("a").click()
    expect(page.locator(".facts")).to_contain_text("worktree holdfast/tide")
    page.get_by_label("empty ones too").check()
    expect(page.locator("li.session")).to_have_count(2)
    expect(page.locator(f"li.session[data-id='{empty}']")).to_have_count(1)


def test_without_a_token_it_asks_for_one(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    page.context.clear_cookies()
    page.goto(f"{hub.url}/")
    page.get_by_label("Token").fill(hub.token)
    shoot(page, "login")
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector("#line.live")


def test_every_module_is_named_in_the_page(hub: HubProcess) -> None:
    import re
    from pathlib import Path

    import holdfast.hub

    folder = Path(str(holdfast.hub.__file__)).parent / "page"
    html = (folder / "index.html").read_text()
    told = html + (folder / "manifest.webmanifest").read_text() + (folder / "offline.js").read_text()
    named = set(re.findall(r'"/page/([\w.-]+)"', told))
    assert named == {path.name for path in folder.iterdir()} - {"index.html", "login.html"}
    for name in named:
        with urllib.request.urlopen(f"{hub.url}/page/{name}?token={hub.token}") as answer:
            assert answer.status == 200
