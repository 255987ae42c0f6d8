"""The other programs that the doctor can repair, by their name on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from holdfast import errors
from holdfast.doctor.plan import RepairTarget


def _hapi(path: str, env: Mapping[str, str], chosen: Mapping[str, str]) -> RepairTarget:
    from holdfast.peers.hapi.install import HapiInstall

    return HapiInstall(path, env, chosen)


def _hermes(path: str, env: Mapping[str, str], chosen: Mapping[str, str]) -> RepairTarget:
    from holdfast.peers.hermes.install import HermesInstall

    return HermesInstall(path, env)


MakeTarget = Callable[[str, Mapping[str, str], Mapping[str, str]], RepairTarget]

INSTALLS: dict[str, MakeTarget] = {"hapi": _hapi, "hermes": _hermes}


def repair_target(
    target: str, path: str, env: Mapping[str, str], chosen: Mapping[str, str] | None = None
) -> RepairTarget:
    """The install of a program at a path; NotFound if nothing is there.

    `chosen`: the token that a user chose for a session with several candidates.
    """
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.exists(real):
        raise errors.NotFound(
            f"nothing exists at {path}", hint=f"name {target}'s home (usually ~/.{target}) or its database"
        )
    return INSTALLS[target](real, env, chosen or {})
