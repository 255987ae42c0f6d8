"""A made-up agent: what one folder must hold. The test copies it to `holdfast/agents/parrot/`."""

from __future__ import annotations

import os
import sys

from holdfast.agents.base import Agent, AgentLaunch
from holdfast.agents.driver import AgentJob, Driver
from holdfast.transcripts.reader import TranscriptReader


def _launch(job: AgentJob) -> AgentLaunch:
    resumed = ("--resume", job.native_id) if job.resume and job.native_id else ()
    return AgentLaunch((*job.program, *resumed, "--", job.prompt), listens=False)


def _driver(job: AgentJob) -> Driver:
    from .driver import ParrotDriver

    return ParrotDriver(job)


def _history() -> TranscriptReader:
    from .reader import ParrotReader

    return ParrotReader()


AGENT = Agent(
    name="parrot",
    title="Parrot",
    protocols=("parrot-json",),
    driver=_driver,
    command=(sys.executable, os.path.join(os.path.dirname(__file__), "program.py")),
    launch=_launch,
    asks=False,
    keeps=("PARROT_HOME",),
    history=_history,
)
