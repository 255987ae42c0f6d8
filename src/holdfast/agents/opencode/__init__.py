"""OpenCode."""

from __future__ import annotations

import os

from holdfast.agents import discovery
from holdfast.agents.base import Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader

# It allows everything by itself; this makes it ask, and it is asked of us.
ASKING = '{"bash":"ask","edit":"ask","webfetch":"ask"}'


def behind(path: str) -> tuple[str, ...] | None:
    """The native program behind npm's wrapper, where its postinstall did not put it in its place."""
    if discovery.is_native(path) or os.path.basename(path) not in ("opencode", "opencode.exe"):
        return None
    here = discovery.system()
    for name in (f"opencode-{here}", f"opencode-{here}-baseline", f"opencode-{here}-musl"):
        for package in discovery.packages(name, path):
            program = os.path.join(package, "bin", "opencode")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """Over ACP. It believes `PWD` more than where it is (anomalyco/opencode#47080)."""
    env = {"PWD": job.cwd}
    if job.permissions != "allow":
        env["OPENCODE_PERMISSION"] = ASKING
    return AgentLaunch((*job.program, "acp", *job.args), env)


def _history() -> TranscriptReader:
    from holdfast.agents.opencode.reader import OpenCodeReader

    return OpenCodeReader()


AGENT = Agent(
    name="opencode",
    title="OpenCode",
    protocols=("acp",),
    driver="acp",
    programs=("opencode",),
    behind=behind,
    install="npm install -g opencode-ai",
    launch=launch,
    forks="whole",
    # Keys of the models that it can use, and its own settings that do not come from an OpenCode around us.
    keeps=(
        "ANTHROPIC_*",
        "AWS_*",
        "AZURE_*",
        "CEREBRAS_API_KEY",
        "CLOUDFLARE_*",
        "DEEPSEEK_API_KEY",
        "FIREWORKS_API_KEY",
        "GEMINI_API_KEY",
        "GITHUB_TOKEN",
        "GITLAB_TOKEN",
        "GOOGLE_*",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "MOONSHOT_API_KEY",
        "OLLAMA_*",
        "OPENAI_*",
        "OPENCODE_API_KEY",
        "OPENCODE_AUTH_CONTENT",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_DB",
        "OPENCODE_DISABLE_*",
        "OPENCODE_ENABLE_*",
        "OPENCODE_MODELS_PATH",
        "OPENCODE_MODELS_URL",
        "OPENCODE_PERMISSION",
        "OPENROUTER_API_KEY",
        "TOGETHER_API_KEY",
        "VERTEX_*",
        "XAI_API_KEY",
        "ZHIPU_API_KEY",
    ),
    sets={
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    },
    traps=(
        KnownTrap("leaves a tool call that a crash cut off as running for ever in its store"),
        KnownTrap("keeps all projects in one database: a damage there loses every conversation"),
        KnownTrap("repeats in its stream what it had said when a connection to its model breaks"),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and is mixed up"),
    ),
    history=_history,
)
