"""A session's timeline: what was said and done, live, replayed, long and hostile."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Window, fill, shoot
from tests.browser.hub_process import HubProcess, wait_for

PLAN = """## Plan

1. **bold** and `code`
2. [docs](https://example.org)

| a | b |
|---|---|
| 1 | 2 |"""
ALL_SEQS = """() => [...document.querySelectorAll('.sheet article[data-seq]')].map(a => +a.dataset.seq)"""


def test_messages_tools_and_their_ends(hub: HubProcess, window: Window) -> None:
    session = hub.ran(
        "Show all.",
        [
            {"think": "Let me think."},
            {"say": PLAN},
            {"tool": "shell", "run": "sleep 0.1; seq 400"},
            {"tool": "shell", "run": "echo no; false"},
            {"say": "```diff\n@@ -1 +1 @@\n-old\n+new\n```"},
        ],
        key="forge:owner/repo:7",
    )
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".card.assistant strong").first).to_have_text("bold")
    expect(page.locator(".card.assistant a[rel~=noopener]")).to_have_attribute("href", "https://example.org/")
    expect(page.locator(".card.assistant td").first).to_have_text("1")
    expect(page.locator(".line.in")).to_have_text("+new\n")
    expect(page.locator(".line.out")).to_have_text("-old\n")
    tools = page.locator("article.tool")
    expect(tools).to_have_count(2)
    expect(tools.nth(0).locator(".outcome")).to_have_text("ok")
    expect(tools.nth(1).locator(".outcome")).to_have_text("failed")
    expect(tools.nth(0).locator(".took")).not_to_be_empty()
    tools.nth(0).locator("summary").click()
    output = tools.nth(0).locator(".part").last
    expect(output.locator("pre")).not_to_contain_text("399")  # long output is folded
    output.get_by_role("button", name="Show more").click()
    expect(output.locator("pre")).to_contain_text("399")
    first = page.locator(".sheet article").first
    expect(first).to_contain_text("Show all.")  # it begins with the person's words
    run = page.locator("details.run-line")
    expect(run).to_have_count(1)  # and the plumbing is one line per run
    expect(run.locator("summary")).to_have_text(re.compile(r"^Run 1 · done · [\d.]+ (ms|s)"))
    run.locator("summary").click()
    expect(run.locator(".records")).to_contain_text("claimed by a worker")
    shoot(page, "session")


def test_a_call_that_was_cut_off_is_marked(hub: HubProcess, window: Window) -> None:
    session = hub.ran(
        "Die.", [{"parallel": [{"tool": "shell", "run": "sleep 2"}, {"die": "KILL", "delay": 0.2}]}]
    )
    page = window.open(hub, f"/s/{session}")
    expect(page.locator("article.tool .outcome")).to_have_text("interrupted")
    expect(page.locator(".mark-line.interrupted")).to_contain_text("died")
    expect(page.locator(".facts .status")).to_have_text("died")
    expect(page.locator(".legend .key-death")).to_have_text("1 death")
    expect(page.locator(".legend .key-cut")).to_have_text("1 cut off")
    shoot(page, "interrupted")


def test_replayed_events_are_dimmed_under_one_divider(hub: HubProcess, window: Window) -> None:
    page = window.open(hub, f"/s/{fill(hub, 'replayed')}")
    expect(page.locator(".divider")).to_have_count(1)
    expect(page.locator(".divider")).to_contain_text("Replayed from session native-77")
    old = page.locator("article.replayed")
    expect(old).to_have_count(2)
    assert float(old.first.locator("> *").first.evaluate("e => getComputedStyle(e).opacity")) < 0.9
    expect(page.locator("article.assistant:not(.replayed)")).to_contain_text("Said now")
    expect(page.locator(".legend .key-replayed")).to_have_text("2 records replayed")
    shoot(page, "replayed")


def test_text_appears_as_it_streams(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    told = hub.dispatch("Slowly.", [{"say": "one two three four " * 30, "chunk": 20, "delay": 0.15}])
    page.goto(f"{hub.page_url}/#/s/{told['session']}")
    expect(page.locator("article.live")).to_contain_text("one two three")
    shoot(page, "live")
    hub.ended(told["task"])
    expect(page.locator("article.live")).to_have_count(0)
    expect(page.locator("article.assistant")).to_have_count(1)


def drawn(page: Page) -> None:
    """Wait until what was asked for is on the screen, where there is one."""
    page.evaluate(
        "() => new Promise(r => { setTimeout(r, 2000);"
        " requestAnimationFrame(() => requestAnimationFrame(r)) })"
    )


def seqs_of(page: Page) -> list[int]:
    """Every record that the page holds, by scrolling through all of it."""
    found: set[int] = set()
    page.keyboard.press("g")
    for _ in range(400):
        now: list[int] = page.evaluate(ALL_SEQS)
        assert len(now) == len(set(now)), "a record is shown twice"
        found.update(now)
        done = page.evaluate(
            "() => { const s = document.querySelector('.scroller'); const was = s.scrollTop;"
            " s.scrollTop += s.clientHeight; return s.scrollTop === was }"
        )
        drawn(page)
        if done:
            break
    return sorted(found)


def test_the_hub_killed_mid_stream(own_hub: HubProcess, window: Window) -> None:
    steps = [{"tool": "shell", "run": f"echo step {i}; sleep 0.1"} for i in range(40)]
    told = own_hub.dispatch("Go on through a crash.", [*steps, {"say": "The very end."}])
    page = window.open(own_hub, f"/s/{told['session']}")
    expect(page.locator("article.tool").nth(3)).to_be_visible()
    own_hub.kill()
    expect(page.locator("#line")).to_contain_text("connection lost")
    shoot(page, "lost")
    own_hub.start()
    expect(page.locator("#line")).to_have_text("live")
    assert own_hub.ended(told["task"]) == "succeeded"
    expect(page.locator("article.assistant")).to_contain_text("The very end.")
    log = own_hub.ask("GET", f"/api/sessions/{told['session']}/events?limit=500")["events"]
    wanted = [e["seq"] for e in log if e["kind"] in ("user", "tool_progress", "assistant")]
    shown = seqs_of(page)
    assert [seq for seq in shown if seq in set(wanted)] == wanted
    expect(page.locator("article.tool .outcome", has_text="no result")).to_have_count(0)
    expect(page.locator(".legend .key-down")).to_contain_text("hub down")
    page.keyboard.press("G")
    shoot(page, "came-back")


def test_twenty_thousand_events(hub: HubProcess, window: Window) -> None:
    session = fill(hub, "long", 20_000)
    page = window.open(hub, f"/s/{session}")
    expect(page.locator(".facts")).to_contain_text("20,000 records")
    expect(page.get_by_label("Timeline", exact=True)).to_have_attribute("aria-busy", "false")
    expect(page.locator(".legend .key-tool")).to_have_text("5,000 tool calls")  # all of it is there
    assert page.locator(".sheet article").count() < 120  # and only what is near the eye is drawn
    last = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('[data-seq]')].map(e => +e.dataset.seq))"
    )
    assert last >= 19_997  # the end is what one sees first
    shoot(page, "long")
    page.locator(".scroller").focus()
    page.keyboard.press("g")
    expect(page.locator("article[data-seq='2']")).to_be_visible()
    expect(page.locator("article[data-seq='2']")).to_have_attribute("aria-posinset", "1")
    page.locator(".to-end").click()
    expect(page.locator(f"article[data-seq='{last}']")).to_be_visible()
    page.keyboard.press("f")
    page.keyboard.type("Message number 10002.")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_have_text("1 of 1")
    expect(page.locator("article[data-seq='10002']")).to_be_in_viewport()
    marked = "() => [...(CSS.highlights.get('found') ?? [])].map((range) => range.toString())"
    assert page.evaluate(marked) == ["Message number 10002."]
    # No stretch of it is empty, however one scrolls.
    for part in (0.1, 0.35, 0.62, 0.9):
        page.evaluate(
            "p => { const s = document.querySelector('.scroller'); s.scrollTop = p * s.scrollHeight }", part
        )
        drawn(page)
        holes = page.evaluate(
            """() => { const s = document.querySelector('.scroller').getBoundingClientRect(); let empty = 0;
            for (let y = s.top + 4; y < s.bottom; y += 8) {
              const under = document.elementsFromPoint(s.left + s.width / 2, y);
              const hit = under.some(e => e.closest('article.row'));
              empty += hit ? 0 : 1 } return empty }"""
        )
        assert holes == 0


def test_hostile_content_is_text(hub: HubProcess, window: Window) -> None:
    page = window.open(hub, f"/s/{fill(hub, 'hostile')}")
    expect(page.locator("article.assistant").last).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("article.assistant").first).to_contain_text("<script>window.owned = 1</script>")
    expect(page.locator("h1")).to_contain_text("⟨U+202E⟩")
    assert page.locator("#main script, #main img, #sessions img, #main svg[onload]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    expect(page.locator("article.tool .line.out")).to_have_text("-two\n")
    expect(page.locator("article.tool .line.in")).to_have_text("+2\n")
    page.locator("article.tool summary").first.click()
    big = page.locator("article.tool").first.get_by_role("button", name="Show more · ", exact=False).last
    expect(big).to_contain_text("of 1.0 MB")
    big.click()
    expect(big).to_contain_text("104 KB of 1.0 MB")
    assert page.evaluate("window.owned") is None
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1280
    page.keyboard.press("G")
    shoot(page, "hostile")


def test_the_strip_tells_and_jumps(hub: HubProcess, window: Window) -> None:
    many = [{"tool": "shell", "run": f"seq {i} {i + 30}"} for i in range(30)]
    session = hub.ran(
        "Long.",
        [
            {"say": "First words."},
            *many,
            {"parallel": [{"tool": "shell", "run": "sleep 1"}, {"die": 9, "delay": 0.3}]},
        ],
    )
    page = window.open(hub, f"/s/{session}")
    plate = page.get_by_role("slider", name="Flight recorder")
    expect(page.locator(".legend .key-run")).to_have_text("1 run")
    plate.focus()
    page.keyboard.press("End")
    expect(plate).to_have_attribute("aria-valuetext", re.compile("died"))
    expect(page.locator(".tip")).to_contain_text("The agent died")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tip")).to_be_visible()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("details.run-line")).to_be_in_viewport()  # the claim is in its details
    box = plate.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 6, box["y"] + 14)
    expect(page.locator(".tip")).to_contain_text("died")
    shoot(page, "strip")
    page.mouse.click(box["x"] + box["width"] - 6, box["y"] + 14)
    expect(page.locator(".mark-line.interrupted")).to_be_in_viewport()


def test_a_phone_shows_the_same(hub: HubProcess, window: Window) -> None:
    session = hub.ran("On a phone.", [{"say": "A message."}, {"tool": "shell", "run": "seq 50"}])
    page = window.open(hub, f"/s/{session}", size=PHONE)
    expect(page.locator("article.assistant")).to_contain_text("A message.")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    expect(page.locator("#sessions")).not_to_be_in_viewport()
    page.get_by_role("button", name="Sessions").click()
    expect(page.locator(f"li.session[data-id='{session}']")).to_be_in_viewport()
    wait_for("the drawer", lambda: page.locator("#sessions").bounding_box()["x"] == 0)  # type: ignore[index]
    shoot(page, "phone-drawer")
    page.locator(f"li.session[data-id='{session}'] a").click()
    page.keyboard.press("Escape")
    shoot(page, "phone-session")
