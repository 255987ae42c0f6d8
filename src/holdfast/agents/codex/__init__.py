"""Codex."""

from __future__ import annotations

import os
import uuid

from holdfast.agents import discovery
from holdfast.agents.base import Agent, AgentLaunch, KnownTrap
from holdfast.agents.driver import AgentJob
from holdfast.errors import BadInput
from holdfast.transcripts.reader import TranscriptReader

LONGEST = 128 * 1024 - 1  # bytes: what Linux takes as one argument
NARROW = "codex exec cannot ask for permissions; this run has its read-only sandbox instead"

_TARGETS = {
    "linux-x64": "x86_64-unknown-linux-musl",
    "linux-arm64": "aarch64-unknown-linux-musl",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


def behind(path: str) -> tuple[str, ...] | None:
    """The native program behind npm's wrapper, which leaves it running when it is killed itself."""
    if not discovery.is_node_script(path):
        return None
    here = discovery.system()
    roots = [os.path.join(found, "vendor") for found in discovery.packages(f"@openai/codex-{here}", path)]
    roots.append(os.path.join(os.path.dirname(os.path.dirname(path)), "vendor"))
    for root in roots:
        for folder in ("bin", "codex"):  # the second in older packages
            program = os.path.join(root, _TARGETS.get(here, ""), folder, "codex")
            if discovery.is_native(program):
                return (program,)
    return ()


def launch(job: AgentJob) -> AgentLaunch:
    """One prompt, one process; all that it must know is on its command line."""
    _check(job.prompt)
    narrow = job.permissions != "allow"
    argv = [*job.program, "exec", "--json", "--skip-git-repo-check"]
    argv += ["-s", "read-only" if narrow else "danger-full-access"]
    # Without network its plugins cost 5 s a run (measured, 0.166.0).
    argv += ["-c", "features.plugins=false", "-c", "check_for_update_on_startup=false", *job.args]
    if job.resume:
        argv += ["resume", _uuid(job.native_id)]
    return AgentLaunch((*argv, "--", job.prompt), listens=False, notice=NARROW if narrow else None)


def _uuid(native_id: str | None) -> str:
    """Anything else it takes for a name, and begins a new conversation without a word (0.166.0)."""
    try:
        return str(uuid.UUID(native_id))
    except (ValueError, TypeError, AttributeError):
        raise BadInput(f"{native_id!r} is no conversation of codex; those are UUIDs") from None


def _check(prompt: str) -> None:
    if "\0" in prompt:
        raise BadInput("codex takes its prompt on the command line, which cannot hold a NUL character")
    if prompt.strip() in ("", "-"):
        raise BadInput("codex would wait for a prompt on its stdin; say more than that")
    size = len(prompt.encode("utf-8", "surrogatepass"))
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise BadInput("that prompt is not valid Unicode (a lone surrogate)")
    if size > LONGEST:
        raise BadInput(
            f"a prompt of {size:,} bytes is too long for codex, which takes {LONGEST:,} on its command line",
            hint="put it in a file and name the file in the prompt",
        )


def _history() -> TranscriptReader:
    from holdfast.agents.codex.reader import CodexReader

    return CodexReader()


AGENT = Agent(
    name="codex",
    title="Codex",
    aliases=(),
    protocols=("exec-json",),
    driver="codex",
    programs=("codex",),
    behind=behind,
    install="npm install -g @openai/codex",
    launch=launch,
    asks=False,
    keeps=("CODEX_HOME", "CODEX_API_KEY", "OPENAI_*", "AZURE_OPENAI_*"),
    traps=(
        KnownTrap("cannot ask for permissions: unless all is allowed it gets its read-only sandbox"),
        KnownTrap("a command that fails in its sandbox may be missing from its stream"),
        KnownTrap("a conversation that ended before its first turn began cannot be resumed"),
    ),
    history=_history,
)
