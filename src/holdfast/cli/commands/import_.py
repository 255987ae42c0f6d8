"""`holdfast import`: import sessions that agents had without Holdfast."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast import durable_io, errors
from holdfast.cli import common, native_args, output, process_pool
from holdfast.cli.output import ProgressBar
from holdfast.home import Home
from holdfast.runner.context import Context
from holdfast.runner.service import opened
from holdfast.transcripts.importer import ImportOutcome, TranscriptImport, import_sessions
from holdfast.transcripts.reader import SessionRef, TranscriptReader

Json = dict[str, Any]

MAX_WORKERS = 4  # processes, at the most
AT_ONCE = 4  # sessions that go to the store together
WORTH = 4  # transcripts for which one more is started


def parser(name: str) -> argparse.ArgumentParser:
    """Which sessions of which agent."""
    parser = common.parser(name, "Import an agent's existing sessions; none is imported twice.")
    native_args.add_arguments(parser, many=True)
    parser.add_argument("--cwd", metavar="DIR", help="only sessions of this folder")
    return parser


def run(options: argparse.Namespace) -> int:
    """Import them; one that cannot be read does not stop the rest."""
    if options.agent == "hapi":
        adopted, failed = asyncio.run(_hapi(options))
    else:
        reader, root = native_args.reader_for(options)
        adopted, failed = _import(options, _places(options, reader, root))
    new = [a for a in adopted if a["new"]]
    events = sum(a["events"] for a in adopted)
    if options.json:
        output.json_line({"adopted": adopted, "failed": failed})
    else:
        here = len(adopted) - len(new)
        sessions, records = output.counted(len(new), "session"), output.counted(events, "event")
        output.text(f"{sessions} imported, {here} already here, {records} added")
    for problem in failed:
        output.note(f"holdfast: {problem['path']}: {problem['message']}")
    return 1 if failed else 0


def _places(options: argparse.Namespace, reader: TranscriptReader, root: str) -> list[SessionRef]:
    if options.names:
        return [place for name in options.names for place in _named(reader, root, name)]
    cwd = os.path.realpath(options.cwd) if options.cwd else None
    return sorted(reader.sessions(root, cwd), key=lambda place: place.updated_at or "")


def _named(reader: TranscriptReader, root: str, name: str) -> list[SessionRef]:
    """The one session with that name; all sessions of an install."""
    if os.path.isdir(name):
        return reader.find(root, name) or [native_args.find_one(reader, root, name)]
    return [native_args.find_one(reader, root, name)]


async def _hapi(options: argparse.Namespace) -> tuple[list[Json], list[Json]]:
    """All sessions of hapi installs, each as one of the agent that it was held with."""
    from holdfast.peers.hapi.database import database_path
    from holdfast.peers.hapi.importer import import_install

    home, location = common.home_and_location(options)
    adopted: list[Json] = []
    failed: list[Json] = []
    with _import_lock(home):
        async with opened(home, location, os.environ) as context:

            def protocol(agent: str) -> str | None:
                known = {found.name: found for found in context.registry.agents}
                return known[agent].protocols[0] if agent in known else None

            def is_native_id(agent: str, native_id: str) -> bool:
                known = {found.name: found for found in context.registry.agents}
                return agent not in known or known[agent].is_native_id(native_id)

            for name in options.names or [options.store_path or os.environ.get("HAPI_HOME", "~/.hapi")]:
                path = database_path(name)
                bar = ProgressBar("importing", 0)
                async for session, result in import_install(
                    context.store,
                    path,
                    host=context.node.id,
                    protocol=protocol,
                    is_native_id=is_native_id,
                ):
                    bar.at(0, session)
                    if isinstance(result, TranscriptImport):
                        adopted.append({"native_id": session, **result._asdict()})
                    else:
                        failed.append({"native_id": session, "path": path, "message": str(result)})
                bar.end()
    return adopted, failed


def _import(options: argparse.Namespace, places: list[SessionRef]) -> tuple[list[Json], list[Json]]:
    home, location = common.home_and_location(options)
    bar = ProgressBar("importing", len(places))
    bar.at(0)
    done: dict[int, list[Json]] = {}
    jobs = _jobs(places)

    def on_result(job: int, result: list[Json]) -> None:
        done[job] = result
        bar.at(sum(map(len, done.values())), jobs[job][-1].native_id)

    async def adopt(numbers: Iterable[int], on_result: process_pool.OnResult) -> None:
        reader, _ = native_args.reader_for(options)
        async with opened(home, location, os.environ) as context:
            for job in numbers:
                on_result(job, await _adopt(context, reader, jobs[job]))

    def work(numbers: Iterable[int], on_result: process_pool.OnResult) -> None:
        asyncio.run(adopt(numbers, on_result))

    with _import_lock(home):
        process_pool.run_jobs(_worker_count(places), len(jobs), work, on_result)
    bar.end()
    results = [one for job in sorted(done) for one in done[job]]
    return [one for one in results if "message" not in one], [one for one in results if "message" in one]


def _jobs(places: list[SessionRef]) -> list[list[SessionRef]]:
    """Some sessions each, and those of one id together: one must find what the other made."""
    of_id: dict[str, list[SessionRef]] = {}
    for place in places:
        of_id.setdefault(place.native_id, []).append(place)
    jobs: list[list[SessionRef]] = []
    for same in of_id.values():
        if not jobs or len(jobs[-1]) >= AT_ONCE:
            jobs.append([])
        jobs[-1] += same
    return jobs


def _worker_count(places: list[SessionRef]) -> int:
    """How many processes are worth their start; a database of many sessions is copied for each of them."""
    # Two for each core: one that waits for the disk, or for its turn to write, leaves it to another.
    return min(MAX_WORKERS, 2 * (os.cpu_count() or 1), len({place.path for place in places}) // WORTH)


@contextmanager
def _import_lock(home: Home) -> Iterator[None]:
    """Be the only import in this home; waits also for workers of a killed import."""
    durable_io.make_folder(home.path)
    path = os.path.join(home.path, "import.lock")
    with durable_io.reported(path):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            output.note("holdfast: waiting for another import into this home")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


async def _adopt(context: Context, reader: TranscriptReader, places: list[SessionRef]) -> list[Json]:
    """What result of each session, or why nothing did."""

    def protocol(place: SessionRef) -> str | None:
        return context.registry.get(place.agent).protocol_of(place.form)

    def check_id(place: SessionRef) -> None:
        context.registry.get(place.agent).check_native_id(place.native_id)

    host = context.node.id
    result = await import_sessions(
        context.store, reader, places, host=host, protocol=protocol, check_id=check_id
    )
    return [_as_json(place, one) for place, one in zip(places, result, strict=True)]


def _as_json(place: SessionRef, result: ImportOutcome) -> Json:
    if isinstance(result, TranscriptImport):
        return {"native_id": place.native_id, **result._asdict()}
    message = result.message if isinstance(result, errors.HoldfastError) else str(result)
    return {"native_id": place.native_id, "path": place.path, "message": message}
