"""The driver that an agent's entry names."""

from __future__ import annotations

from holdfast.drive.driver import Driver, Job


def make(kind: str, job: Job) -> Driver:
    """A driver of that kind for one process."""
    if kind == "claude":
        from holdfast.drive.claude import ClaudeDriver

        return ClaudeDriver(job)
    if kind == "codex":
        from holdfast.drive.codex import CodexDriver

        return CodexDriver(job)
    if kind == "acp":
        from holdfast.drive.acp.driver import AcpDriver

        return AcpDriver(job)
    raise AssertionError(kind)
