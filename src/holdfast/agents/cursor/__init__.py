"""Cursor."""

from __future__ import annotations

from holdfast.agents.base import Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader


def launch(job: AgentJob) -> AgentLaunch:
    """Over ACP; its options come before that word."""
    return AgentLaunch((*job.program, *job.args, "acp"))


def _history() -> TranscriptReader:
    from holdfast.agents.cursor.reader import CursorReader

    return CursorReader()


AGENT = Agent(
    name="cursor",
    title="Cursor",
    aliases=("cursor-agent",),
    protocols=("acp", "stream-json"),
    driver="acp",
    programs=("cursor-agent",),  # not `agent`, which may be anything
    install="see cursor.com/cli",
    launch=launch,
    keeps=("CURSOR_API_KEY", "CURSOR_BACKEND_URL"),
    sets={"NO_COLOR": "1"},
    # Ids from before its ACP mode were kept without a protocol, and only `agent -p` opens those.
    unnamed_protocol="stream-json",
    forms={"cli-acp": "acp", "cli-legacy": "stream-json"},
    traps=(
        KnownTrap("known to Holdfast by its documentation only: its program was not to be had for the tests"),
        KnownTrap("a second one that is started, even to list its models, may end one that runs"),
    ),
    history=_history,
)
