"""OpenCode."""

from __future__ import annotations

import os

from holdfast.agents import acp, discovery
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader

# It allows everything by default; this makes it ask, so that Holdfast can decide.
ASKING = '{"bash":"ask","edit":"ask","webfetch":"ask"}'


def native_program(path: str) -> tuple[str, ...] | None:
    """The native program behind npm's wrapper, if its postinstall did not put it in place."""
    if discovery.is_native(path) or os.path.basename(path) not in ("opencode", "opencode.exe"):
        return None
    here = discovery.npm_platform()
    for name in (f"opencode-{here}", f"opencode-{here}-baseline", f"opencode-{here}-musl"):
        for package in discovery.packages(name, path):
            program = os.path.join(package, "bin", "opencode")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """Over ACP. It trusts `PWD` more than its working directory (anomalyco/opencode#47080)."""
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
    native_id_pattern=WORD,
    protocols=("acp",),
    driver=acp.make_driver,
    programs=("opencode",),
    native_program=native_program,
    install="npm install -g opencode-ai",
    launch=launch,
    forks="whole",
    # Keys of the models that it can use, and its own settings that do not come from a surrounding OpenCode.
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
        KnownTrap("leaves a tool call that a crash cut off as running forever in its store"),
        KnownTrap("keeps all projects in one database: damage there loses every conversation"),
        KnownTrap("repeats text in its stream when the connection to its model breaks"),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and gets mixed up"),
    ),
    history=_history,
    # Two processes that create its database at the same moment: one of them fails at a migration.
    start_failures=r"SQLITE_BUSY|database is locked|(table|index) \S+ already exists|duplicate column name",
)
