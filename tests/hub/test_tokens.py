"""Tokens over HTTP: what a person records, revokes and reinstates, by API, client and command."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.client.client import HubClient
from tests.hub.asking import ask, get
from tests.hub.running_hub import RunningHub
from tests.hub.test_sessions import done, refused


def statuses(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(token["native_id"], token["status"]) for token in found["tokens"]]


def test_a_lineage_is_listed_and_changed(any_hub: RunningHub) -> None:
    hub = any_hub
    session = done(hub, key="k")
    where = "/api/sessions/k/tokens"
    before = get(hub, where)
    own = before["current"]
    assert before["session"] == session and statuses(before) == [(own, "current")]
    recorded = ask(
        hub, "POST", where, {"native_id": "by-hand", "protocol": "acp"}, **{"X-Holdfast-By": "ann"}
    )
    assert recorded.status == 200 and statuses(recorded.json) == [(own, "superseded"), ("by-hand", "current")]
    revoked = ask(hub, "POST", f"{where}/revoke", {"reason": "wrong one"}, **{"X-Holdfast-By": "ann"}).json
    assert revoked["current"] is None and statuses(revoked)[-1] == ("by-hand", "revoked")
    assert get(hub, "/api/sessions/k/verdict")["reasons"][0]["code"] == "token_revoked"
    back = ask(hub, "POST", f"{where}/reinstate", {}).json
    assert back["current"] == "by-hand"
    assert get(hub, "/api/sessions/k")["tokens"] == back["tokens"] == get(hub, where)["tokens"]
    events = get(hub, "/api/sessions/k/events")["events"]
    changes = [event["body"] for event in events if event["kind"] == "token"]
    assert [(body["op"], body.get("by")) for body in changes[1:3]] == [("seen", "ann"), ("revoke", "ann")]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("", {}, 400, "bad_input"),
        ("", {"native_id": ""}, 400, "bad_input"),
        ("", {"native_id": "x", "protocol": "telepathy"}, 400, "bad_input"),
        ("", {"native_id": "x", "more": 1}, 400, "bad_input"),
        ("/revoke", {}, 400, "bad_input"),
        ("/revoke", {"reason": ""}, 400, "bad_input"),
        ("/revoke", {"reason": "r", "native_id": "nobody"}, 404, "not_found"),
        ("/reinstate", {"native_id": "nobody"}, 404, "not_found"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    hub: RunningHub, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    session = done(hub)
    before = get(hub, f"/api/sessions/{session}/events")
    refused(ask(hub, "POST", f"/api/sessions/{session}/tokens{path}", body), status, code)
    assert get(hub, f"/api/sessions/{session}/events") == before


def test_the_client_and_the_command_hand_over_to_the_hub(hub: RunningHub) -> None:
    session = done(hub, key="k")
    client = HubClient.of(hub.terminal.home, by="bob")
    assert client is not None
    own = client.tokens("k")["current"]
    assert client.record_token("k", "other-1")["current"] == "other-1"
    assert client.revoke_token("k", "no good")["current"] is None
    assert client.reinstate_token("k")["current"] == "other-1"
    told = hub.terminal.asked("token", "k", "record", own)
    assert told["current"] == own and told == get(hub, f"/api/sessions/{session}/tokens")
    assert hub.terminal.asked("token", "k") == told
