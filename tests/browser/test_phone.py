"""Every view on a phone: nothing beside the screen, and every control in reach."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Window, shoot
from tests.browser.hub_process import HubProcess
from tests.browser.test_reach import SAID

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
    expect(page.locator("h1")).to_have_text("Inbox")
    for path, ready in (
        ("/", ".inbox-row"),
        ("/stats", ".ring-key"),
        (f"/s/{session}", ".composer .chip:enabled"),
        ("/tasks", ".tasks"),
        ("/tasks?waiting=1", ".tasks"),
        ("/verdicts?action=fresh", ".plain-list"),
        ("/doctor", ".note"),
    ):
        page.goto(f"{own_hub.page_url}/#{path}")
        expect(page.locator(ready).first).to_be_visible()
        assert page.evaluate(BEYOND) == []
        page.evaluate("() => document.querySelectorAll('.view, #main').forEach(e => e.scrollTo?.(0, 0))")
        shoot(
            page,
            f"phone{'-'.join(['', *[word for word in path.split('?')[0].split('/') if word][:1]]) or '-all'}",
        )
    page.goto(f"{own_hub.page_url}/#/s/{session}")
    page.get_by_role("button", name="Sessions").click()
    expect(page.locator(f"li.session[data-id='{session}']")).to_be_in_viewport()
    expect(page.locator("#shade")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sessions")).to_be_hidden()
    page.get_by_role("button", name="More actions").click()
    expect(page.get_by_role("menuitem", name="Archive")).to_be_in_viewport()
    shoot(page, "phone-menu")
    page.keyboard.press("Escape")
    page.locator(".composer .chip").click()
    expect(page.get_by_role("dialog")).to_be_in_viewport()
    shoot(page, "phone-verdict")
    page.keyboard.press("Escape")
    for opens, name in (("New task", "phone-new-task"), ("Command palette, Control K", "phone-palette")):
        page.get_by_role("button", name=opens).click()
        assert page.evaluate(BEYOND) == []
        shoot(page, name)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
