"""Deliveries of forges, end to end: signed requests into a hub that runs, and the tasks they come to."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.hub.running_hub import RunningHub, running_in

FIXTURES = Path(__file__).parent.parent / "fixtures" / "forges"
GITHUB = (FIXTURES / "github-issues-assigned.json").read_bytes()
FORGEJO = (FIXTURES / "forgejo-issues-assigned.json").read_bytes()
KEY = "github:dev-bot:acme/rocket:1104"

CONFIG = """
[forges.github]
secret = "s3"
template = "{title} of {repository}"
users.dev-bot = {agent = "demo"}
repositories."acme/rocket" = {cwd = "CWD"}
[forges.forgejo]
secret = "f3"
users.dev-bot = {agent = "demo"}
repositories."acme/rocket" = {cwd = "CWD"}
[forges.tea]
kind = "gitea"
secret = "g3"
users.dev-bot = {agent = "demo"}
repositories."acme/rocket" = {cwd = "CWD"}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with running_in(tmp_path_factory.mktemp("hooks"), CONFIG) as found:
        yield found


def send(hub: RunningHub, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    parts = urlsplit(hub.url)
    line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        line.request("POST", path, body, {"Content-Type": "application/json", **headers})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


def github(hub: RunningHub, body: bytes, delivery: str, secret: str = "s3", event: str = "issues") -> Any:
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={made}",
    }
    return send(hub, "/hooks/github", body, headers)


def forgejo(
    hub: RunningHub,
    body: bytes,
    delivery: str,
    secret: str = "f3",
    name: str = "forgejo",
    event: str = "issues",
) -> Any:
    """As Forgejo sends it: in the words of Gitea and of GitHub too; as Gitea does where that is the name."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    said = {"Event": event, "Event-Type": "issue_assign", "Delivery": delivery, "Signature": made}
    kinds = ("Forgejo", "Gitea", "Gogs") if name == "forgejo" else ("Gitea", "Gogs")
    headers = {f"X-{kind}-{what}": text for kind in kinds for what, text in said.items()}
    headers |= {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={made}",
    }
    return send(hub, f"/hooks/{name}", body, headers)


def numbered(delivery: bytes, number: int, **more: Any) -> bytes:
    told = json.loads(delivery)
    told["issue"].update(number=number, **more)
    return json.dumps(told).encode()


def keys(hub: RunningHub) -> list[str | None]:
    return [s["key"] for s in hub.client().sessions(state="all", empty=True, limit=500)["sessions"]]


def test_an_assignment_is_run_and_its_replay_is_the_same_task(hub: RunningHub) -> None:
    status, told = github(hub, GITHUB, "d-1")
    assert status == 200 and told["ignored"] is None
    (done,) = told["dispatched"]
    assert done["key"] == KEY and not done["replayed"]
    task = hub.terminal.ended(told["task"])
    assert (task["status"], task["prompt"]) == (
        "succeeded",
        "The gauge shows -0 after a restart of acme/rocket",
    )
    for delivery in ("d-1", "d-forged"):
        status, again = github(hub, GITHUB, delivery)
        assert status == 200 and again["task"] == told["task"] and again["dispatched"][0]["replayed"]
    assert keys(hub).count(KEY) == 1
    assert len(hub.client().tasks(session=KEY)) == 1


def test_a_replay_after_the_hub_was_killed_is_still_the_same_task(hub: RunningHub) -> None:
    body = numbered(GITHUB, 1200)
    _, told = github(hub, body, "d-2")
    hub.kill()
    hub.start()
    status, again = github(hub, body, "d-2")
    assert status == 200 and again["task"] == told["task"]
    assert len(hub.client().tasks(session="github:dev-bot:acme/rocket:1200")) == 1


@pytest.mark.parametrize(("send_as", "given"), [(github, GITHUB), (forgejo, FORGEJO)])
def test_an_issue_that_is_taken_away_and_assigned_again_goes_on_in_its_thread(
    hub: RunningHub, send_as: Any, given: bytes
) -> None:
    _, told = send_as(hub, numbered(given, 1300), "d-3")
    hub.terminal.ended(told["task"])
    taken = json.loads(numbered(given, 1300, updated_at="2026-11-02T00:00:00Z", assignees=[]))
    status, away = send_as(hub, json.dumps({**taken, "action": "unassigned"}).encode(), "d-4")
    assert status == 200 and away["task"] is None and "not assigned" in away["ignored"]
    _, again = send_as(hub, numbered(given, 1300, updated_at="2026-11-03T00:00:00Z"), "d-5")
    assert again["task"] != told["task"] and again["session"] == told["session"]
    assert hub.terminal.ended(again["task"])["status"] == "succeeded"


def test_taking_an_issue_away_stops_nothing(hub: RunningHub) -> None:
    _, told = github(hub, numbered(GITHUB, 1350, title='<<[{"tool": "waits", "run": "sleep 600"}]>>'), "d-6")
    hub.terminal.until_event(told["session"], "tool_progress")
    github(hub, numbered(GITHUB, 1350).replace(b'"assigned"', b'"unassigned"'), "d-7")
    _, again = github(hub, numbered(GITHUB, 1350, title="more"), "d-8")
    statuses = {task["id"]: task["status"] for task in hub.client().tasks(session=told["session"])}
    assert statuses == {told["task"]: "running", again["task"]: "queued"}
    hub.client().cancel(again["task"])
    hub.client().cancel(told["task"], now=True)


def test_forgejo(hub: RunningHub) -> None:
    status, told = forgejo(hub, FORGEJO, "f-1")
    assert status == 200 and told["dispatched"][0]["key"] == "forgejo:dev-bot:acme/rocket:31"
    assert hub.terminal.ended(told["task"])["prompt"].startswith(
        "Issue #31 of acme/rocket was assigned to you"
    )


def test_gitea(hub: RunningHub) -> None:
    status, told = forgejo(hub, FORGEJO, "g-1", secret="g3", name="tea")
    assert status == 200 and told["dispatched"][0]["key"] == "tea:dev-bot:acme/rocket:31"
    assert forgejo(hub, FORGEJO, "g-2", secret="f3", name="tea")[0] == 401


def test_a_wrong_signature_is_not_let_in(hub: RunningHub) -> None:
    before = keys(hub)
    body = numbered(GITHUB, 1400)
    weak = hmac.new(b"s3", body, hashlib.sha1).hexdigest()
    strong = hmac.new(b"s3", body, hashlib.sha256).hexdigest()
    names = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "w-4"}
    for answer in (
        github(hub, body, "w-1", secret="guessed"),
        send(hub, "/hooks/github", body, {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "w-2"}),
        forgejo(hub, body, "w-3", secret="s3"),
        send(hub, "/hooks/github", body, {"Authorization": f"Bearer {hub.token}"}),
        send(hub, "/hooks/github", body, {**names, "X-Hub-Signature": f"sha1={weak}"}),
        send(hub, "/hooks/github", body, {**names, "X-Hub-Signature-256": f"sha1={weak}"}),
        send(hub, "/hooks/github", body, {**names, "X-Hub-Signature-256": strong}),
        send(hub, "/hooks/github", body, {**names, "X-Hub-Signature-256": ""}),
        send(hub, "/hooks/forgejo", body, {**names, "X-Forgejo-Signature": f"sha256={strong}"}),
    ):
        assert answer[0] == 401 and answer[1]["code"] == "unauthorized"
    assert keys(hub) == before


def test_what_is_not_for_us_is_ignored_and_says_why(hub: RunningHub) -> None:
    other = json.loads(GITHUB)
    other["repository"]["full_name"] = "acme/unknown"
    before = keys(hub)
    for body, event, why in (
        (json.dumps(other).encode(), "issues", "'acme/unknown' is not configured"),
        ((FIXTURES / "github-ping.json").read_bytes(), "ping", "not about issues"),
        (GITHUB, "issue_comment", "not about issues"),
        (b"{}", "issues", "was '', not assigned"),
        (GITHUB.replace(b'"assigned"', b'"unassigned"'), "issues", "not assigned"),
    ):
        status, told = github(hub, body, f"i-{why}", event=event)
        assert status == 200 and why in told["ignored"] and told["task"] is None
    assert keys(hub) == before


def test_what_cannot_be_read_is_bad_input(hub: RunningHub) -> None:
    for body in (b"", b"no json", b"[]", b"\xff", b'{"action": "assigned"}'):
        status, told = github(hub, body, "b-1")
        assert status == 400 and told["code"] == "bad_input"


def test_a_webhook_that_is_set_to_forms_is_told_what_to_set(hub: RunningHub) -> None:
    body = b"payload=" + quote(GITHUB).encode()
    made = hmac.new(b"s3", body, hashlib.sha256).hexdigest()
    form = {"Content-Type": "application/x-www-form-urlencoded", "X-Hub-Signature-256": f"sha256={made}"}
    names = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "b-2"}
    status, told = send(hub, "/hooks/github", body, {**form, **names})
    assert status == 400 and told["code"] == "bad_input"
    assert told["hint"] == "the webhook's content type must be application/json"


def test_a_delivery_without_its_names_is_none(hub: RunningHub) -> None:
    made = hmac.new(b"s3", GITHUB, hashlib.sha256).hexdigest()
    for names in ({}, {"X-GitHub-Event": "issues"}, {"X-GitHub-Delivery": "b-3"}):
        status, told = send(hub, "/hooks/github", GITHUB, {"X-Hub-Signature-256": f"sha256={made}", **names})
        assert status == 400 and told["code"] == "bad_input" and "x-github-" in told["detail"]


def test_a_forge_that_is_not_configured_is_not_found(hub: RunningHub) -> None:
    assert send(hub, "/hooks/gitea", GITHUB, {})[0] == 404
    assert send(hub, "/hooks/..%2fgithub", GITHUB, {})[0] == 404


@pytest.mark.parametrize("size", [5_000_000, 5 * 1024 * 1024, 20_000_000])
def test_a_large_body_is_not_read(hub: RunningHub, size: int) -> None:
    body = numbered(GITHUB, 1500, body="x" * size)
    status, told = github(hub, body, "l-1")
    assert status == 413 and told["code"] == "too_large"


def test_a_long_issue_is_taken(hub: RunningHub) -> None:
    status, told = forgejo(hub, numbered(FORGEJO, 40, body="x" * 1_500_000), "f-2")
    assert status == 200 and told["task"]
