"""The file that tells where the hub of a home is, as long as one runs."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from holdfast import clock, fsio
from holdfast.home import Home
from holdfast.process import identity


def path_of(home: Home) -> str:
    """Where it is."""
    return os.path.join(home.path, "hub.json")


def announce(home: Home, url: str) -> None:
    """Say where we are; what a killed hub left there is replaced."""
    me = identity.me()
    told = {"pid": me.pid, "started": me.started, "boot": me.boot, "url": url, "at": clock.now()}
    path = path_of(home)
    temp = fsio.temp_name(path)
    fsio.create(temp, [json.dumps(told).encode() + b"\n"])
    with fsio.reported(path):
        fsio.DISK.rename(temp, path)


def withdraw(home: Home) -> None:
    """We are gone."""
    with suppress(FileNotFoundError):
        os.unlink(path_of(home))
