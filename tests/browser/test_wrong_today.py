"""What a new user's first hour found wrong on the page: each with a test that fails without its fix."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from holdfast.spool.task_dir import Spool
from tests.browser.conftest import PHONE, Window, shoot
from tests.browser.hub_process import HubProcess, wait_for

HANG: list[dict[str, Any]] = [{"say": "Busy."}, {"tool": "shell", "run": "true"}, {"hang": True}]
HOLD: list[dict[str, Any]] = [{"tool": "shell", "run": "exec sleep 600"}]
ASKS: list[dict[str, Any]] = [{"tool": "shell", "run": "echo allowed", "ask": True}, {"say": "Done."}]
DIES: list[dict[str, Any]] = [{"tool": "shell", "run": "true"}, {"die": "KILL"}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for all of these."""
    found = HubProcess(str(tmp_path_factory.mktemp("wrong")))
    found.start()
    yield found
    found.stop()


def status(hub: HubProcess, task: str) -> str:
    return str(hub.ask("GET", f"/api/tasks/{task}")["status"])


def follow_up(hub: HubProcess, session: str, said: str, steps: list[dict[str, Any]]) -> dict[str, str]:
    """Queue a prompt as the page does."""
    wish = {"prompt": f"{said} <<{json.dumps(steps)}>>", "how": "verdict", "queue": True}
    told: dict[str, str] = hub.ask("POST", f"/api/sessions/{session}/resume", wish)
    return told


def kill_agent(hub: HubProcess, task: str) -> None:
    """Kill the agent of a task that is in the middle of a tool call."""
    session = hub.ask("GET", f"/api/tasks/{task}")["session"]
    wait_for(
        "a tool call",
        lambda: any(
            e["kind"] == "tool_progress" for e in hub.ask("GET", f"/api/sessions/{session}/events")["events"]
        ),
    )
    spool = Spool(os.path.join(hub.home, "tasks", task))
    os.kill(wait_for("the agent", spool.agent).pid, signal.SIGKILL)
    assert hub.ended(task) == "interrupted"


def test_stop_names_its_task_and_asks_once(shared: HubProcess, window: Window) -> None:
    hub = shared
    runs = hub.dispatch("The one that runs.", HANG)
    waits = follow_up(hub, runs["session"], "The one behind it.", [{"say": "x"}])
    page = window.open(hub, f"/s/{runs['session']}")
    bar = page.get_by_label("Running and queued tasks")
    expect(bar.locator(".open-task")).to_have_count(2)
    expect(page.locator(".facts .status")).to_have_text("running")
    expect(page.locator(".facts .queue")).to_have_text("1 queued")
    row = page.locator(f"li.session[data-id='{runs['session']}']")
    expect(row.locator(".word").first).to_have_text("running")
    expect(row).to_contain_text("1 queued")
    shoot(page, "queue")
    # The palette never preselects what stops or deletes.
    page.keyboard.press("Control+k")
    page.keyboard.type("stop: the one")
    expect(page.locator("#palette-list li").first).to_contain_text("Stop: The one that runs.")
    expect(page.locator("#palette-list li[aria-selected=true]")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Command palette")).to_be_visible()
    page.keyboard.press("Escape")
    # One question, which names the task; the harmless answer has the keyboard.
    bar.get_by_role("button", name="Stop: The one that runs.").click()
    box = page.get_by_role("dialog", name="Stop this task?")
    expect(box).to_contain_text("The one that runs.")
    expect(box.get_by_role("button", name="Keep it running")).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_have_count(0)
    assert status(hub, runs["task"]) == "running"
    bar.get_by_role("button", name="Stop: The one that runs.").click()
    box.get_by_role("button", name="Stop it").click()
    assert hub.ended(runs["task"]) == "cancelled"
    assert status(hub, waits["task"]) != "cancelled"  # what waits is not what was stopped


def test_a_queued_one_is_removed_and_the_other_runs_on(shared: HubProcess, window: Window) -> None:
    hub = shared
    runs = hub.dispatch("Runs on.", HANG)
    waits = follow_up(hub, runs["session"], "Taken out.", [{"say": "x"}])
    page = window.open(hub, f"/s/{runs['session']}")
    page.get_by_role("button", name="Remove: Taken out.").click()
    page.get_by_role("dialog", name="Take this task out of the queue?").get_by_role(
        "button", name="Take it out"
    ).click()
    assert hub.ended(waits["task"]) == "cancelled"
    expect(page.locator(".open-task")).to_have_count(1)
    expect(page.locator(".facts .status")).to_have_text("running")
    expect(page.get_by_role("button", name="Stop: Runs on.")).to_be_visible()
    assert status(hub, runs["task"]) == "running"


def test_a_follow_up_goes_by_the_verdict_of_its_turn(shared: HubProcess, window: Window) -> None:
    hub = shared
    runs = hub.dispatch("Dies with a follow-up behind it.", HOLD)
    page = window.open(hub, f"/s/{runs['session']}")
    expect(page.locator(".open-task")).to_have_count(1)
    send = page.get_by_role("button", name="Send when it is done")
    page.get_by_label("What to do next").fill('The follow-up. <<[{"say":"It was not dropped."}]>>')
    send.click()
    expect(page.locator(".open-task")).to_have_count(2)
    kill_agent(hub, runs["task"])
    # It waits for what the dead run left, by name, and is never shown as running.
    expect(page.locator(".facts .status")).to_have_text("waiting")
    expect(page.locator(f"li.session[data-id='{runs['session']}'] .word").first).to_have_text("waiting")
    hub.ask("POST", f"/api/sessions/{runs['session']}/leftovers/stop", {})
    moved = wait_for("the fresh session", lambda: successor(hub, runs["session"]))
    page.goto(f"{hub.page_url}/#/s/{moved}")
    expect(page.locator("article.assistant").last).to_contain_text("It was not dropped.")
    # The earlier session is folded under the one that continues it.
    row = page.locator(f"li.session[data-id='{moved}']")
    expect(row.locator("details.earlier > summary")).to_have_text("1 earlier session")


def successor(hub: HubProcess, session: str) -> str | None:
    found = hub.ask("GET", "/api/sessions?limit=500")["sessions"]
    return next((s["id"] for s in found if (s["link"] or {}).get("session") == session), None)


def test_send_all_again_says_what_was_not_sent_and_why(shared: HubProcess, window: Window) -> None:
    hub = shared
    held = hub.dispatch("Leaves a process behind.", HOLD, key="again:held")
    kill_agent(hub, held["task"])
    page = window.open(hub)
    failed = page.get_by_label("Died or failed")
    expect(failed).to_contain_text("Leaves a process behind.")
    expect(failed.locator(f"[data-task='{held['task']}'] .status")).to_have_text("died")
    failed.get_by_role("button", name="Send all again").click()
    told = page.get_by_label("Sent again", exact=True)
    expect(told).to_contain_text("Not sent:")
    expect(told).to_contain_text("still runs")
    expect(told).not_to_contain_text("--")
    shoot(page, "sent-again")
    told.get_by_role("button", name="Dismiss").click()
    expect(told).to_have_count(0)
    hub.ask("POST", f"/api/sessions/{held['session']}/leftovers/stop", {})


def test_a_death_has_its_ways_out(shared: HubProcess, window: Window) -> None:
    hub = shared
    dead = hub.dispatch("Killed in a call.", HOLD)
    kill_agent(hub, dead["task"])
    page = window.open(hub, f"/s/{dead['session']}", size=PHONE)
    card = page.get_by_label("How the last run ended")
    expect(card).to_contain_text("The agent died.")
    expect(card).to_contain_text(re.compile(r"sleep 600.*pid \d+", re.S))
    shoot(page, "phone-death")
    card.get_by_role("button", name=re.compile("Stop (it|them)")).click()
    expect(card.get_by_role("button", name="Run again with a brief")).to_be_visible()
    expect(card.get_by_role("button", name="Start fresh")).to_be_visible()
    expect(card.get_by_role("button", name="Trust…")).to_have_count(0)  # not after a death
    shoot(page, "phone-death-after")
    card.get_by_role("button", name="Start fresh").click()
    expect(page.get_by_label("What to do next")).to_be_focused()
    expect(page.locator(".composer button.primary")).to_have_text("Start fresh")
    hub.ask("POST", f"/api/sessions/{dead['session']}/archive", {})
    # An archived session has its ways back.
    away = page.locator(".away")
    expect(away.get_by_role("button", name="Unarchive")).to_be_visible()
    expect(away.get_by_role("button", name="Fork…")).to_be_visible()
    expect(page.locator(".composer button.primary")).to_have_text("Bring back and send")
    page.get_by_label("What to do next").fill('And on. <<[{"say":"Back again."}]>>')
    page.locator(".composer button.primary").click()
    expect(page.locator("article.assistant").last).to_contain_text("Back again.")
    assert hub.ask("GET", f"/api/sessions/{dead['session']}")["session"]["state"] == "live"


def test_run_again_and_trust(shared: HubProcess, window: Window) -> None:
    hub = shared
    session = hub.ran("Killed, then run again.", DIES)
    page = window.open(hub, f"/s/{session}")
    card = page.get_by_label("How the last run ended")
    card.get_by_role("button", name="Run again with a brief").click()
    expect(page).not_to_have_url(re.compile(session))
    expect(page.locator(".facts a")).to_contain_text("fresh from")
    failed = hub.ran("Fails.", [{"error": "no"}])
    page.goto(f"{hub.page_url}/#/s/{failed}")
    expect(card).to_contain_text("The last run failed.")
    card.get_by_role("button", name="Trust…").click()
    page.get_by_label("Why is it safe to resume?").fill("I have looked")
    page.get_by_role("button", name="Trust", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("Trusted")
    expect(page.locator(".composer .chip")).to_have_text("safe")


def test_asking_is_a_status_of_its_own_and_answered_inline(shared: HubProcess, window: Window) -> None:
    hub = shared
    told = hub.dispatch("May I?", ASKS, permissions="ask")
    page = window.open(hub)
    needs = page.get_by_label("Needs you")
    expect(needs.locator(".asking", has_text="echo allowed")).to_be_visible()
    row = page.locator(f"li.session[data-id='{told['session']}']")
    expect(row.locator(".word").first).to_have_text("asks you")
    expect(page.get_by_label("Running", exact=True).locator(f"[data-task='{told['task']}']")).to_have_count(0)
    stalled = page.evaluate(
        """async () => {
          const { isStalled } = await import('/page/status.js');
          const session = { updated_at: '2026-01-01T00:00:00.000000Z' };
          const at = (m) => Date.parse(session.updated_at) + m * 60000;
          const task = (status) => ({ status });
          return [isStalled(task('running'), session, at(29)), isStalled(task('running'), session, at(31)),
            isStalled(task('waiting'), session, at(31))] }"""
    )
    assert stalled == [False, True, False]
    shoot(page, "inbox")
    needs.get_by_role("button", name="Allow").click()
    assert hub.ended(told["task"]) == "succeeded"
    expect(page.get_by_label("Finished since you last looked")).to_contain_text("May I?")
    page.goto(f"{hub.page_url}/#/s/{told['session']}")
    expect(page.locator(".answered.allow")).to_have_count(0)
    page.locator("article.tool summary").click()
    expect(page.locator(".answered.allow")).to_contain_text("Allowed by")


def test_a_tools_time_is_without_the_wait_for_a_person(shared: HubProcess, window: Window) -> None:
    page = window.open(shared)
    found = page.evaluate(
        """async () => {
          const { tookMs } = await import('/page/tool.js');
          const { lasting } = await import('/page/time.js');
          const at = (s) => `2026-01-01T00:00:${String(s).padStart(2, '0')}.000000Z`;
          const waited = { at: at(0), ended: at(40), end: { duration_ms: 40000 },
            asks: [{ answer: 'allow', asked: at(1), at: at(39) }] };
          const back = { at: at(9), ended: at(3), end: {}, asks: [] };
          return [tookMs(waited), tookMs(back), lasting(-5), lasting(-5000)] }"""
    )
    assert found == [2000, 0, "0 ms", "0 ms"]


def test_drafts_survive(own_hub: HubProcess, window: Window) -> None:
    hub = own_hub
    first = hub.ran("One.", [{"say": "One."}])
    second = hub.ran("Two.", [{"say": "Two."}])
    page = window.open(hub, f"/s/{first}")
    field = page.get_by_label("What to do next")
    field.fill("half a thought")
    page.keyboard.press("Escape")
    page.goto(f"{hub.page_url}/#/s/{second}")
    expect(page.locator("h1")).to_contain_text("Two.")
    expect(field).to_have_value("")
    page.goto(f"{hub.page_url}/#/s/{first}")
    expect(field).to_have_value("half a thought")
    page.keyboard.press("n")
    page.get_by_label("Prompt").fill("a new task, half written")
    page.keyboard.press("Escape")
    hub.kill()
    hub.start()
    page.reload()
    expect(page.locator("#line")).to_have_text("live")
    expect(field).to_have_value("half a thought")
    page.keyboard.press("n")
    expect(page.get_by_label("Prompt")).to_have_value("a new task, half written")
    page.keyboard.press("Escape")
    page.get_by_label("What to do next").fill('Sent. <<[{"say":"Three."}]>>')
    page.keyboard.press("Control+Enter")
    expect(page.locator("article.assistant").last).to_contain_text("Three.")
    page.reload()
    expect(field).to_have_value("")  # what was sent is no draft


def test_errors_speak_of_the_page(shared: HubProcess, window: Window) -> None:
    page = window.open(shared)
    texts = page.evaluate(
        """async () => {
          const { problemText, withoutCommands } = await import('/page/hints.js');
          const told = (code, message, hint) => problemText({ code, message, hint });
          return [
            told('session_running', 'task t1 is running', '--queue puts it behind'),
            told('bad_input', 'no folder /x', 'make it, or give another with --cwd'),
            withoutCommands('left: sleep (12); `holdfast cancel t1` ends them') ] }"""
    )
    assert texts == [
        "task t1 is running. It can be sent when the running task is done.",
        "no folder /x",
        "left: sleep (12)",
    ]


def test_healed_findings_stay_over_a_restart_until_dismissed(own_hub: HubProcess, window: Window) -> None:
    hub = own_hub
    session = hub.ran("Keep me.", [{"say": "One."}])
    hub.stop()
    os.remove(os.path.join(hub.home, "sessions", f"{session}.jsonl"))
    hub.start()
    hub.stop()
    hub.start()
    page = window.open(hub)
    banner = page.get_by_label("Repaired at start")
    expect(banner).to_contain_text("1 thing repaired at start")
    banner.get_by_role("button", name="Dismiss").click()
    expect(banner).to_have_count(0)
    page.reload()
    expect(page.locator("h1")).to_have_text("Inbox")
    expect(banner).to_have_count(0)
