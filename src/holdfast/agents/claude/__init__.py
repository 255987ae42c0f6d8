"""Claude Code."""

from __future__ import annotations

import os

from holdfast.agents import discovery
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob, Driver
from holdfast.transcripts.reader import TranscriptReader


def native_program(path: str) -> tuple[str, ...] | None:
    """The native program, if npm's postinstall did not put it in place of its stub."""
    if discovery.is_native(path) or os.path.basename(path) not in ("claude.exe", "cli-wrapper.cjs"):
        return None
    for suffix in ("", "-musl"):
        for package in discovery.packages(
            f"@anthropic-ai/claude-code-{discovery.npm_platform()}{suffix}", path
        ):
            program = os.path.join(package, "claude")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """A long-lived process that speaks stream-json; Holdfast decides every permission."""
    argv = [*job.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--verbose", "--permission-prompt-tool", "stdio", "--replay-user-messages"]
    argv += ["--include-partial-messages"]
    if job.fork_of is not None:
        argv += [f"--resume={job.fork_of}", "--fork-session"]
        argv += [f"--resume-session-at={job.fork_at}"] if job.fork_at is not None else []
    if job.native_id is not None:
        argv.append(f"--{'resume' if job.resume else 'session-id'}={job.native_id}")
    return AgentLaunch((*argv, *job.args))


def _driver(job: AgentJob) -> Driver:
    from holdfast.agents.claude.driver import ClaudeDriver

    return ClaudeDriver(job)


def _history() -> TranscriptReader:
    from holdfast.agents.claude.reader import ClaudeReader

    return ClaudeReader()


AGENT = Agent(
    name="claude",
    title="Claude Code",
    aliases=("claude-code",),
    native_id_pattern=WORD,
    protocols=("stream-json",),
    driver=_driver,
    programs=("claude",),
    native_program=native_program,
    install="npm install -g @anthropic-ai/claude-code",
    launch=launch,
    forks="turn",
    chooses_id=True,
    # Not CLAUDE_CODE_*: SKIP_PROMPT_HISTORY turns the transcript off, and others belong to a parent process.
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
        # It reports when it is idle; without this the end of a prompt with background subagents is unknown.
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        # An update during a run would replace the program of a live conversation, and has deleted transcripts
        # (anthropics/claude-code#41591).
        "DISABLE_AUTOUPDATER": "1",
    },
    traps=(
        KnownTrap("cannot run under Holdfast: this version lacks required options", before=(1, 0, 109)),
        KnownTrap("a kill before the first reply leaves nothing to resume", before=(2, 1, 45)),
        KnownTrap("a resume silently drops a tool call that a crash cut off", before=(2, 1, 265)),
        KnownTrap("resumes a conversation only from the directory where it started", before=(2, 1, 198)),
        KnownTrap("loses the result of a tool that is stopped by SIGTERM", since=(2, 1, 236)),
        KnownTrap("has no lock: a conversation that is open elsewhere can be resumed too, and then forks"),
    ),
    history=_history,
)
