"""Gemini CLI."""

from __future__ import annotations

from holdfast.agents import acp
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader


def launch(job: AgentJob) -> AgentLaunch:
    """Over ACP; it asks before each action unless the user's config says otherwise."""
    return AgentLaunch((*job.program, "--acp", "--approval-mode", "default", *job.args))


def _history() -> TranscriptReader:
    from holdfast.agents.gemini.reader import GeminiReader

    return GeminiReader()


AGENT = Agent(
    name="gemini",
    title="Gemini CLI",
    aliases=("gemini-cli",),
    native_id_pattern=WORD,
    protocols=("acp",),
    driver=acp.make_driver,
    programs=("gemini",),  # a node script; with GEMINI_CLI_NO_RELAUNCH it is the agent itself
    install="npm install -g @google/gemini-cli",
    launch=launch,
    # Not GEMINI_*: it sets GEMINI_CLI and more for its tools, which a nested Gemini would take for its own.
    keeps=(
        "GEMINI_API_KEY",
        "GEMINI_API_KEY_AUTH_MECHANISM",
        "GEMINI_CLI_CUSTOM_HEADERS",
        "GEMINI_CLI_HOME",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "GEMINI_CLI_USE_COMPUTE_ADC",
        "GEMINI_DEFAULT_AUTH_TYPE",
        "GEMINI_FORCE_FILE_STORAGE",
        "GEMINI_MODEL",
        "GEMINI_SANDBOX",
        "GEMINI_SANDBOX_IMAGE",
        "GEMINI_SYSTEM_MD",
        "GEMINI_TELEMETRY_*",
        "GOOGLE_*",
        "CLOUD_SHELL",
    ),
    sets={
        # Without this it relaunches itself, and killing the parent leaves the real process running.
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    },
    traps=(
        KnownTrap(
            "deletes a conversation's history after a resume, unless its settings have "
            "general.sessionRetention.enabled = false (google-gemini/gemini-cli#27368)"
        ),
        KnownTrap("cannot resume a conversation in the minute in which it started, and damages it by trying"),
        KnownTrap("shows neither the input nor the output of most tools; the log has only what it shows"),
        KnownTrap("drops a tool call that a crash cut off"),
        KnownTrap("sends every tool result twice after a resume, which its API may refuse (#29365)"),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and gets mixed up"),
    ),
    history=_history,
)
