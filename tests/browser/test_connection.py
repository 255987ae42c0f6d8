"""The one connection behind the page: it rests while nobody looks, and comes back with nothing missing."""

from __future__ import annotations

import os
import re
import urllib.request

from playwright.sync_api import Page, expect

from tests.browser.conftest import Window, fill, shoot
from tests.browser.hub_process import HubProcess, wait_for
from tests.browser.test_timeline import seqs_of

# A browser without a screen has no tab that is hidden: the page is told that it is one.
HIDE = """(hidden) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange')) }"""


def subscribers(hub: HubProcess) -> int:
    with urllib.request.urlopen(f"{hub.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith("holdfast_subscribers ")]
    return int(line.split()[1])


def said(hub: HubProcess, session: str) -> list[int]:
    log = hub.ask("GET", f"/api/sessions/{session}/events?limit=500")["events"]
    return [event["seq"] for event in log if event["kind"] in ("user", "tool_progress", "assistant")]


def shows_all(page: Page, hub: HubProcess, session: str) -> None:
    """Each of the log's messages and calls once, in order."""
    wanted = said(hub, session)
    assert [seq for seq in seqs_of(page) if seq in set(wanted)] == wanted


def test_a_hidden_tab_lets_go_and_comes_back(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("First.", [{"say": "Before it was hidden."}])
    page = window.open(own_hub, f"/s/{session}")
    expect(page.locator("article.assistant")).to_have_count(1)
    assert subscribers(own_hub) == 1
    page.clock.install()
    page.evaluate(HIDE, True)
    page.clock.fast_forward(50_000)
    assert subscribers(own_hub) == 1  # a short absence costs nothing
    page.clock.fast_forward(20_000)
    wait_for("the stream to be let go", lambda: subscribers(own_hub) == 0)
    steps = [{"tool": "shell", "run": f"echo {i}"} for i in range(30)]
    task = own_hub.ask(
        "POST",
        f"/api/sessions/{session}/resume",
        {
            "prompt": f"Unseen. <<{[*steps, {'say': 'While it was hidden.'}]}>>".replace("'", '"'),
            "how": "resume",
        },
    )["task"]
    own_hub.ended(task if isinstance(task, str) else task["id"])
    expect(page.locator("article.assistant")).to_have_count(1)
    page.evaluate(HIDE, False)
    wait_for("the stream to come back", lambda: subscribers(own_hub) == 1)
    expect(page.locator("article.assistant").last).to_contain_text("While it was hidden.")
    shows_all(page, own_hub, session)
    other = own_hub.ran("Another.", [{"say": "Seen at once."}])
    expect(page.locator(f"li.session[data-id='{other}']")).to_have_count(1)


def test_another_log_is_read_anew(own_hub: HubProcess, window: Window) -> None:
    session = fill(own_hub, "long", 41)
    page = window.open(own_hub, f"/s/{session}")
    expect(page.locator(".facts")).to_contain_text("41 records")
    # Something newer than the log the hub will have: what the page has heard is of no use then.
    own_hub.ran("Gives the page a place in the stream.", [{"say": "One."}])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/stream" in request.url else None)
    own_hub.stop()
    shorten(own_hub, session)
    own_hub.start()
    expect(page.locator("#line")).to_have_text("live")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"(?<!\d)1 record(?!s)"))  # not 41
    expect(page.locator(".sheet article[data-seq]")).to_have_count(0)  # how it began is no message
    assert any("after=" in url for url in asked) and "after=" not in asked[-1]
    other = own_hub.ran("Goes on from there.", [{"say": "Two."}])
    expect(page.locator(f"li.session[data-id='{other}']")).to_have_count(1)


def shorten(hub: HubProcess, session: str) -> None:
    """Take the database away, and all but the first commit of a mirror: the rebuilt log is another one."""
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(path := os.path.join(hub.home, name)):
            os.remove(path)
    mirror = os.path.join(hub.home, "sessions", f"{session}.jsonl")
    with open(mirror, "rb") as file:
        first = file.readline()
    with open(mirror, "wb") as file:
        file.write(first)


def test_a_view_that_could_not_be_read_comes_by_itself(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("Look at me.", [{"say": "Here I am."}])
    page = window.open(own_hub)
    expect(page.locator("h1")).to_have_text("Inbox")
    own_hub.kill()
    expect(page.locator("#line.lost")).to_be_visible()
    page.goto(f"{own_hub.page_url}/#/s/{session}")
    expect(page.locator("#main")).to_contain_text("cannot be reached")
    shoot(page, "unreached")
    own_hub.start()
    expect(page.locator("article.assistant")).to_contain_text("Here I am.")
    expect(page.locator(".toast.bad")).to_have_count(0)


def test_earlier_records_of_a_very_long_session(hub: HubProcess, window: Window) -> None:
    session = fill(hub, "long", 50_601)
    page = window.open(hub, f"/s/{session}")
    older = page.get_by_role("button", name="Load earlier records")
    expect(older).to_be_visible()
    held = "() => +document.querySelector('.sheet article[aria-setsize]').getAttribute('aria-setsize')"
    before = page.evaluate(held)
    shoot(page, "earlier")
    older.click()
    expect(older).to_be_hidden()
    assert page.evaluate(held) > before
    page.locator(".scroller").focus()
    page.keyboard.press("g")
    expect(page.locator("article[data-seq='2']")).to_be_visible()
    expect(page.locator(".legend .key-tool")).to_have_text("12,650 tool calls")
