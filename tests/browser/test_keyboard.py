"""All of it without a mouse."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Window, shoot
from tests.browser.hub_process import HubProcess

FOCUSED = """() => { const e = document.activeElement; if (!e || e === document.body) return null;
  const style = getComputedStyle(e);
  const part = e.matches('article.row') ? getComputedStyle(e.firstElementChild) : style;
  return { name: (e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? '').trim(),
    room: e.closest('header#bar, aside, main, dialog, #banner')?.id ?? e.id,
    seen: part.outlineStyle !== 'none' || e.matches('main, h1, #palette-list, [role=combobox]'),
    tag: e.outerHTML.slice(0, 100) } }"""


def walk(page: Page, most: int) -> list[dict[str, Any]]:
    """Where Tab goes, until it leaves the page or comes round."""
    found: list[dict[str, Any]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at is None or (found and at == found[0]):
            break
        found.append(at)
    return found


def test_all_of_it_without_a_mouse(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran("Walk through me.", [{"say": "One."}, {"tool": "shell", "run": "seq 3"}])
    own_hub.ran("And me.", [{"say": "One."}])
    page = window.open(own_hub, f"/s/{session}")
    expect(page.locator(".composer .chip")).to_have_text("safe")
    expect(page.locator("li.session .chip.usual")).to_have_count(2)
    stops = walk(page, 80)
    assert stops[0]["name"] == "Skip to content"
    assert [stop for stop in stops if not stop["name"]] == []
    assert [stop for stop in stops if not stop["seen"]] == []
    rooms = [stop["room"] for stop in stops[1:]]
    assert list(dict.fromkeys(rooms)) == ["bar", "sessions", "main"]
    assert rooms == sorted(
        rooms, key=["bar", "sessions", "main"].index
    )  # each room once, in the order of reading
    names = [stop["name"] for stop in stops]
    for wanted in ("Inbox", "New task", "Dark or light", "Search sessions", "State", "More actions"):
        assert wanted in names
    for wanted in (
        "What to do next",
        "Other ways to send",
        "Send",
        "Find in session",
        "Timeline, scrollable",
    ):
        assert wanted in names
    # Skip to content.
    page.reload()
    page.wait_for_selector("#line.live")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator("h1")).to_contain_text("Walk through me.")
    # What opens is closed by Escape, and the keyboard is where it was.
    chip = page.locator(".composer .chip")
    expect(chip).to_be_enabled()
    chip.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Verdict")).to_be_focused()
    page.keyboard.press("Escape")
    expect(chip).to_be_focused()
    more = page.get_by_role("button", name="More actions")
    more.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Rename…")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Conversation id…")).to_be_focused()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Command or session")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(more).to_be_focused()
    # A task is started, and gone on with, from the keys alone.
    page.keyboard.press("n")
    expect(page.get_by_label("Prompt")).to_be_focused()
    page.keyboard.type('By keys. <<[{"say":"Begun."}]>>')
    page.keyboard.press("Tab")
    page.keyboard.type("Demo")
    page.keyboard.press("Control+Enter")
    expect(page.locator("article.assistant")).to_contain_text("Begun.")
    expect(chip).to_have_text("safe")
    page.keyboard.press("r")
    page.keyboard.type('More. <<[{"say":"Gone on with."}]>>')
    page.keyboard.press("Control+Enter")
    expect(page.locator("article.assistant").last).to_contain_text("Gone on with.")
    # A list is walked with arrows, its sessions opened with Enter.
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("Walk")
    expect(page.locator("li.session")).to_have_count(1)
    page.locator("li.session a").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Walk through me.")
    tool = page.locator("article.tool summary")
    tool.focus()
    page.keyboard.press("Enter")
    expect(page.locator("article.tool details")).to_have_attribute("open", "")


def test_the_palette_and_the_keys(hub: HubProcess, window: Window) -> None:
    session = hub.ran("Find me by the palette.", [{"say": "One."}, {"say": "Two."}])
    page = window.open(hub)
    expect(page.locator(f"li.session[data-id='{session}']")).to_have_count(1)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Command or session")
    expect(field).to_be_focused()
    page.keyboard.type("doct")
    expect(page.locator("#palette-list li").first).to_contain_text("Doctor")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Doctor")
    page.keyboard.press("Control+k")
    page.keyboard.type("me by the pal")
    expect(page.locator("#palette-list li").first).to_contain_text("Find me by the palette.")
    shoot(page, "palette")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Find me by the palette.")
    expect(page.locator("article.assistant")).not_to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("article:focus")).to_have_attribute("aria-posinset", "2")
    page.keyboard.press("k")
    expect(page.locator("article:focus")).to_have_attribute("aria-posinset", "1")
    page.keyboard.press("r")
    expect(page.get_by_label("What to do next")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Next session")
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    expect(page.locator("h1")).to_have_text("Inbox")
