"""The registry: every agent by name, and which metadata keys are tokens."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from holdfast import agents, errors
from holdfast.agents.base import Agent
from holdfast.agents.registry import KNOWN, AgentRegistry


def test_every_agent_in_the_package_is_known() -> None:
    """A new file with an AGENT that nobody lists would have an unprotected token."""
    found = []
    for module in pkgutil.iter_modules(agents.__path__):
        agent = getattr(importlib.import_module(f"holdfast.agents.{module.name}"), "AGENT", None)
        if agent is not None:
            found.append(agent.name)
    assert sorted(found) == sorted(agent.name for agent in KNOWN)


def test_the_fields_of_all_agents_are_protected() -> None:
    registry = AgentRegistry.from_config({"my-acp": {}, "other_1": {"title": "Other"}})
    fields = registry.token_rules().fields
    assert {"claudeSessionId", "codexSessionId", "cursorSessionId", "cursorSessionProtocol"} <= fields
    assert {"my-acpSessionId", "my-acpSessionProtocol", "other_1SessionId"} <= fields
    assert len(fields) == 2 * len(registry.agents), "no two agents share a field"


def test_a_name_or_alias_finds_its_agent() -> None:
    registry = AgentRegistry.from_config({"my-acp": {"title": "Mine"}, "claude": {"command": ["c"]}})
    assert registry.get("claude-code") is registry.get("claude")
    assert (registry.get("my-acp").title, registry.get("my-acp").protocols) == ("Mine", ("acp",))
    with pytest.raises(errors.NotFound, match="nobody") as refusal:
        registry.get("nobody")
    assert "claude" in refusal.value.hint and "my-acp" in refusal.value.hint


def test_two_agents_of_one_name_are_refused() -> None:
    twin = Agent(name="twin", title="T", protocols=("acp",), aliases=("claude",))
    with pytest.raises(errors.BadInput, match="claude"):
        AgentRegistry((*KNOWN, twin))
    with pytest.raises(errors.BadInput):
        AgentRegistry.from_config({"claude-code": {}})


@pytest.mark.parametrize("config", [{"x": 1}, {"x": None}, {"a b": {}}, {"": {}}, {"ü": {}}, {"../x": {}}])
def test_a_config_that_makes_no_sense_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(errors.BadInput):
        AgentRegistry.from_config(config)


def test_an_id_without_a_protocol_routes_only_where_the_registry_says() -> None:
    assert AgentRegistry().token_rules().default_protocol == {"cursor": "stream-json"}


HOSTILE = [
    "",
    "-",
    "--dangerously-skip-permissions",
    "-c",
    "a b",
    "a\nb",
    "\x1b[2J",
    "a\x9bb",
    "\u2028",
    "x" * 600,
    "\ud800",
]


@pytest.mark.parametrize(
    "agent", AgentRegistry.from_config({"my-acp": {}}).agents, ids=lambda agent: agent.name
)
@pytest.mark.parametrize("id", HOSTILE)
def test_no_agent_has_an_id_that_a_program_or_a_terminal_could_take_for_something_else(
    agent: Agent, id: str
) -> None:
    assert not agent.is_native_id(id)
    with pytest.raises(errors.BadInput, match="not a conversation id"):
        agent.check_native_id(id)


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("claude", "efbe9f4e-1afc-5fd8-9f65-d4ea30f9101d"),
        ("codex", "01a1e267-f865-7122-b25a-dd09a9e6c8b7"),
        ("gemini", "efbe9f4e-1afc-5fd8-9f65-d4ea30f9101d"),
        ("kimi", "session_efbe9f4e-1afc-5fd8-9f65-d4ea30f9101d"),
        ("kimi", "efbe9f4e-1afc-5fd8-9f65-d4ea30f9101d"),
        ("opencode", "ses_8a1cDEF012"),
        ("cursor", "agent-efbe9f4e-1afc-5fd8-9f65-d4ea30f9101d"),
        ("hermes", "20260101_120000_abc123"),
        ("my-acp", "thread/7:ü"),
    ],
)
def test_the_ids_that_agents_use_are_taken(name: str, id: str) -> None:
    AgentRegistry.from_config({"my-acp": {}}).get(name).check_native_id(id)
