"""What a start repaired, and what it could not, over HTTP: kept until a person dismisses it."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import msgspec
from litestar import get, post
from litestar.params import FromPath

from holdfast import durable_io, errors, timestamps
from holdfast.hub.api.responses import By, TheHub, fails
from holdfast.recovery.findings import Done, Report, Unhealed

MOST = 50  # reports, the latest first
PREFIX, SUFFIX = "heal-", ".json"
DISMISSED = ".dismissed"  # the name of a report with this: who dismissed it


class HealedReport(msgspec.Struct, frozen=True):
    """What one start repaired, and what it could not."""

    name: str
    at: str
    done: list[Done]
    problems: list[str]
    unhealed: list[Unhealed]


class HealedReports(msgspec.Struct, frozen=True):
    """The reports that nobody has dismissed, the latest first."""

    reports: list[HealedReport]


@get(
    "/api/healed",
    operation_id="listHealed",
    summary="What was repaired at starts, and what could not be, until it is dismissed",
    responses=fails(),
)
async def list_healed(hub: TheHub) -> HealedReports:
    """Read from the home's reports, so that a restart does not hide them."""
    return HealedReports(await asyncio.to_thread(open_reports, hub.home.reports))


@post(
    "/api/healed/{name:str}/dismiss",
    operation_id="dismissHealed",
    summary="Dismiss a report for everybody; the file stays",
    status_code=200,
    responses=fails(404),
)
async def dismiss_healed(hub: TheHub, by: By, name: FromPath[str]) -> HealedReports:
    """The reports that are left."""
    if name not in await asyncio.to_thread(_names, hub.home.reports):
        raise errors.NotFound(f"there is no report {name!r}")
    await asyncio.to_thread(dismiss, hub.home.reports, name, by)
    return HealedReports(await asyncio.to_thread(open_reports, hub.home.reports))


def open_reports(folder: str) -> list[HealedReport]:
    """The latest reports in a folder that nobody has dismissed."""
    names = _names(folder)
    wanted = [name for name in names if name.endswith(SUFFIX) and name + DISMISSED not in names]
    return [_read(folder, name) for name in sorted(wanted, reverse=True)[:MOST]]


def dismiss(folder: str, name: str, by: str) -> None:
    """Remember that somebody has seen a report."""
    with suppress(FileExistsError):  # somebody else was quicker
        durable_io.create(os.path.join(folder, name + DISMISSED), [f"{timestamps.now()} {by}\n".encode()])


def _names(folder: str) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if name.startswith(PREFIX)}
    except FileNotFoundError:
        return set()


def _read(folder: str, name: str) -> HealedReport:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            report = msgspec.json.decode(file.read(), type=Report)
    except (OSError, msgspec.DecodeError) as problem:
        return HealedReport(name, "", [], [f"the report {path} cannot be read: {problem}"], [])
    return HealedReport(name, report.at, report.done, report.problems, report.unhealed)


ROUTES = [list_healed, dismiss_healed]
