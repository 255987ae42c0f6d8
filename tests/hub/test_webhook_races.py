"""Deliveries of forges that come at the same moment: one task, on each kind of store."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from tests.hub.asking import get
from tests.hub.running_hub import RunningHub
from tests.hub.test_webhooks import CONFIG, FORGEJO, GITHUB, forgejo, github, numbered

AT_ONCE = 12
WHERE = "/api/sessions?state=all&empty=true&limit=500"


def configured(hub: RunningHub, more: str = "") -> None:
    """The config is read with every delivery."""
    hub.terminal.config(CONFIG.replace("CWD", hub.terminal.cwd) + more)


def at_once(send: Callable[[int], tuple[int, Any]]) -> list[Any]:
    """What is answered to deliveries that wait for each other before they are sent."""
    together = Barrier(AT_ONCE)

    def one(number: int) -> Any:
        together.wait(60)
        status, told = send(number)
        assert status == 200, told
        return told

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def only_task(hub: RunningHub, answers: list[Any]) -> dict[str, Any]:
    """The one task that all answers name, and that is all there is."""
    (task,) = {told["task"] for told in answers}
    assert [one["id"] for one in get(hub, "/api/tasks")["tasks"]] == [task]
    assert len(get(hub, WHERE)["sessions"]) == 1
    assert sum(not told["dispatched"][0]["replayed"] for told in answers) >= 1
    return hub.terminal.ended(task)


def test_a_body_that_is_replayed_under_new_ids_is_one_task(any_hub: RunningHub) -> None:
    configured(any_hub)
    answers = at_once(lambda number: github(any_hub, GITHUB, f"forged-{number}"))
    assert only_task(any_hub, answers)["status"] == "succeeded"
    assert github(any_hub, GITHUB, "later")[1]["task"] == answers[0]["task"]
    any_hub.kill()
    any_hub.start()
    for delivery in ("forged-3", "after the restart"):
        again = github(any_hub, GITHUB, delivery)[1]
        assert again["task"] == answers[0]["task"] and again["dispatched"][0]["replayed"]
    assert len(get(any_hub, "/api/tasks")["tasks"]) == 1


def test_one_event_that_is_sent_to_several_webhooks_is_one_task(any_hub: RunningHub) -> None:
    """GitHub gives them one id; the bodies differ, as by what an organisation's says of it."""
    configured(any_hub)

    def to_webhook(number: int) -> Any:
        body = json.dumps({**json.loads(GITHUB), "organization": {"id": number}}).encode()
        return github(any_hub, body, "d-1")

    only_task(any_hub, at_once(to_webhook))


def test_each_of_several_users_gets_an_issue_once(any_hub: RunningHub) -> None:
    configured(any_hub, '[forges.forgejo.users.rev-bot]\nagent = "demo"\n')
    both = json.loads(FORGEJO)
    both["issue"]["assignees"].append({"login": "rev-bot"})
    body = json.dumps(both).encode()
    at_once(lambda number: forgejo(any_hub, body, f"f-{number}"))
    keys = sorted(one["key"] for one in get(any_hub, WHERE)["sessions"])
    assert keys == ["forgejo:dev-bot:acme/rocket:31", "forgejo:rev-bot:acme/rocket:31"]
    assert len(get(any_hub, "/api/tasks")["tasks"]) == 2


def test_many_assignments_of_one_issue_wait_for_each_other_in_its_thread(any_hub: RunningHub) -> None:
    configured(any_hub)
    answers = at_once(lambda number: github(any_hub, numbered(GITHUB, 7, id=number), f"d-{number}"))
    tasks = get(any_hub, "/api/tasks")["tasks"]
    assert {told["task"] for told in answers} == {task["id"] for task in tasks}
    assert len(tasks) == AT_ONCE and len({task["session"] for task in tasks}) == 1


def test_a_worktree_is_made_once_and_is_there_before_the_task(any_hub: RunningHub) -> None:
    git = ("git", "-C", any_hub.terminal.cwd, "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *words], check=True)
    configured(any_hub)
    with open(any_hub.terminal.home.config) as file:
        text = file.read().replace('{agent = "demo"}', '{agent = "demo", worktree = true}')
    any_hub.terminal.config(text)
    task = only_task(any_hub, at_once(lambda number: github(any_hub, GITHUB, f"d-{number}")))
    session = get(any_hub, f"/api/sessions/{task['session']}")["session"]
    first = get(any_hub, f"/api/sessions/{session['id']}/events")["events"][0]
    assert first["body"]["worktree"] == session["worktree"]
    assert os.listdir(any_hub.terminal.home.worktrees) == [os.path.basename(session["worktree"]["path"])]
