"""The demo agent: ships with Holdfast and needs no model."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache

from holdfast import __version__
from holdfast.agents import acp
from holdfast.agents.base import WORD, Agent, AgentLaunch
from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader

# -P keeps a `json.py` in the user's folder from being imported.
PROGRAM = (sys.executable, "-P", "-m", "holdfast.demo")


def _launch(job: AgentJob) -> AgentLaunch:
    """Run our own Python with our own package, wherever it was imported from."""
    return AgentLaunch(argv=(*(job.program or PROGRAM), *job.args), env=_environment())


@lru_cache  # sysconfig takes milliseconds per call
def _environment() -> dict[str, str]:
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    installed = folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return {} if installed else {"PYTHONPATH": folder}


def _history() -> TranscriptReader:
    from holdfast.agents.demo.reader import DemoReader

    return DemoReader()


AGENT = Agent(
    name="demo",
    title="Demo",
    native_id_pattern=WORD,
    protocols=("acp",),
    driver=acp.make_driver,
    command=PROGRAM,
    install=f"it comes with Holdfast {__version__}",
    launch=_launch,
    forks="turn",
    keeps=("HOLDFAST_DEMO_HOME", "XDG_DATA_HOME"),
    history=_history,
)
