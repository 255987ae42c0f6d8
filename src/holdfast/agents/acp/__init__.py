"""The Agent Client Protocol, spoken over files: the JSON-RPC side is ours and survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.driver import AgentJob
from holdfast.errors import BadInput


def launch(job: AgentJob) -> AgentLaunch:
    """Its command as it is written, and what the config adds."""
    return AgentLaunch((*job.program, *job.args))


def entry(name: str, table: Mapping[str, Any]) -> Agent:
    """The entry of `[agents.NAME]`: `command` is its whole command line, `title` its name for people.

    Its id, its store and its traps are not known; `env` and the rest are settings, as for any agent.
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
        driver="acp",
        install=f'say how it is started: [agents.{name}] command = ["…"] in config.toml',
        launch=launch,
    )
