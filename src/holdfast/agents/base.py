"""What an agent is: one entry says all that is to know about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from holdfast.agents.driver import AgentJob, Driver
from holdfast.errors import BadInput
from holdfast.transcripts.reader import TranscriptReader

# `turn`: up to the end of any whole turn; `whole`: only as it stands, so not one that was cut short.
Forks = Literal["turn", "whole"]

# Forms of a native id. None begins with a dash, so none is ever read as an option.
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,255}"
OPAQUE = r"[^\s\x00-\x20\x7f-\xa0\ud800-\udfff-][^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,511}"


class AgentLaunch(msgspec.Struct, frozen=True):
    """How a job's process is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # on top of what every agent gets
    listens: bool = True  # whether it is spoken to on stdin; else that is `stdin`, or /dev/null
    stdin: str = ""  # the whole standard input of an agent that does not listen
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
    native_id_pattern: str = OPAQUE  # the form of its own conversation ids; nothing else is passed to it
    protocols: tuple[str, ...]  # how a conversation of it can be driven, the usual one first
    unnamed_protocol: str | None = None  # the route of a token that was recorded without a protocol
    driver: Callable[[AgentJob], Driver] | None = None  # imports the driver when called; None: cannot run
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
    # What it says when it could not start for a passing reason; the prompt is then sent once more.
    start_failures: str | None = None
    forms: dict[str, str] = {}  # of its store: the protocol by which a conversation kept so is driven
    history: Callable[[], TranscriptReader] | None = (
        None  # how its own store is read; imported when it is asked for
    )

    @property
    def token_fields(self) -> tuple[str, ...]:
        """The metadata keys under which other tools keep its token; ours may never hold one there."""
        stem = "".join(c for c in self.name if c.isalnum() or c in "-_")
        return (f"{stem}SessionId", f"{stem}SessionProtocol")

    def is_native_id(self, value: str) -> bool:
        """Whether a text has the form of this agent's conversation ids.

        Ids come from file names, databases of other tools and agents' streams, so they are not trusted.
        """
        return re.fullmatch(self.native_id_pattern, value) is not None

    def is_start_failure(self, text: str) -> bool:
        """Whether that is how it fails to start for a passing reason."""
        return self.start_failures is not None and re.search(self.start_failures, text) is not None

    def check_native_id(self, value: str) -> None:
        """Refuse a text that is not a conversation id of this agent."""
        if not self.is_native_id(value):
            raise BadInput(
                f"{value[:100]!r} is not a conversation id of {self.title}",
                hint="start a new session; the id is never passed to the agent",
            )

    def protocol_of(self, form: str) -> str | None:
        """How a conversation that its store keeps in that form is driven, if that can be told."""
        return self.forms.get(form) if self.forms else self.protocols[0]
