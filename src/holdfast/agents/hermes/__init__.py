"""Hermes: hermes-agent, and its web UI."""

from __future__ import annotations

from holdfast.agents.base import WORD, Agent
from holdfast.transcripts.reader import TranscriptReader


def _history() -> TranscriptReader:
    from holdfast.peers.hermes.reader import HermesReader

    return HermesReader()


AGENT = Agent(
    name="hermes",
    title="Hermes",
    aliases=("hermes-agent",),
    native_id_pattern=WORD,
    protocols=("acp",),  # `hermes-acp`, whose session ids are those of state.db
    history=_history,
)
