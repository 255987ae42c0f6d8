"""Who can use it: by keyboard, by ear, in the dark, on a phone; and the picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import JUDGED, PHONE, SHOTS, WIDE, Window, check, fill, shoot
from tests.browser.hub_process import HubProcess

SAID = """# Title

- [x] done

`code` and [a link](https://example.org)

```diff
-a
+b
```

| a |
|---|
| b |"""
CHANGE = """Three tests expect the error. This is the change:

```diff
@@ -14,3 +14,3 @@
 for row in rows:
-    station = table[row.id]
+    station = table.get(row.id, UNKNOWN)
```"""
PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
ASKS: list[dict[str, Any]] = [{"tool": "shell", "run": "make deploy", "ask": True}, {"say": "Done."}]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing(hub: HubProcess, window: Window, size: tuple[int, int], dark: bool) -> None:
    session = hub.ran(
        "Everything.",
        [
            {"think": "Hm."},
            {"say": SAID},
            {"tool": "shell", "run": "seq 100"},
            {"parallel": [{"tool": "shell", "run": "sleep 0.5"}, {"die": "KILL", "delay": 0.2}]},
        ],
    )
    page = window.open(hub, "/", size=size, dark=dark)
    expect(page.locator(".ring-key")).to_be_visible()
    check(page)
    for path, ready in (
        (f"/s/{session}", "article.tool"),
        (f"/s/{fill(hub, 'replayed')}", ".divider"),
        ("/tasks", ".tasks"),
        ("/verdicts?action=fresh", ".plain-list"),
        ("/doctor", ".note"),
    ):
        page.goto(f"{hub.url}/#{path}")
        page.wait_for_selector(ready)
        page.evaluate("() => document.querySelectorAll('article.tool details').forEach(d => (d.open = true))")
        page.wait_for_function(JUDGED, polling=100)
        check(page)
        if ready == "article.tool":
            SHOTS.mkdir(exist_ok=True)
            name = f"session-{'phone' if size == PHONE else 'wide'}-{'dark' if dark else 'light'}.png"
            page.screenshot(path=SHOTS / name, animations="disabled")
    page.keyboard.press("n")
    check(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    check(page)


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
    expect(page.locator("h1")).to_have_text("Overview")


def test_dark_and_light_by_a_switch_that_stays(hub: HubProcess, window: Window) -> None:
    page = window.open(hub, dark=False)

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = ground()
    page.get_by_role("button", name="Dark or light").click()
    dark = ground()
    assert dark != light
    page.reload()
    page.wait_for_selector("#line.live")
    assert ground() == dark
    other = window.open(hub, dark=True)
    assert other.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_landmarks_and_what_is_said(hub: HubProcess, window: Window) -> None:
    told = hub.dispatch("Ask.", ASKS, permissions="ask")
    page = window.open(hub, f"/s/{told['session']}")
    for role in ("banner", "main", "complementary", "navigation"):
        expect(page.get_by_role(role)).not_to_have_count(0)
    expect(page.locator(".permission-bar")).to_be_visible()
    page.locator(".permission-bar").get_by_role("button", name="Allow").click()
    expect(page.locator("#ear")).to_have_text("Run succeeded")


# Each control that can be used is on the screen, once scrolled to, and nothing lies over it.
BEYOND = """() => {
  const found = [];
  const inside = document.querySelector('dialog[open]') ?? document.body;
  const controls = 'a[href]:not(.skip), button, input, select, textarea, summary, [role=slider]';
  for (const one of inside.querySelectorAll(controls)) {
    if (one.disabled || !one.checkVisibility({ visibilityProperty: true })) continue;
    one.scrollIntoView({ block: 'center', inline: 'nearest' });
    const place = one.getBoundingClientRect();
    const [x, y] = [place.left + place.width / 2, place.top + place.height / 2];
    const hit = document.elementFromPoint(x, y);
    const free = hit && (one.contains(hit) || hit.contains(one));
    if (place.left < -1 || place.right > innerWidth + 1 || !free)
      found.push(`${one.outerHTML.slice(0, 120)} at ${x},${y} under ${hit?.outerHTML.slice(0, 80)}`);
  }
  return found;
}"""


def test_every_view_on_a_phone(own_hub: HubProcess, window: Window) -> None:
    session = own_hub.ran(
        "Look at me with a small screen, and a title that is far too long for it.",
        [{"say": SAID}, {"tool": "shell", "run": "seq 100"}, {"say": "x" * 300}, {"die": "KILL"}],
        key="forge:owner/a-repository-with-a-long-name:1234567890",
    )
    page = window.open(own_hub, "/", size=PHONE)
    expect(page.locator(".ring-key")).to_be_visible()
    for path, ready in (
        ("/", ".ring-key"),
        (f"/s/{session}", ".go-on .chip:enabled"),
        ("/tasks", ".tasks"),
        ("/tasks?waiting=1", ".tasks"),
        ("/verdicts?action=fresh", ".plain-list"),
        ("/doctor", ".note"),
    ):
        page.goto(f"{own_hub.url}/#{path}")
        expect(page.locator(ready).first).to_be_visible()
        assert page.evaluate(BEYOND) == []
        page.evaluate("() => document.querySelectorAll('.view, #main').forEach(e => e.scrollTo?.(0, 0))")
        shoot(
            page,
            f"phone{'-'.join(['', *[word for word in path.split('?')[0].split('/') if word][:1]]) or '-all'}",
        )
    page.goto(f"{own_hub.url}/#/s/{session}")
    page.get_by_role("button", name="Sessions").click()
    expect(page.locator(f"li.session[data-id='{session}']")).to_be_in_viewport()
    expect(page.locator("#shade")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sessions")).to_be_hidden()
    page.get_by_role("button", name="More actions").click()
    expect(page.get_by_role("menuitem", name="Archive")).to_be_in_viewport()
    shoot(page, "phone-menu")
    page.keyboard.press("Escape")
    page.locator(".go-on .chip").click()
    expect(page.get_by_role("dialog")).to_be_in_viewport()
    shoot(page, "phone-verdict")
    page.keyboard.press("Escape")
    for opens, name in (("New task", "phone-new-task"), ("Command palette, Control K", "phone-palette")):
        page.get_by_role("button", name=opens).click()
        assert page.evaluate(BEYOND) == []
        shoot(page, name)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


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
    expect(page.locator(".go-on .chip")).to_have_text("safe")
    expect(page.locator("li.session .chip:enabled")).to_have_count(2)
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
    for wanted in ("Overview", "New task", "Dark or light", "Search sessions", "State", "More actions"):
        assert wanted in names
    for wanted in ("What to do next", "How to go on", "Resume", "Find in session", "Timeline, scrollable"):
        assert wanted in names
    # Skip to content.
    page.reload()
    page.wait_for_selector("#line.live")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator("h1")).to_contain_text("Walk through me.")
    # What opens is closed by Escape, and the keyboard is where it was.
    chip = page.locator(".go-on .chip")
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
    expect(page.get_by_role("menuitem", name="Trust…")).to_be_focused()
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


def name(hub: HubProcess, session: str, title: str) -> None:
    """Without the demo agent's script in it."""
    told = hub.ask("GET", f"/api/sessions/{session}")["session"]
    hub.ask("PATCH", f"/api/sessions/{session}", {"version": told["version"], "title": title})


def test_the_picture(own_hub: HubProcess, window: Window) -> None:
    for title, steps, key in (
        ("Write the release notes", [{"say": "Done."}], 98),
        ("Update the pinned actions", [{"error": "no"}], 101),
        ("Why is the harbour map so slow?", [{"say": "It reads all stations twice."}], 103),
    ):
        name(own_hub, own_hub.ran(title, steps, key=f"forgejo:dev:tide/buoy:{key}"), title)
    dead = own_hub.dispatch(
        "Make the tide tables tolerate a missing station",
        [
            {"think": "The loader raises on the first gap. I will look at the tests before I change it."},
            {"say": "I will **read the loader**, then change `stations()` so that a gap is a warning."},
            {"tool": "shell", "run": "sleep 0.7; seq 12"},
            {"sleep": 0.6},
            {"tool": "shell", "run": "sleep 0.4; echo 3 failed; false"},
            {"say": CHANGE},
            {"tool": "shell", "run": "sleep 0.5; echo 14 passed", "ask": True},
            {"parallel": [{"tool": "shell", "run": "sleep 3"}, {"die": "KILL", "delay": 1.5}]},
        ],
        # The picture is not to show where the test ran.
        cwd="/tmp",
        key="forgejo:dev:tide/buoy:104",
        permissions="ask",
    )
    name(own_hub, dead["session"], "Make the tide tables tolerate a missing station")
    page = window.open(own_hub, f"/s/{dead['session']}")
    expect(page.locator(".permission-bar")).to_be_visible()
    own_hub.kill()
    expect(page.locator("#line.lost")).to_be_visible()
    own_hub.start()
    expect(page.locator("#line.live")).to_be_visible()
    page.locator(".permission-bar").get_by_role("button", name="Allow").click()
    own_hub.ended(dead["task"])
    running = own_hub.dispatch("Sort the buoys by age", [{"hang": True}], key="forgejo:dev:tide/buoy:105")
    name(own_hub, running["session"], "Sort the buoys by age")
    expect(page.locator("li.session").first).to_contain_text("Sort the buoys")
    expect(page.locator(".go-on .chip")).to_have_attribute("data-verdict", "fresh")
    expect(page.locator(".legend .key-death")).to_be_visible()
    expect(page.locator(".legend .key-down")).to_be_visible()
    page.wait_for_function(
        "() => !document.querySelector('.chip:disabled') && !document.querySelector('.toast')"
    )
    own_hub.ask("POST", f"/api/tasks/{running['task']}/cancel", {})
    page.screenshot(path=PICTURE, animations="disabled")
    assert PICTURE.stat().st_size <= 300_000
