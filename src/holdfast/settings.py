"""The `[run]` and `[agents.NAME]` tables of config.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from holdfast.agents.driver import Policy
from holdfast.config import SEE, near
from holdfast.errors import BadInput

T = TypeVar("T")

Leftovers = Literal["wait", "end", "ignore"]  # processes that a dead run left behind


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tasks are run on this machine."""

    agent: str | None = None  # for a prompt that names none; else the only one that is installed
    at_once: int = 4  # tasks that run at the same time
    permissions: Policy = "ask"
    time_limit_s: float | None = None  # for a task that brings none
    grace_s: float = 10.0  # from asking an agent to stop to ending it
    leftovers: Leftovers = "wait"  # after `leftovers_s`: ask a person, end them, or start beside them
    leftovers_s: float = 600.0  # for how long a task waits for processes before that
    leave_s: float = 20.0  # from an agent's final word to ending it
    keep_days: float = 30.0  # a task's compressed stdio


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says of one agent."""

    title: str | None = None
    path: str | None = None  # its program, where PATH does not lead to it
    command: tuple[str, ...] = ()  # the same with arguments; for an agent of the user's own
    args: tuple[str, ...] = ()  # added to its command line
    env: dict[str, str] = {}
    keeps: tuple[str, ...] = ()  # more variables of the user's environment that it gets
    at_once: int | None = None
    permissions: Policy | None = None


class Settings(msgspec.Struct, frozen=True):
    """Both."""

    run: RunSettings = RunSettings()
    agents: dict[str, AgentSettings] = {}
    tables: dict[str, dict[str, Any]] = {}  # of the agents, as they are written

    def of(self, agent: str) -> AgentSettings:
        """What was said of one agent."""
        return self.agents.get(agent, AgentSettings())


def read(config: Mapping[str, Any]) -> Settings:
    """The settings of a config; BadInput names what is wrong with them."""
    agents = tables("agents", config.get("agents", {}))
    run = table("run", config.get("run", {}), RunSettings)
    if run.at_once < 1:
        raise BadInput("config.toml: run.at_once must be at least 1")
    if run.leftovers_s < 0:
        raise BadInput("config.toml: run.leftovers_s must be at least 0")
    return Settings(
        run=run,
        agents={name: table(f"agents.{name}", said, AgentSettings) for name, said in agents.items()},
        tables=agents,
    )


def tables(name: str, written: Any, see: str = SEE) -> dict[str, Any]:
    """What is written under a name, if that is a table."""
    if not isinstance(written, dict):
        raise BadInput(f"config.toml: {name} must be a table: [{name}]", hint=see)
    return written


def table(name: str, written: Any, shape: type[T], see: str = SEE) -> T:
    """A table of the config as its settings; BadInput names the one that is wrong, and what it may be."""
    known = tuple(field.name for field in msgspec.structs.fields(shape))  # type: ignore[arg-type]
    for given in tables(name, written, see):
        if given not in known:
            raise BadInput(f"config.toml: [{name}] has no setting {given!r}", hint=near(given, known))
    try:
        return msgspec.convert(written, shape)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$")
        raise BadInput(
            f"config.toml: {name}{where.rstrip('`')} {_plain_problem(what, where, shape)}", hint=see
        ) from None


# msgspec's names of types, as people call them.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "left out",
}


def _plain_problem(problem: str, where: str, shape: Any) -> str:
    """What is wrong with a setting, in words that name no library and no type of Python."""
    hints = get_type_hints(shape)
    choices = [
        choice
        for part in (hints.get(where.strip(".`")), *get_args(hints.get(where.strip(".`"))))
        if get_origin(part) is Literal
        for choice in get_args(part)
    ]
    if choices:
        given = re.fullmatch(r"Invalid enum value (.+)", problem)
        allowed = ", ".join(f'"{choice}"' for choice in choices)
        return f"must be one of {allowed}{f', not {given[1]}' if given else ''}"
    found = re.fullmatch(r"Expected `([^`]*)`(?:, got `([^`]*)`)?(.*)", problem)
    if found is None:
        return "is not valid"
    wanted = [_KINDS[kind] for kind in found[1].split(" | ") if kind in _KINDS and kind != "null"]
    got = f", not {_KINDS[found[2]]}" if found[2] in _KINDS else ""
    return f"must be {' or '.join(wanted) or 'another value'}{found[3] or ''}{got}"


# --- The `[hub]` table of config.toml.

PORT = 8420


class HubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the hub listens, and by which names it is known."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: the usual one, or a free one where that is taken
    hosts: tuple[str, ...] = ()  # names by which a proxy or the network knows it


def settings_read(config: Mapping[str, Any]) -> HubSettings:
    """The settings of a config; BadInput names what is wrong with them."""
    found = table("hub", config.get("hub", {}), HubSettings)
    if found.port is not None:
        check_port(found.port, "config.toml: hub.port")
    return found


def check_port(port: int, name: str = "a port") -> None:
    """Refuse what is no port."""
    if not 0 <= port <= 65535:
        raise BadInput(f"{name} is a number from 0 to 65535, not {port}")
