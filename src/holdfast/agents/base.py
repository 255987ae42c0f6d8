"""What is an agent? One `Agent` entry holds everything that Holdfast knows about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from holdfast.agents.driver import AgentJob, Driver
from holdfast.errors import BadInput
from holdfast.transcripts.reader import TranscriptReader

# `turn`: up to the end of any complete turn; `whole`: only the whole conversation, so not if it was cut off.
Forks = Literal["turn", "whole"]

# Forms of a native id. None begins with a dash, so none can be read as an option. They are no narrower:
# agents change the form of their ids between versions, and other tools record ids of every form.
WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,255}"
OPAQUE = r"[^\s\x00-\x20\x7f-\xa0\ud800-\udfff-][^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,511}"


class AgentLaunch(msgspec.Struct, frozen=True):
    """How a job's process is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # in addition to what every agent gets
    listens: bool = True  # Holdfast writes to its stdin; otherwise stdin is `stdin`, or /dev/null
    stdin: str = ""  # all of the standard input of an agent that does not listen
    notice: str | None = None  # what the user should know about this launch


class KnownTrap(msgspec.Struct, frozen=True):
    """Something that is known not to work."""

    text: str
    before: tuple[int, ...] | None = None  # only versions before this one
    since: tuple[int, ...] | None = None  # only this version and later ones


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One coding agent. Only its entry knows it by name."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    native_id_pattern: str = OPAQUE  # the form of its conversation ids; nothing else is passed to it
    protocols: tuple[str, ...]  # how a conversation can be driven, the usual way first
    unnamed_protocol: str | None = None  # how a token that was recorded without a protocol is driven
    driver: Callable[[AgentJob], Driver] | None = None  # imports the driver when called; None: cannot run
    command: tuple[str, ...] = ()  # for an agent that is not searched on PATH
    programs: tuple[str, ...] = ()  # its program names on PATH
    native_program: Callable[[str], tuple[str, ...] | None] | None = None
    """Maps the real path of the program on PATH to the command line of the native program behind it."""
    version_args: tuple[str, ...] = ("--version",)
    install: str = ""  # one line for a user who does not have it
    launch: Callable[[AgentJob], AgentLaunch] | None = None
    forks: Forks | None = None  # how a conversation can be forked; None: not at all
    chooses_id: bool = False  # a new conversation uses the id that Holdfast chooses (a UUID)
    asks: bool = True  # it can ask for permissions
    keeps: tuple[str, ...] = ()  # environment variables of the user that it needs; `X_*` is a prefix
    sets: dict[str, str] = {}  # environment variables that it always gets
    traps: tuple[KnownTrap, ...] = ()
    # Matches what it prints if it could not start for a temporary reason; the prompt is then sent once more.
    start_failures: str | None = None
    forms: dict[str, str] = {}  # store format -> the protocol that drives a conversation of that format
    history: Callable[[], TranscriptReader] | None = None  # imports the reader of its store when called

    @property
    def token_fields(self) -> tuple[str, ...]:
        """The metadata keys under which other tools keep its token; our metadata never holds one there."""
        stem = "".join(c for c in self.name if c.isalnum() or c in "-_")
        return (f"{stem}SessionId", f"{stem}SessionProtocol")

    def is_native_id(self, value: str) -> bool:
        """Whether a text has the form of this agent's conversation ids.

        Ids come from file names, other tools' databases and agents' streams, so they are not trusted.
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
        """How a conversation of that store format is driven, if that is known."""
        return self.forms.get(form) if self.forms else self.protocols[0]
