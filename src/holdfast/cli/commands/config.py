"""`holdfast config`: show the settings in force, and where each comes from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast import config, settings
from holdfast import settings as hub
from holdfast.cli import common, output
from holdfast.forges import settings as forges
from holdfast.home import Home
from holdfast.notify import settings as notify
from holdfast.settings import HubSettings, RunSettings
from holdfast.store.location import Location

SECRET = ("secret", "password", "token", "key")  # a setting with one of these in its name is hidden
HIDDEN = "(hidden)"


class SettingRow(NamedTuple):
    """One setting."""

    name: str
    value: Any
    source: str


def parser(name: str) -> argparse.ArgumentParser:
    """Nothing but the shared options."""
    return common.parser(
        name, "Show the settings in force, and where each comes from. Reports an invalid config."
    )


def run(options: argparse.Namespace) -> int:
    """Check the config, and print all of it."""
    home, location = common.home_and_location(options)
    rows = list(_rows(home, location, options))
    if options.json:
        output.json_line([row._asdict() for row in rows])
        return 0
    output.table(
        ("SETTING", "VALUE", "FROM"),
        [(row.name, _as_text(row.value), row.source) for row in rows],
    )
    return 0


def _rows(home: Home, location: Location, options: argparse.Namespace) -> Iterator[SettingRow]:
    yield SettingRow("home", home.path, "$HOLDFAST_HOME" if os.environ.get("HOLDFAST_HOME") else "default")
    yield SettingRow("store", location.address.rpartition("@")[2], _store_source(options))
    written = config.load(home)
    for check in (settings.read, hub.settings_read, forges.read_forges, notify.read_notify):
        check(written)
    yield from _table("run", RunSettings(), written.get("run", {}), home)
    yield from _table("hub", HubSettings(), written.get("hub", {}), home)
    for group in ("agents", "forges"):
        for name, table in written.get(group, {}).items():
            for key, value in table.items():
                yield SettingRow(f"{group}.{name}.{key}", _redact(key, value), home.config)
    for key, value in written.get("notify", {}).items():
        yield SettingRow(f"notify.{key}", _redact(key, value), home.config)


def _store_source(options: argparse.Namespace) -> str:
    if options.store:
        return "--store"
    return "$HOLDFAST_STORE" if os.environ.get("HOLDFAST_STORE") else "default"


def _table(name: str, defaults: msgspec.Struct, written: dict[str, Any], home: Home) -> Iterator[SettingRow]:
    for field in msgspec.structs.fields(defaults):
        value = written.get(field.name, getattr(defaults, field.name))
        yield SettingRow(
            f"{name}.{field.name}",
            _redact(field.name, value),
            home.config if field.name in written else "default",
        )


def _redact(name: str, value: Any) -> Any:
    """A value with its secrets hidden."""
    if isinstance(value, dict):
        return {key: _redact(key, each) for key, each in value.items()}
    secret = any(part in name.lower() for part in SECRET)
    return HIDDEN if secret and isinstance(value, str) and not name.endswith("_file") else value


def _as_text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
