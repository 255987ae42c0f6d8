"""All that is known of one session of hapi's, before anything is said about it."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable

import msgspec

from holdfast.peers.hapi import database as content
from holdfast.peers.hapi.database import (
    FLAVORS,
    PROTOCOL,
    PROTOCOLS,
    HapiMessage,
    HapiMessageRow,
    HapiSessionRow,
)
from holdfast.peers.hapi.metadata import HapiMetadata

RESET = "Context was reset"
REPLACED = "resume failed; starting a new session"
DROPPED = "Dropping the queued message"
COMMAND = re.compile(r"/[\w-]+")  # to hapi or to the agent's program, as `/clear`
KEPT = 200  # prompts whose text is kept, the last ones
MOST_TEXT = 4000  # characters of a prompt that are kept


class HapiConversation:
    """What the messages of one session say together; its size does not grow with their number."""

    def __init__(self, messages: Iterable[HapiMessageRow] = ()):
        self.count = 0
        self.unreadable: list[int] = []  # the first few
        self.unread = 0
        self.claude: dict[str, int] = {}  # id: the last message that names it
        self.cwds: set[str] = set()
        self._threads: dict[str | None, dict[str, int]] = {}  # by the role that each is told to have
        self._prompts: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self.was_reset = False
        self.replaced: list[str] = []
        self.unanswered: list[int] = []  # delivered from the queue, and nothing after them
        self.failed: list[int] = []  # answered by errors only
        self.queued: list[int] = []
        self.scheduled: list[int] = []
        self.first_at: int | None = None
        self.digest = hashlib.sha256()
        self._asked: int | None = None
        self._error = False
        for message in messages:
            self._add(message)
        self._settle()

    @property
    def prompts(self) -> list[str]:
        """What the agent must know that it was asked: no commands, nothing that never reached it."""
        lost = {*self.unanswered, *self.failed}
        return [text for seq, text in self._prompts if seq not in lost and not COMMAND.fullmatch(text)]

    def ids(self) -> dict[str, dict[str, int]]:
        """By flavor: the conversations that it may be of, each with the last message that names it."""
        return {"claude": self.claude, "codex": self.codex}

    @property
    def codex(self) -> dict[str, int]:
        """The Codex threads that it may be of: those called its own, else those of which nothing is told."""
        subagents = self._threads.get("other", {})
        unsaid = {name: at for name, at in self._threads.get(None, {}).items() if name not in subagents}
        return self._threads.get("parent") or unsaid

    def _add(self, message: HapiMessageRow) -> None:
        self.count += 1
        self.digest.update(b"%d %d " % (message.seq, len(message.content)))
        self.digest.update(message.content)
        self.first_at = (
            message.created_at if self.first_at is None else min(self.first_at, message.created_at)
        )
        try:
            said = content.read_content(message.content)
        except content.UnreadableContent:
            self.unread += 1
            self.unreadable = [*self.unreadable, message.seq][:5]
            return
        if said.kind == "prompt":
            self._prompt(message, said)
        else:
            self._reply(message, said)

    def _prompt(self, message: HapiMessageRow, said: HapiMessage) -> None:
        if message.local_id is not None and message.invoked_at is None:
            (self.queued if message.scheduled_at is None else self.scheduled).append(message.seq)
            return
        if text := said.text.strip()[:MOST_TEXT]:
            self._prompts.append((message.seq, text))
        self._settle()
        self._asked = message.seq
        if message.local_id is not None and message.invoked_at is not None:
            self.unanswered.append(message.seq)

    def _reply(self, message: HapiMessageRow, said: HapiMessage) -> None:
        self.unanswered.clear()
        if said.kind == "error" or DROPPED in said.text:
            self._error = True
        elif said.kind == "reply":
            self._asked = None
        if said.kind == "event" and said.text == RESET:
            self.was_reset = True
            self.claude.clear()
            self._threads.clear()
        if said.kind != "reply" and REPLACED in said.text:
            self.replaced.append(said.text)
        if said.own_turn and said.claude:
            self.claude[said.claude] = message.seq
        if said.codex:
            self._threads.setdefault(said.role, {})[said.codex] = message.seq
        if said.own_turn and said.cwd:
            self.cwds.add(said.cwd)

    def _settle(self) -> None:
        if self._asked is not None and self._error:
            self.failed.append(self._asked)
        self._asked, self._error = None, False


# --- All that is known of one session of hapi's, before anything is said about it.

CLEARED = "Cleared by /clear"
IMPORTED = ("forkedFrom", "codexSourceSessionId", "piImportState")  # such a row may have older messages


class HapiSession(msgspec.Struct, frozen=True, kw_only=True):
    """Its row, its messages, and what the rest of the install says about it."""

    row: HapiSessionRow
    metadata: HapiMetadata
    story: HapiConversation
    alive: bool = False  # its wrapper runs, as far as can be told here
    superseded_gone: str | None = None  # the session that it says it was replaced by, if that is not there
    host: str | None = None  # where it must have run, because all of the install did

    @property
    def flavor(self) -> str | None:
        """The agent that the metadata names."""
        return self.metadata.string("flavor")

    @property
    def agent(self) -> str:
        """Whose it is, as far as its metadata tell; else as hapi takes it."""
        return self.metadata.agent or "claude"

    @property
    def token(self) -> str | None:
        """The token of its agent."""
        return self.metadata.tokens().get(self.agent)

    @property
    def lacks_token(self) -> bool:
        """Whether it talked with an agent and cannot be gone on with."""
        known = FLAVORS.get(self.agent)
        can = known is not None and known.token is not None
        return self.metadata.is_object and can and self.token is None and self.story.count > 0

    @property
    def lacks_protocol(self) -> bool:
        """Whether it has a Cursor id and does not say of which kind."""
        told = self.metadata.fields.get(PROTOCOL)
        return self.flavor == "cursor" and self.token is not None and told not in PROTOCOLS

    @property
    def merged(self) -> bool:
        """Whether it holds messages of a row that hapi merged into it and deleted."""
        first = self.story.first_at
        older = first is not None and 0 < first < self.row.created_at
        return older and not any(key in self.metadata.fields for key in IMPORTED)

    @property
    def cleared(self) -> bool:
        """Whether the user wanted the conversation to be forgotten, and none was begun since."""
        told = self.metadata.fields.get("archiveReason") == CLEARED
        return told or (self.story.was_reset and not self.story.claude and not self.story.codex)
