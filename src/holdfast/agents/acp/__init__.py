"""The Agent Client Protocol over files: our side of JSON-RPC survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.driver import AgentJob, Driver
from holdfast.errors import BadInput


def make_driver(job: AgentJob) -> Driver:
    """The driver of every ACP agent, imported when a task needs it."""
    from holdfast.agents.acp.driver import AcpDriver

    return AcpDriver(job)


def launch(job: AgentJob) -> AgentLaunch:
    """The command as configured, plus the extra arguments of the config."""
    return AgentLaunch((*job.program, *job.args))


def entry(name: str, table: Mapping[str, Any]) -> Agent:
    """The entry of `[agents.NAME]`: `command` is the whole command line, `title` the display name.

    Its id format, its store and its traps are unknown; `env` and the rest are settings as for any agent.
    """
    title, command = table.get("title", name), table.get("command", ())
    if not isinstance(title, str) or not title:
        raise BadInput(f"config.toml: agents.{name}.title must be text")
    if not isinstance(command, (list, tuple)) or not all(isinstance(word, str) and word for word in command):
        raise BadInput(f"config.toml: agents.{name}.command must be a list of words")
    return Agent(
        name=name,
        title=title,
        protocols=("acp",),
        driver=make_driver,
        install=f'set its command line: [agents.{name}] command = ["…"] in config.toml',
        launch=launch,
    )
