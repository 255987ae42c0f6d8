"""The file that tells where the hub of a home is, as long as one runs."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from holdfast import clock, fsio
from holdfast.client.found import note_path, store_mark
from holdfast.home import Home
from holdfast.process import identity
from holdfast.store.location import Location


def announce(home: Home, location: Location, url: str) -> None:
    """Say where we are; what a killed hub left there is replaced."""
    me = identity.me()
    told = {"pid": me.pid, "started": me.started, "boot": me.boot, "url": url, "at": clock.now()}
    told["store"] = store_mark(location)
    path = note_path(home)
    temp = fsio.temp_name(path)
    fsio.create(temp, [json.dumps(told).encode() + b"\n"])
    with fsio.reported(path):
        fsio.DISK.rename(temp, path)


def withdraw(home: Home) -> None:
    """We are gone."""
    with suppress(FileNotFoundError):
        os.unlink(note_path(home))
