"""The doctor over HTTP: findings and a plan, and doing what a plan says."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from litestar import get, post
from litestar.params import FromQuery, JSONBody
from litestar.response.base import ASGIResponse

from holdfast import errors
from holdfast.hub import command
from holdfast.hub.answers import fails, json, told
from holdfast.hub.given import TheHub
from holdfast.recover import heal

Target = Literal["self", "hapi", "hermes"]
OF_THE_FILE = ("database_damaged", "database_empty", "database_missing")  # what only a new database mends


class Found(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    id: str
    code: str
    subject: str
    text: str
    safe: bool
    action: str | None
    evidence: dict[str, Any]


class Diagnosis(msgspec.Struct, frozen=True):
    """What was seen, what would be done about it, and the name of the state that was seen."""

    target: str
    findings: list[Found]
    plan: list[Any]
    fingerprint: str


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan that is meant."""

    fingerprint: str
    target: Target = "self"
    path: str | None = None


class Receipt(msgspec.Struct, frozen=True):
    """What was done; more fields tell how it can be undone."""

    target: str
    fingerprint: str
    problems: list[str]


@get(
    "/api/doctor",
    operation_id="diagnose",
    summary="What is wrong with our home or another tool's, and what would mend it",
    responses={**told(200, Diagnosis), **fails(404, 409)},
)
async def diagnose(
    hub: TheHub, target: FromQuery[Target] = "self", path: FromQuery[str | None] = None
) -> ASGIResponse:
    """Looks at everything, content included; changes nothing."""
    return json(await command.run(hub, *_words(target, path)))


@post(
    "/api/doctor/apply",
    operation_id="applyPlan",
    summary="Do what a plan says, if the state is still the one it was made from",
    status_code=200,
    responses={**told(200, Receipt), **fails(404, 409, 413)},
)
async def apply_plan(hub: TheHub, data: JSONBody[Plan]) -> ASGIResponse:
    """The receipt; `plan_changed` where it was made from another state."""
    if not data.fingerprint.isalnum():
        raise errors.BadInput(f"{data.fingerprint!r} is no fingerprint of a plan")
    words = _words(data.target, data.path)
    if data.target != "self":
        return json(await command.run(hub, *words, "--apply", data.fingerprint))
    found = await command.run(hub, *words)
    if found["fingerprint"] != data.fingerprint:
        raise errors.PlanChanged(f"the plan {data.fingerprint} was made from another state of this home")
    if any(finding["code"] in OF_THE_FILE for finding in found["findings"]):
        raise errors.Refused(
            "the database itself is damaged, and this hub has it open",
            hint="end the hub; `holdfast up` mends it when it starts",
        )
    report = await heal.heal(hub.context.store, hub.home, hub.location, deep=True)  # type: ignore[arg-type]
    done = msgspec.to_builtins(report.done)
    return json(
        {"target": "self", "fingerprint": data.fingerprint, "done": done, "problems": report.problems}
    )


def _words(target: Target, path: str | None) -> list[str]:
    if target == "self":
        if path is not None:
            raise errors.BadInput("the doctor of our own home takes no path")
        return ["doctor", target]
    if path is None or not command.is_path(path):
        raise errors.BadInput(f"say where the {target} install is: path, absolute")
    return ["doctor", target, path]


ROUTES = [diagnose, apply_plan]
