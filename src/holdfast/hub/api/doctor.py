"""The doctor over HTTP: findings and a plan, applying the plan, and undoing it."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from litestar import get, post
from litestar.params import FromQuery, JSONBody
from litestar.response.base import ASGIResponse

from holdfast import errors
from holdfast.doctor import operation, own_home
from holdfast.doctor.plan import DiagnosisReport
from holdfast.doctor.receipts import ReceiptReport, UndoneReceipt
from holdfast.hub import subcommand
from holdfast.hub.api.responses import TheHub, fails, json, told

Target = Literal["self", "hapi", "hermes"]
# Only a new database repairs these.
DATABASE_CODES = ("database_damaged", "database_empty", "database_missing")


class ApplyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The plan to apply."""

    fingerprint: str
    target: Target = "self"
    path: str | None = None


class UndoRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The repair to undo."""

    receipt: str


@get(
    "/api/doctor",
    operation_id="diagnose",
    summary="What is wrong with this home or another tool's, and the plan to repair it",
    responses={**told(200, DiagnosisReport), **fails(404, 409)},
)
async def diagnose(
    hub: TheHub, target: FromQuery[Target] = "self", path: FromQuery[str | None] = None
) -> ASGIResponse:
    """Checks everything, content included; changes nothing."""
    return json(await subcommand.run(hub, *_arguments(target, path)))


@post(
    "/api/doctor/apply",
    operation_id="applyPlan",
    summary="Apply a plan, if the state is still the one that it was made from",
    status_code=200,
    responses={**told(200, ReceiptReport), **fails(404, 409, 413)},
)
async def apply_plan(hub: TheHub, data: JSONBody[ApplyRequest]) -> ASGIResponse:
    """The receipt; `plan_changed` if the plan was made from another state."""
    if not data.fingerprint.isalnum():
        raise errors.BadInput(f"{data.fingerprint!r} is not the fingerprint of a plan")
    words = _arguments(data.target, data.path)
    if data.target != "self":
        return json(await subcommand.run(hub, *words, "--apply", data.fingerprint))
    report = msgspec.convert(await subcommand.run(hub, *words), DiagnosisReport)
    if report.fingerprint != data.fingerprint:
        raise errors.PlanChanged(f"the plan {data.fingerprint} was made from another state of this home")
    if any(finding.code in DATABASE_CODES for finding in report.findings):
        raise errors.Refused(
            "the database itself is damaged, and this hub has it open",
            hint="stop the hub; `holdfast up` repairs it on start",
        )
    plan = own_home.HomePlan(data.fingerprint, report.findings)
    receipt = await own_home.apply_in_hub(hub.context.store, hub.home, hub.location, plan)
    return json(receipt.report())


@post(
    "/api/doctor/undo",
    operation_id="undoPlan",
    summary="Restore every file that a plan changed, if none changed since",
    status_code=200,
    responses={**told(200, UndoneReceipt), **fails(404, 409, 413)},
)
async def undo_plan(hub: TheHub, data: JSONBody[UndoRequest]) -> ASGIResponse:
    """The receipt. Our own home is refused while this hub runs; the error names the command to use."""
    receipt = await asyncio.to_thread(operation.load_receipt, hub.home, data.receipt)
    if receipt.target == own_home.TARGET:
        raise errors.Refused(
            "this hub uses the files that an undo would restore",
            hint=f"stop the hub, then: holdfast doctor --undo {receipt.id}",
        )
    return json(await subcommand.run(hub, "doctor", "--undo", receipt.id))


def _arguments(target: Target, path: str | None) -> list[str]:
    if target == "self":
        if path is not None:
            raise errors.BadInput("target self takes no path")
        return ["doctor", target]
    if path is None or not subcommand.is_path(path):
        raise errors.BadInput(f"path must be the absolute path of the {target} install")
    return ["doctor", target, path]


ROUTES = [diagnose, apply_plan, undo_plan]
