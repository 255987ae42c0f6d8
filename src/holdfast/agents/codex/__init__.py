"""Codex."""

from __future__ import annotations

import os
import uuid

from holdfast.agents import discovery
from holdfast.agents.base import WORD, Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob, Driver
from holdfast.errors import BadInput
from holdfast.transcripts.reader import TranscriptReader

NARROW = "codex exec cannot ask for permissions, so this run uses its read-only sandbox"

_TARGETS = {
    "linux-x64": "x86_64-unknown-linux-musl",
    "linux-arm64": "aarch64-unknown-linux-musl",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


def native_program(path: str) -> tuple[str, ...] | None:
    """The native program behind npm's wrapper; killing the wrapper would leave it running."""
    if not discovery.is_node_script(path):
        return None
    here = discovery.npm_platform()
    roots = [os.path.join(package, "vendor") for package in discovery.packages(f"@openai/codex-{here}", path)]
    roots.append(os.path.join(os.path.dirname(os.path.dirname(path)), "vendor"))
    for root in roots:
        for folder in ("bin", "codex"):  # the second one in older packages
            program = os.path.join(root, _TARGETS.get(here, ""), folder, "codex")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """One process per prompt.

    The prompt goes to stdin, because every user of the machine can read a command line.
    """
    _check(job.prompt)
    narrow = job.permissions != "allow"
    argv = [*job.program, "exec", "--json", "--skip-git-repo-check"]
    argv += ["-s", "read-only" if narrow else "danger-full-access"]
    # Without network its plugins cost 5 s per run (measured, 0.166.0).
    argv += ["-c", "features.plugins=false", "-c", "check_for_update_on_startup=false", *job.args]
    if job.resume:
        argv += ["resume", _uuid(job.native_id)]
    return AgentLaunch((*argv, "-"), listens=False, stdin=job.prompt, notice=NARROW if narrow else None)


def _uuid(native_id: str | None) -> str:
    """Codex takes anything else for a name and silently starts a new conversation (0.166.0)."""
    try:
        return str(uuid.UUID(native_id or ""))
    except ValueError:
        raise BadInput(f"{str(native_id)[:100]!r} is not a thread id of Codex, which is a UUID") from None


def _check(prompt: str) -> None:
    if not prompt.strip():
        raise BadInput("codex needs a prompt", hint="describe the task in the prompt")
    if "\0" in prompt:
        raise BadInput("codex cannot take a prompt with a NUL character")
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise BadInput("the prompt is not valid Unicode (a lone surrogate)")


def _driver(job: AgentJob) -> Driver:
    from holdfast.agents.codex.driver import CodexDriver

    return CodexDriver(job)


def _history() -> TranscriptReader:
    from holdfast.agents.codex.reader import CodexReader

    return CodexReader()


AGENT = Agent(
    name="codex",
    title="Codex",
    aliases=(),
    native_id_pattern=WORD,
    protocols=("exec-json",),
    driver=_driver,
    programs=("codex",),
    native_program=native_program,
    install="npm install -g @openai/codex",
    launch=launch,
    asks=False,
    keeps=("CODEX_HOME", "CODEX_API_KEY", "OPENAI_*", "AZURE_OPENAI_*"),
    traps=(
        KnownTrap(
            "cannot ask for permissions: unless everything is allowed, it runs in its read-only sandbox"
        ),
        KnownTrap("a command that fails in its sandbox may be missing from its stream"),
        KnownTrap("a conversation that ended before its first turn cannot be resumed"),
    ),
    history=_history,
)
