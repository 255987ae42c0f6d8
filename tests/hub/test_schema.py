"""The OpenAPI document: complete, true, and nothing that fits it makes the hub fail."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.specs.openapi import checks

from holdfast.home import Home
from holdfast.hub import app
from holdfast.hub.api.responses import STATUS, ProblemDetails
from holdfast.hub.imports import ImportService
from holdfast.hub.state import HubState
from holdfast.store.location import Location
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, running_in
from tests.hub.test_sessions import begin, done, ended

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "4"))
ENDLESS = ("/api/stream", "/api/sessions/{session}/stream")
KINDS = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def _document() -> Any:
    hub = HubState(Home("/nowhere"), Location("sqlite", "/nowhere/state.db"), {}, "nobody")
    return json.loads(json.dumps(app.bare(hub, ImportService(hub)).openapi_schema.to_schema()))


DOCUMENT = _document()
OPERATIONS = {
    operation.label: operation
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    if isinstance(found, Ok)
    for operation in [found.ok()]
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for all operations, with something in it."""
    with running_in(tmp_path_factory.mktemp("schema")) as found:
        done(found, key="k")
        yield found


@pytest.mark.parametrize("kind", KINDS, ids=[kind.value for kind in KINDS])
@pytest.mark.parametrize("label", OPERATIONS)
def test_whatever_is_asked_the_answer_fits_the_document(
    label: str, kind: GenerationMode, shared: RunningHub
) -> None:
    """What fits the document, and what does not on purpose."""

    there = {"session": done(shared)} if "{" in label else {}
    there |= {"task": get(shared, "/api/tasks?limit=1")["tasks"][0]["id"]}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=OPERATIONS[label].as_strategy(generation_mode=kind), is_there=st.booleans())
    def ask(case: Any, is_there: bool) -> None:
        if is_there:
            case.path_parameters = {name: there.get(name, old) for name, old in case.path_parameters.items()}
        check(shared, case)

    try:
        ask()
    except Unsatisfiable:  # nothing that it takes can be wrong
        assert kind is GenerationMode.NEGATIVE


def check(hub: RunningHub, case: Any) -> int:
    """Ask, and compare the answer with the document; its status."""
    sent = case.as_transport_kwargs(base_url=hub.url, headers={"Authorization": f"Bearer {hub.token}"})
    with requests.request(**sent, stream=True, timeout=60) as answer:
        if case.path in ENDLESS and answer.status_code == 200:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert next(answer.iter_lines()) == b": hello"
        else:
            case.validate_response(Response.from_requests(answer, verify=True), checks=CHECKS)
        return answer.status_code


def test_what_is_done_is_told_as_the_document_says(shared: RunningHub) -> None:
    """Each operation as it is meant to be used, in an order in which each can be done."""
    cwd = shared.terminal.cwd
    asking = begin(shared, {"tool": "touches", "run": "true", "ask": True}, permissions="ask")
    hanging = begin(shared, {"hang": True})
    session = done(shared)
    of, events = {"session": session}, f"/api/sessions/{asking['session']}/events"
    shared.terminal.until(lambda: any(e["kind"] == "permission" for e in get(shared, events)["events"]))
    plan = {"fingerprint": get(shared, "/api/doctor")["fingerprint"]}
    told: list[tuple[str, dict[str, str], Any, int]] = [
        ("POST /api/tasks/{task}/permission", {"task": asking["task"]}, {"answer": "deny"}, 200),
        ("POST /api/tasks/{task}/cancel", {"task": hanging["task"]}, {"now": True}, 200),
        ("GET /api/tasks/{task}", {"task": hanging["task"]}, None, 200),
        ("GET /api/tasks", {}, None, 200),
        ("POST /api/dispatch", {}, {"prompt": "x", "agent": "demo", "cwd": cwd, "key": "a/b"}, 201),
        ("POST /api/dispatch", {}, {"prompt": "x", "agent": "nobody", "cwd": cwd}, 404),
        ("GET /api/sessions", {}, None, 200),
        ("GET /api/sessions/{session}", of, None, 200),
        ("GET /api/sessions/{session}/events", of, None, 200),
        ("GET /api/sessions/{session}/stream", of, None, 200),
        ("GET /api/sessions/{session}/verdict", of, None, 200),
        ("PATCH /api/sessions/{session}", of, {"version": 1, "metadata": {"a": [None]}, "title": "t"}, 200),
        ("PATCH /api/sessions/{session}", of, {"version": 1, "metadata": {"a": 1}}, 409),
        ("POST /api/sessions/{session}/resume", of, {"prompt": "x"}, 201),
        ("POST /api/sessions/{session}/resume", {"session": hanging["session"]}, {"prompt": "x"}, 409),
        ("POST /api/sessions/{session}/trust", {"session": hanging["session"]}, {"reason": "seen"}, 200),
        ("GET /api/sessions/{session}/tokens", of, None, 200),
        ("POST /api/sessions/{session}/tokens", of, {"native_id": "by-hand"}, 200),
        ("POST /api/sessions/{session}/tokens/revoke", of, {"reason": "r"}, 200),
        ("POST /api/sessions/{session}/tokens/reinstate", of, {}, 200),
        ("POST /api/redispatch", {}, {}, 200),
        ("POST /api/sessions/{session}/archive", of, {"reason": "r"}, 200),
        ("POST /api/sessions/{session}/unarchive", of, None, 200),
        ("DELETE /api/sessions/{session}", of, None, 200),
        ("POST /api/sessions/{session}/restore", of, None, 200),
        ("POST /api/adopt", {}, {"agent": "demo"}, 202),
        ("GET /api/adopt", {}, None, 200),
        ("GET /api/overview", {}, None, 200),
        ("GET /api/doctor", {}, None, 200),
        ("POST /api/doctor/apply", {}, plan, 200),
        ("POST /api/doctor/apply", {}, {"fingerprint": "0" * 16}, 409),
    ]
    for label, path, body, status in told:
        if label.startswith("POST") and label.endswith(("/tokens", "/archive")):  # what was queued has ended
            shared.terminal.until(lambda: not get(shared, "/api/tasks?status=queued")["tasks"])
            shared.terminal.until(lambda: not get(shared, "/api/tasks?status=running")["tasks"])
        if label == "POST /api/sessions/{session}/trust":
            ended(shared, hanging["task"])
        if label == "GET /api/doctor":
            shared.terminal.until(lambda: get(shared, "/api/doctor")["findings"] == [])
        made = OPERATIONS[label].Case(
            path_parameters=path,
            **({} if body is None else {"body": body, "media_type": "application/json"}),
        )
        assert check(shared, made) == status, (label, body)


def test_the_document_is_served_as_it_is(shared: RunningHub) -> None:
    assert get(shared, "/schema") == get(shared, "/schema/openapi.json") == DOCUMENT


def test_every_operation_is_told_with_all_that_it_may_answer() -> None:
    told = {
        (method, path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    served = {
        (method.lower(), path.replace(":str", ""))
        for handler in app.ROUTES
        if handler.include_in_schema is not False
        for method in handler.http_methods
        for path in handler.paths
    }
    assert set(told) == served
    for (method, path), operation in told.items():
        assert operation["operationId"] and operation["summary"], path
        answers = operation["responses"]
        assert {"400", "401", "403", "500", "503"} <= set(answers), (method, path)
        for status, answer in answers.items():
            assert answer["content"], (method, path, status)
            if int(status) >= 400:
                (kind,) = answer["content"]
                assert kind == "application/problem+json", (method, path, status)


def test_every_error_is_told_with_its_code() -> None:
    assert set(DOCUMENT["components"]["schemas"]["ProblemDetails"]["properties"]["code"]["enum"]) == set(
        STATUS
    )
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    told = set(re.findall(r"`(\w+)`", answer["description"]))
                    assert told == {code for code, found in STATUS.items() if found == int(status)}, path
    with open(os.path.join(os.path.dirname(__file__), "../../docs/http.md")) as file:
        told = set(re.findall(r"`([a-z_]+)`", file.read().partition("## Errors")[2].partition("## ")[0]))
    facts = set(ProblemDetails.__struct_fields__)
    assert told - facts <= set(STATUS)


def test_every_field_has_a_type_and_no_example_is_made_up() -> None:
    for name, shape in DOCUMENT["components"]["schemas"].items():
        assert "example" not in shape and "examples" not in shape, name
        for field, what in shape.get("properties", {}).items():
            typed = {"type", "$ref", "oneOf", "anyOf", "enum", "const", "allOf"} & set(what)
            assert typed or field in ("input", "evidence"), (name, field, what)
