"""What one can do from the page: start, answer, stop, go on, put away."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Window, shoot
from tests.browser.hub_process import HubProcess

ASKS: list[dict[str, Any]] = [
    {"tool": "shell", "run": "echo allowed", "ask": True},
    {"say": "After the question."},
]
DIES = [{"tool": "shell", "run": "echo before"}, {"die": "KILL"}]


def session_of(page: Page) -> str:
    """The session that is open."""
    expect(page).to_have_url(re.compile(r"#/s/"))
    return page.url.rsplit("/", 1)[1]


def choose(page: Page, entry: str) -> None:
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name=entry).click()


def way(page: Page, entry: str) -> None:
    """Choose another way to send."""
    page.get_by_role("button", name="Other ways to send").click()
    page.get_by_role("menuitem", name=entry).click()


def test_start_a_task_and_allow_what_it_asks(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    page.get_by_role("button", name="New task").click()
    form = page.get_by_role("dialog", name="Start a task")
    form.get_by_label("Prompt").fill(f"Ask me. <<{json.dumps(ASKS)}>>")
    form.get_by_label("Agent").select_option("demo")
    form.get_by_label("Permissions").select_option("ask")
    form.get_by_label("Folder").fill(hub.work)
    form.get_by_label("Key").fill("page:start")
    shoot(page, "new-task")
    form.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator(".permission-bar")).to_contain_text("shell asks for permission: echo allowed")
    expect(page.locator("article.tool .outcome")).to_have_text("asks")
    expect(page.locator(".session", has_text="page:start").locator(".word")).to_have_text("asks you")
    expect(page).to_have_title(re.compile(r"^\(1\) Ask me"))
    shoot(page, "permission")
    session = page.url
    page.get_by_role("link", name="Inbox").click()
    expect(page.get_by_label("Needs you")).to_contain_text("shell asks for permission: echo allowed")
    page.goto(f"{hub.page_url}/#/tasks?asks=1")
    expect(page.locator(".tasks")).to_contain_text("asks for shell: echo allowed")
    shoot(page, "asked")
    page.goto(session)
    page.locator(".permission-bar").get_by_role("button", name="Allow").click()
    expect(page.locator("article.assistant")).to_contain_text("After the question.")
    expect(page.locator(".permission-bar")).to_be_hidden()
    expect(page.locator(".session", has_text="page:start").locator(".word")).to_have_count(0)
    expect(page).to_have_title(re.compile("^Ask me"))
    page.locator("article.tool").scroll_into_view_if_needed()
    expect(page.locator(".answered.allow")).to_contain_text("Allowed by")
    expect(page.locator(".facts .key")).to_have_text("page:start")
    expect(page.locator(".legend .key-wait")).to_have_text("1 permission wait")


def test_a_refused_start_says_why(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    page.keyboard.press("n")
    form = page.get_by_role("dialog", name="Start a task")
    form.get_by_label("Prompt").fill("hello")
    form.get_by_label("Agent").select_option("demo")
    form.get_by_label("Folder").fill("/no/such/folder")
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("/no/such/folder")


def test_deny_on_a_phone(hub: HubProcess, window: Window) -> None:
    told = hub.dispatch("Ask.", ASKS, permissions="ask")
    page = window.open(hub, f"/s/{told['session']}", size=PHONE)
    page.locator(".permission-bar").get_by_role("button", name="Deny").click()
    expect(page.locator(".answered.deny")).to_contain_text("Denied by")
    expect(page.locator(".permission-bar")).to_be_hidden()


def test_cancel(hub: HubProcess, window: Window) -> None:
    told = hub.dispatch("Hang.", [{"say": "Now I hang."}, {"tool": "shell", "run": "true"}, {"hang": True}])
    page = window.open(hub, f"/s/{told['session']}")
    expect(page.locator("article.assistant")).to_contain_text("Now I hang.")
    page.get_by_role("button", name="Stop: Hang.").click()
    page.get_by_role("dialog", name="Stop this task?").get_by_role("button", name="Stop it").click()
    assert hub.ended(told["task"]) == "cancelled"
    expect(page.locator(".mark-line.cancelled")).to_contain_text("Run cancelled")
    expect(page.locator(".facts .status")).to_have_text("cancelled")
    expect(page.locator(".open-task")).to_have_count(0)
    # The verdict is in view, and its reasons open.
    chip = page.locator(".composer .chip")
    expect(chip).to_have_text("fresh")
    chip.click()
    expect(page.get_by_role("dialog", name="Verdict")).to_contain_text("last_cancelled")
    shoot(page, "verdict")
    page.keyboard.press("Escape")
    # Trust by hand would not change this verdict: a call has no end.
    expect(page.get_by_role("button", name="Trust…")).to_have_count(0)


def test_tokens_are_recorded_revoked_and_reinstated(hub: HubProcess, window: Window) -> None:
    session = hub.ran("First.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("safe")
    page.locator(".facts .token").click()
    box = page.get_by_role("dialog", name="Tokens")
    rows = box.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("current")
    box.get_by_label("The agent's id").fill("not lost")
    box.get_by_label("Why must it not be resumed?").fill("it went astray")
    box.get_by_role("button", name="Revoke").click()
    expect(rows.first).to_contain_text("it went astray")
    expect(page.locator(".facts .token")).to_have_text("token revoked")
    expect(box.get_by_label("The agent's id")).to_have_value("not lost")
    expect(page.locator(".composer .chip")).to_have_text("fresh")
    shoot(page, "tokens")
    box.get_by_role("button", name="Reinstate").click()
    expect(rows.first).to_contain_text("current")
    box.get_by_label("The agent's id").fill("by-hand-1")
    box.get_by_role("button", name="Record").click()
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("by-hand-1")
    expect(page.locator(".facts .token")).to_have_text("token by-hand-")
    box.get_by_role("button", name="Close").click()
    expect(box).to_have_count(0)


def test_resume_goes_on_in_the_same_session(hub: HubProcess, window: Window) -> None:
    session = hub.ran("First.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("safe")
    page.get_by_label("What to do next").fill('More. <<[{"say":"Two."}]>>')
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("article.assistant").last).to_contain_text("Two.")
    assert session_of(page) == session


def test_after_a_death_one_starts_fresh(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Die.", DIES)
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("fresh")
    page.get_by_label("What to do next").fill('Again. <<[{"say":"Fresh."}]>>')
    page.locator(".composer").get_by_role("button", name="Start fresh with a brief", exact=True).click()
    expect(page.locator("article.assistant").last).to_contain_text("Fresh.")
    assert session_of(page) != session
    # The person's words are in plain sight, the brief is folded above them.
    said = page.locator("article.user").first
    expect(said.locator(".typed")).to_have_text(re.compile("^Again"))
    said.locator(".brief summary").click()
    expect(said.locator(".brief pre")).to_contain_text("Die.")
    shoot(page, "brief")
    expect(page.locator(".facts a")).to_contain_text("fresh from")


def test_resume_anyway_goes_on_in_the_same_session(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Die, and go on all the same.", DIES)
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("fresh")
    way(page, "Resume anyway, against the verdict")
    page.get_by_label("What to do next").fill('Again. <<[{"say":"All the same."}]>>')
    page.get_by_role("button", name="Resume anyway", exact=True).click()
    expect(page.locator("article.assistant").last).to_contain_text("All the same.")
    assert session_of(page) == session
    tasks = hub.ask("GET", f"/api/tasks?session={session}")["tasks"]
    assert len(tasks) == 2 and "anyway" in json.dumps(tasks[0]["options"])  # that it was overruled is kept


def test_start_fresh_by_choice(hub: HubProcess, window: Window) -> None:
    session = hub.ran("All is well.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("safe")
    way(page, "Start fresh without a brief")
    page.get_by_label("What to do next").fill('Anew. <<[{"say":"A new one."}]>>')
    page.get_by_role("button", name="Start fresh", exact=True).click()
    expect(page.locator("article.assistant").last).to_contain_text("A new one.")
    assert session_of(page) != session
    expect(page.locator(".facts a")).to_contain_text("fresh from")


def test_queue_what_is_busy(hub: HubProcess, window: Window) -> None:
    told = hub.dispatch("Hang.", [{"say": "Busy."}, {"tool": "shell", "run": "true"}, {"hang": True}])
    page = window.open(hub, f"/s/{told['session']}")
    expect(page.locator("article.assistant")).to_contain_text("Busy.")
    expect(page.locator(".composer .chip")).to_have_text("wait")
    page.get_by_label("What to do next").fill('Later. <<[{"say":"Its turn."}]>>')
    page.get_by_role("button", name="Send when it is done", exact=True).click()
    expect(page.locator(".open-task")).to_have_count(2)
    expect(page.locator("article.user").last).to_contain_text("not sent to the agent yet")
    assert len(hub.ask("GET", f"/api/tasks?session={told['session']}")["tasks"]) == 2


def test_fork(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Fork me.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    way(page, "Fork: continue in a copy")
    page.get_by_label("What to do next").fill('Copy. <<[{"say":"In the copy."}]>>')
    page.get_by_role("button", name="Fork and send", exact=True).click()
    expect(page.locator("article.assistant").last).to_contain_text("In the copy.")
    assert session_of(page) != session


def test_archive_delete_and_back(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Put me away.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    expect(page.locator("article.assistant")).to_be_visible()
    choose(page, "Archive")
    expect(page.locator(".away")).to_contain_text("Archived by")
    expect(page.locator(".composer button.primary")).to_have_text("Bring back and send")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator(".away")).to_have_count(0)
    choose(page, "Delete")
    expect(page.locator("#toasts").last).to_contain_text("Deleted")
    expect(page.locator(f"li.session[data-id='{session}']")).to_have_count(0)
    shoot(page, "deleted")
    page.locator("#toasts").get_by_role("button", name="Undo").last.click()
    expect(page.locator(f"li.session[data-id='{session}']")).to_have_count(1)
    assert hub.ask("GET", f"/api/sessions/{session}")["session"]["state"] == "live"


def test_what_was_deleted_is_found_and_restored(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Bring me back.", [{"say": "One."}])
    hub.ask("DELETE", f"/api/sessions/{session}?reason=test")
    page = window.open(hub, "/stats")
    row = page.locator(f"li.session[data-id='{session}']")
    page.locator(".figure", has_text="deleted").click()
    expect(row).to_have_count(1)
    row.locator("a").click()
    expect(page.locator(".away")).to_contain_text("Deleted by")
    expect(page.locator(".composer")).to_be_hidden()
    page.locator(".away").get_by_role("button", name="Restore").click()
    expect(page.locator(".away")).to_have_count(0)
    expect(page.locator(".composer")).to_be_visible()
    expect(row).to_have_count(0)  # the list shows what is deleted
    assert hub.ask("GET", f"/api/sessions/{session}")["session"]["state"] == "live"


def test_rename(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Name me.", [{"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    choose(page, "Rename…")
    page.get_by_role("textbox", name="Title", exact=True).fill("A better name")
    page.get_by_role("button", name="Rename", exact=True).click()
    expect(page.locator("h1")).to_have_text("A better name")
    expect(page.locator(f"li.session[data-id='{session}'] .title")).to_have_text("A better name")


def test_a_new_task_offers_recent_folders_and_completes_them(hub: HubProcess, window: Window) -> None:
    hub.ran("Was here.", [{"say": "One."}])
    os.makedirs(os.path.join(hub.work, "harbor", ".git"), exist_ok=True)
    page = window.open(hub)
    page.keyboard.press("n")
    form = page.get_by_role("dialog", name="Start a task")
    folder = form.get_by_label("Folder")
    folder.focus()
    offers = form.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(offers.first).to_contain_text(hub.work)
    folder.fill(os.path.join(hub.work, "har"))
    expect(offers).to_have_count(1)
    expect(offers.first).to_contain_text("git")
    shoot(page, "new-task-folder")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(folder).to_have_value(os.path.join(hub.work, "harbor"))
    form.get_by_label("Permissions").select_option("allow")
    expect(form).to_contain_text("It never waits.")
    form.get_by_label("Agent").select_option("demo")
    form.get_by_label("Prompt").fill('There. <<[{"tool":"shell","run":"pwd"},{"say":"In the harbor."}]>>')
    form.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("article.assistant")).to_contain_text("In the harbor.")
    expect(page.locator(".facts .path")).to_have_text(os.path.join(hub.work, "harbor"))


def test_cost_and_tokens_are_shown(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Costs.", [{"usage": {"inputTokens": 41000, "outputTokens": 500}}, {"say": "One."}])
    page = window.open(hub, f"/s/{session}")
    expect(page.locator("details.run-line summary")).to_contain_text("42k tokens")
    expect(page.locator(".facts .usage")).to_have_text("42k tokens")
