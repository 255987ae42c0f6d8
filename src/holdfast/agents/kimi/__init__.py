"""Kimi Code."""

from __future__ import annotations

import os

from holdfast.agents import acp, discovery
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader


def native_program(path: str) -> tuple[str, ...] | None:
    """Its script and the node that was installed with it: the one on PATH may be too old."""
    if not discovery.is_node_script(path):
        return None
    folders = discovery.packages(f"node-{discovery.npm_platform()}", path)
    if "node_modules" in path.split(os.sep):
        prefix = path[: path.index(f"{os.sep}node_modules{os.sep}")]
        folders.append(os.path.dirname(prefix))  # PREFIX/lib/node_modules: node is PREFIX/bin/node
    for folder in folders:
        node = os.path.join(folder, "bin", "node")
        if os.access(node, os.X_OK):
            return (node, path)
    return None


def launch(job: AgentJob) -> AgentLaunch:
    """Over ACP, where it starts in the mode that asks."""
    return AgentLaunch((*job.program, "acp", *job.args))


def _history() -> TranscriptReader:
    from holdfast.agents.kimi.reader import KimiReader

    return KimiReader()


AGENT = Agent(
    name="kimi",
    title="Kimi Code",
    aliases=("kimi-code", "kimi-cli"),
    native_id_pattern=WORD,
    protocols=("acp",),
    driver=acp.make_driver,
    programs=("kimi",),
    native_program=native_program,
    install="npm install -g @moonshot-ai/kimi-code (needs Node 22.19 or later)",
    launch=launch,
    forks="whole",
    # Not KIMI_*: KIMI_SESSION_ID and others are set by a surrounding Kimi for its tools.
    keeps=(
        "ANTHROPIC_*",
        "GOOGLE_*",
        "KIMI_API_KEY",
        "KIMI_BASE_URL",
        "KIMI_CODE_BASE_URL",
        "KIMI_CODE_CUSTOM_HEADERS",
        "KIMI_CODE_HOME",
        "KIMI_CODE_OAUTH_HOST",
        "KIMI_DISABLE_TELEMETRY",
        "KIMI_LOOP_*",
        "KIMI_MODEL_*",
        "KIMI_OAUTH_HOST",
        "KIMI_SHARE_DIR",
        "KIMI_SHELL_PATH",
        "KIMI_WEB_*",
        "MOONSHOT_API_KEY",
        "OPENAI_*",
    ),
    sets={"KIMI_CODE_NO_AUTO_UPDATE": "1", "NO_COLOR": "1"},
    traps=(
        KnownTrap(
            "kimi-cli is no longer maintained: this version only says so and exits with 0; "
            "install @moonshot-ai/kimi-code instead",
            since=(1, 51),
            before=(2,),
        ),
        KnownTrap("kimi-cli starts a new conversation if it does not know the id", before=(2,)),
        KnownTrap("reports success when its model failed; a turn without a last text counts as failed"),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and gets mixed up"),
    ),
    history=_history,
)
