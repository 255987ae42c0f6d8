"""What an agent is: one entry says all that is to know about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from holdfast.agents.driver import AgentJob
from holdfast.transcripts.reader import TranscriptReader

Protocol = Literal["claude", "codex", "acp"]
# `turn`: up to the end of any whole turn; `whole`: only as it stands, so not one that was cut short.
Forks = Literal["turn", "whole"]


class AgentLaunch(msgspec.Struct, frozen=True):
    """How a job's process is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # on top of what every agent gets
    listens: bool = True  # whether it is spoken to on stdin; else that is /dev/null
    notice: str | None = None  # what the user should know of this launch


class KnownTrap(msgspec.Struct, frozen=True):
    """Something known not to work."""

    text: str
    before: tuple[int, ...] | None = None  # only versions before this one
    since: tuple[int, ...] | None = None  # only this version and later ones


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent; its entry is the only place that knows it."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    protocols: tuple[str, ...]  # how a conversation of it can be driven, the usual one first
    unnamed_protocol: str | None = None  # the route of a token that was recorded without a protocol
    driver: Protocol | None = None  # None: we cannot run it yet
    command: tuple[str, ...] = ()  # of one that need not be looked for
    programs: tuple[str, ...] = ()  # what it is called on PATH
    behind: Callable[[str], tuple[str, ...] | None] | None = None
    """Given the real path of what was found on PATH, the command line of the true program behind it."""
    version_args: tuple[str, ...] = ("--version",)
    install: str = ""  # one line for a user who lacks it
    launch: Callable[[AgentJob], AgentLaunch] | None = None
    forks: Forks | None = None  # how a copy of a conversation can be gone on with; None: not at all
    chooses_id: bool = False  # a new conversation takes the id that we choose (a UUID)
    asks: bool = True  # whether it can ask for a permission
    keeps: tuple[
        str, ...
    ] = ()  # variables of the user's environment that it needs; `X_*` for all that begin so
    sets: dict[str, str] = {}  # variables that it always gets
    traps: tuple[KnownTrap, ...] = ()
    forms: dict[str, str] = {}  # of its store: the protocol by which a conversation kept so is driven
    history: Callable[[], TranscriptReader] | None = (
        None  # how its own store is read; imported when it is asked for
    )

    @property
    def token_fields(self) -> tuple[str, ...]:
        """The metadata keys under which other tools keep its token; ours may never hold one there."""
        stem = "".join(c for c in self.name if c.isalnum() or c in "-_")
        return (f"{stem}SessionId", f"{stem}SessionProtocol")

    def protocol_of(self, form: str) -> str | None:
        """How a conversation that its store keeps in that form is driven, if that can be told."""
        return self.forms.get(form) if self.forms else self.protocols[0]
