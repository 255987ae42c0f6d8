"""The doctor over HTTP: findings and a plan, and doing what a plan says."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
from litestar import get, post
from litestar.params import FromQuery, JSONBody
from litestar.response.base import ASGIResponse

from holdfast import errors
from holdfast.doctor import operation, own_home
from holdfast.doctor.plan import DoctorFinding
from holdfast.hub import subcommand
from holdfast.hub.api.responses import TheHub, fails, json, told

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


class Planned(msgspec.Struct, frozen=True):
    """What is done about a finding."""

    finding: str
    action: str


class Diagnosis(msgspec.Struct, frozen=True):
    """What was seen, what would be done about it, and the name of the state that was seen."""

    target: str
    path: str
    findings: list[Found]
    plan: list[Planned]
    fingerprint: str


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan that is meant."""

    fingerprint: str
    target: Target = "self"
    path: str | None = None


class Receipt(msgspec.Struct, frozen=True):
    """What was done, and how it can be undone."""

    target: str
    path: str
    receipt: str
    at: str
    fingerprint: str
    done: list[Planned]
    kept: list[str]
    touched: list[str]
    problems: list[str]
    undo: str | None
    sealed: str | None


class Undone(Receipt, frozen=True):
    """The receipt of what is as it was again."""

    undone: bool


class Undo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operation that is meant."""

    receipt: str


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
    return json(await subcommand.run(hub, *_words(target, path)))


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
        return json(await subcommand.run(hub, *words, "--apply", data.fingerprint))
    found = await subcommand.run(hub, *words)
    if found["fingerprint"] != data.fingerprint:
        raise errors.PlanChanged(f"the plan {data.fingerprint} was made from another state of this home")
    if any(finding["code"] in OF_THE_FILE for finding in found["findings"]):
        raise errors.Refused(
            "the database itself is damaged, and this hub has it open",
            hint="end the hub; `holdfast up` mends it when it starts",
        )
    plan = own_home.HomePlan(data.fingerprint, msgspec.convert(found["findings"], list[DoctorFinding]))
    receipt = await own_home.apply_in_hub(hub.context.store, hub.home, hub.location, plan)  # type: ignore[arg-type]
    return json(receipt.as_json())


@post(
    "/api/doctor/undo",
    operation_id="undoPlan",
    summary="Give back every file as it was before a plan was applied, if none has changed since",
    status_code=200,
    responses={**told(200, Undone), **fails(404, 409, 413)},
)
async def undo_plan(hub: TheHub, data: JSONBody[Undo]) -> ASGIResponse:
    """The receipt of it; of our own home only where no hub runs, by the command that the refusal names."""
    receipt = await asyncio.to_thread(operation.load_receipt, hub.home, data.receipt)
    if receipt.target == own_home.TARGET:
        raise errors.Refused(
            "this hub uses the files that would be given back",
            hint=f"end the hub, then: holdfast doctor --undo {receipt.id}",
        )
    return json(await subcommand.run(hub, "doctor", "--undo", receipt.id))


def _words(target: Target, path: str | None) -> list[str]:
    if target == "self":
        if path is not None:
            raise errors.BadInput("the doctor of our own home takes no path")
        return ["doctor", target]
    if path is None or not subcommand.is_path(path):
        raise errors.BadInput(f"say where the {target} install is: path, absolute")
    return ["doctor", target, path]


ROUTES = [diagnose, apply_plan, undo_plan]
