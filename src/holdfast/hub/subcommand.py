"""Commands of ours that the hub starts for heavy work: an import, a doctor's look at another tool."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from holdfast.errors import BadInput, HoldfastError
from holdfast.hub.state import HubState


async def run(hub: HubState, *words: str) -> Any:
    """What a command prints with --json; its error is raised here."""
    env = {**hub.env, "HOLDFAST_HOME": hub.home.path, "HOLDFAST_STORE": _store(hub)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast",
        *words,
        "--json",
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it has ended just now
            process.kill()
        await process.wait()
        raise
    try:
        return json.loads(said)
    except ValueError:
        raise _error(complained.decode(errors="replace"), process.returncode or 1) from None


def _store(hub: HubState) -> str:
    """The store, as a command is told it: not on its command line, where a password could be seen."""
    return hub.location.address if hub.location.kind == "postgres" else f"sqlite://{hub.location.address}"


def _error(complained: str, status: int) -> HoldfastError:
    last = complained.strip().rpartition("\n")[2]
    try:
        told = json.loads(last)
        return HoldfastError.from_json(told, status)
    except (ValueError, KeyError, TypeError):
        shape = BadInput if status == 2 else HoldfastError
        return shape(last or f"the command ended with {status}")


def is_path(path: str) -> bool:
    """Whether it can be given to a command as a path and as nothing else."""
    return os.path.isabs(path) and "\0" not in path
