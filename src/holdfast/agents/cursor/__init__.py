"""Cursor."""

from __future__ import annotations

from holdfast.agents import acp
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
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
    native_id_pattern=WORD,
    protocols=("acp", "stream-json"),
    driver=acp.make_driver,
    programs=("cursor-agent",),  # not `agent`, which may be any program
    install="see cursor.com/cli",
    launch=launch,
    keeps=("CURSOR_API_KEY", "CURSOR_BACKEND_URL"),
    sets={"NO_COLOR": "1"},
    # Ids from before its ACP mode were stored without a protocol, and only `agent -p` opens those.
    unnamed_protocol="stream-json",
    forms={"cli-acp": "acp", "cli-legacy": "stream-json"},
    traps=(
        KnownTrap("known to Holdfast only by its documentation: the program was not available for the tests"),
        KnownTrap("starting a second instance, even to list its models, may end a running one"),
    ),
    history=_history,
)
