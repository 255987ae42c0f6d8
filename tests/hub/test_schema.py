"""The OpenAPI document: complete, true, and nothing that fits it makes the hub fail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from holdfast.home import Home
from holdfast.hub import app
from holdfast.hub.adopting import Adopting
from holdfast.hub.hub import Hub
from holdfast.store.location import Location
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, running
from tests.hub.test_sessions import done

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "4"))
ENDLESS = ("/api/stream", "/api/sessions/{session}/stream")
DEAR = ("/api/doctor", "/api/doctor/apply", "/api/agents")  # start programs; have tests of their own

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def _document() -> Any:
    hub = Hub(Home("/nowhere"), Location("sqlite", "/nowhere/state.db"), {}, "nobody")
    return json.loads(json.dumps(app.bare(hub, Adopting(hub)).openapi_schema.to_schema()))


DOCUMENT = _document()
OPERATIONS = {
    operation.label: operation
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    if isinstance(found, Ok) and (operation := found.ok()).path not in (*ENDLESS, *DEAR)
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for all operations, with something in it."""
    place = tmp_path_factory.mktemp("schema")
    home = Home(str(place / "home"))
    home.make()
    with running(home, str(place / "work")) as found:
        done(found, key="k")
        yield found


@pytest.mark.parametrize("label", OPERATIONS)
def test_what_fits_the_document_gets_an_answer_that_does(label: str, shared: RunningHub) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=shared.url, headers={"Authorization": f"Bearer {shared.token}"})
        case.validate_response(answer, checks=CHECKS)

    ask()


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


def test_every_field_has_a_type_and_no_example_is_made_up() -> None:
    for name, shape in DOCUMENT["components"]["schemas"].items():
        assert "example" not in shape and "examples" not in shape, name
        for field, what in shape.get("properties", {}).items():
            typed = {"type", "$ref", "oneOf", "anyOf", "enum", "const", "allOf"} & set(what)
            assert typed or field in ("input", "evidence"), (name, field, what)
