"""Who can use it: by ear, in the dark, on a small screen; and the picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import JUDGED, PHONE, SHOTS, Window, check, fill
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
DESK = (1440, 900)
PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
ASKS: list[dict[str, Any]] = [{"tool": "shell", "run": "make deploy", "ask": True}, {"say": "Done."}]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
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
    expect(page.locator(".inbox-row").first).to_be_visible()
    check(page)
    for path, ready in (
        (f"/s/{session}", "article.tool"),
        (f"/s/{fill(hub, 'replayed')}", ".divider"),
        ("/stats", ".ring-key"),
        ("/tasks", ".tasks"),
        ("/verdicts?action=fresh", ".plain-list"),
        ("/doctor", ".note"),
    ):
        page.goto(f"{hub.page_url}/#{path}")
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
    expect(page.locator("#ear p", has_text="Run succeeded")).to_have_count(1)


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
    expect(page.locator(".composer .chip")).to_have_attribute("data-verdict", "fresh")
    expect(page.locator(".legend .key-death")).to_be_visible()
    expect(page.locator(".legend .key-down")).to_be_visible()
    page.wait_for_function(
        "() => !document.querySelector('.chip:disabled') && !document.querySelector('.toast')"
    )
    own_hub.ask("POST", f"/api/tasks/{running['task']}/cancel", {})
    page.screenshot(path=PICTURE, animations="disabled")
    assert PICTURE.stat().st_size <= 300_000
