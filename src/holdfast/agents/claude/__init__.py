"""Claude Code."""

from __future__ import annotations

import os

from holdfast.agents import discovery
from holdfast.agents.base import Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader


def behind(path: str) -> tuple[str, ...] | None:
    """The native program, where npm's postinstall did not put it in place of its stub."""
    if discovery.is_native(path) or os.path.basename(path) not in ("claude.exe", "cli-wrapper.cjs"):
        return None
    for suffix in ("", "-musl"):
        for package in discovery.packages(f"@anthropic-ai/claude-code-{discovery.system()}{suffix}", path):
            program = os.path.join(package, "claude")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """Long-lived, spoken to by stream-json, every permission decided by us."""
    argv = [*job.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--verbose", "--permission-prompt-tool", "stdio", "--replay-user-messages"]
    argv += ["--include-partial-messages"]
    if job.fork_of is not None:
        argv += ["--resume", job.fork_of, "--fork-session"]
        argv += ["--resume-session-at", job.fork_at] if job.fork_at is not None else []
    if job.native_id is not None:
        argv += ["--resume" if job.resume else "--session-id", job.native_id]
    return AgentLaunch((*argv, *job.args))


def _history() -> TranscriptReader:
    from holdfast.agents.claude.reader import ClaudeReader

    return ClaudeReader()


AGENT = Agent(
    name="claude",
    title="Claude Code",
    aliases=("claude-code",),
    protocols=("stream-json",),
    driver="claude",
    programs=("claude",),
    behind=behind,
    install="npm install -g @anthropic-ai/claude-code",
    launch=launch,
    forks="turn",
    chooses_id=True,
    # Not CLAUDE_CODE_*: one of them (SKIP_PROMPT_HISTORY) turns the transcript off, others are a parent's.
    keeps=(
        "ANTHROPIC_*",
        "AWS_*",
        "BASH_*",
        "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "CLAUDE_CODE_SUBAGENT_MODEL",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CONFIG_DIR",
        "CLOUD_ML_REGION",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
        "IS_SANDBOX",
        "MAX_MCP_OUTPUT_TOKENS",
        "MAX_THINKING_TOKENS",
        "MCP_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
        "NODE_EXTRA_CA_CERTS",
        "VERTEX_*",
    ),
    sets={
        # Says when it is idle; without it the end of a prompt with background subagents cannot be told.
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        # An update in mid-run would change the program under a conversation, and has deleted
        # transcripts (anthropics/claude-code#41591).
        "DISABLE_AUTOUPDATER": "1",
    },
    traps=(
        KnownTrap(
            "cannot be run by Holdfast: it does not know all the options that it is given", before=(1, 0, 109)
        ),
        KnownTrap("a kill before its first reply leaves nothing that could be resumed", before=(2, 1, 45)),
        KnownTrap("forgets in silence a tool call that a crash cut off, when resumed", before=(2, 1, 265)),
        KnownTrap("resumes a conversation only from the directory that it began in", before=(2, 1, 198)),
        KnownTrap("loses the result of a tool that SIGTERM cuts off", since=(2, 1, 236)),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and splits in two"),
    ),
    history=_history,
)
