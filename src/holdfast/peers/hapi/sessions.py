"""What is known about one hapi session: its row, its messages, and the rest of the install."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable

import msgspec

from holdfast.peers.hapi import message_content
from holdfast.peers.hapi.database import HapiMessageRow, HapiSessionRow
from holdfast.peers.hapi.flavors import FLAVORS, PROTOCOL, PROTOCOLS
from holdfast.peers.hapi.message_content import HapiMessage
from holdfast.peers.hapi.metadata import HapiMetadata

RESET = "Context was reset"
REPLACED = "resume failed; starting a new session"
DROPPED = "Dropping the queued message"
COMMAND = re.compile(r"/[\w-]+")  # to hapi or to the agent's program, such as `/clear`
MAX_PROMPTS = 200  # prompts whose text is kept, the last ones
MAX_TEXT = 4000  # characters of a prompt that are kept


class HapiConversation:
    """What the messages of one session contain; its size does not grow with their number."""

    def __init__(self, messages: Iterable[HapiMessageRow] = ()):
        self.count = 0
        self.unreadable: list[int] = []  # the first few
        self.unread = 0
        self.claude: dict[str, int] = {}  # id: the last message that names it
        self.cwds: set[str] = set()
        self._threads: dict[str | None, dict[str, int]] = {}  # by their recorded role
        self._prompts: deque[tuple[int, str]] = deque(maxlen=MAX_PROMPTS)
        self.was_reset = False
        self.replaced: list[str] = []
        self.unanswered: list[int] = []  # delivered from the queue, with no reply
        self.failed: list[int] = []  # with only errors as reply
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
        """The prompts that reached the agent, without commands."""
        lost = {*self.unanswered, *self.failed}
        return [text for seq, text in self._prompts if seq not in lost and not COMMAND.fullmatch(text)]

    def ids(self) -> dict[str, dict[str, int]]:
        """By flavor: the conversations it may belong to, each with the last message that names it."""
        return {"claude": self.claude, "codex": self.codex}

    @property
    def codex(self) -> dict[str, int]:
        """The Codex threads it may belong to: those recorded as its own, otherwise those without a role."""
        subagents = self._threads.get("other", {})
        unknown = {name: at for name, at in self._threads.get(None, {}).items() if name not in subagents}
        return self._threads.get("parent") or unknown

    def _add(self, message: HapiMessageRow) -> None:
        self.count += 1
        self.digest.update(b"%d %d " % (message.seq, len(message.content)))
        self.digest.update(message.content)
        self.first_at = (
            message.created_at if self.first_at is None else min(self.first_at, message.created_at)
        )
        try:
            content = message_content.read_content(message.content)
        except message_content.UnreadableContent:
            self.unread += 1
            self.unreadable = [*self.unreadable, message.seq][:5]
            return
        if content.kind == "prompt":
            self._prompt(message, content)
        else:
            self._reply(message, content)

    def _prompt(self, message: HapiMessageRow, content: HapiMessage) -> None:
        if message.local_id is not None and message.invoked_at is None:
            (self.queued if message.scheduled_at is None else self.scheduled).append(message.seq)
            return
        if text := content.text.strip()[:MAX_TEXT]:
            self._prompts.append((message.seq, text))
        self._settle()
        self._asked = message.seq
        if message.local_id is not None and message.invoked_at is not None:
            self.unanswered.append(message.seq)

    def _reply(self, message: HapiMessageRow, content: HapiMessage) -> None:
        self.unanswered.clear()
        if content.kind == "error" or DROPPED in content.text:
            self._error = True
        elif content.kind == "reply":
            self._asked = None
        if content.kind == "event" and content.text == RESET:
            self.was_reset = True
            self.claude.clear()
            self._threads.clear()
        if content.kind != "reply" and REPLACED in content.text:
            self.replaced.append(content.text)
        if content.own_turn and content.claude:
            self.claude[content.claude] = message.seq
        if content.codex:
            self._threads.setdefault(content.role, {})[content.codex] = message.seq
        if content.own_turn and content.cwd:
            self.cwds.add(content.cwd)

    def _settle(self) -> None:
        if self._asked is not None and self._error:
            self.failed.append(self._asked)
        self._asked, self._error = None, False


CLEARED = "Cleared by /clear"
IMPORTED = ("forkedFrom", "codexSourceSessionId", "piImportState")  # such a row may have older messages


class HapiSession(msgspec.Struct, frozen=True, kw_only=True):
    """Its row, its messages, and what the rest of the install shows about it."""

    row: HapiSessionRow
    metadata: HapiMetadata
    conversation: HapiConversation
    alive: bool = False  # its wrapper runs, as far as is known here
    superseded_gone: str | None = None  # the session that replaced it, if that does not exist
    host: str | None = None  # where it must have run, because the whole install did

    @property
    def flavor(self) -> str | None:
        """The agent that the metadata names."""
        return self.metadata.string("flavor")

    @property
    def agent(self) -> str:
        """Its agent: the named one, otherwise the one that hapi assumes."""
        return self.metadata.agent or "claude"

    @property
    def token(self) -> str | None:
        """The token of its agent."""
        return self.metadata.tokens().get(self.agent)

    @property
    def lacks_token(self) -> bool:
        """Whether it has messages and no token to resume with."""
        flavor = FLAVORS.get(self.agent)
        can = flavor is not None and flavor.token is not None
        return self.metadata.is_object and can and self.token is None and self.conversation.count > 0

    @property
    def lacks_protocol(self) -> bool:
        """Whether it has a Cursor id without a known protocol."""
        protocol = self.metadata.fields.get(PROTOCOL)
        return self.flavor == "cursor" and self.token is not None and protocol not in PROTOCOLS

    @property
    def merged(self) -> bool:
        """Whether it has messages of a row that hapi merged into it and deleted."""
        first = self.conversation.first_at
        older = first is not None and 0 < first < self.row.created_at
        return older and not any(key in self.metadata.fields for key in IMPORTED)

    @property
    def cleared(self) -> bool:
        """Whether the user cleared the conversation, and none started since."""
        was_cleared = self.metadata.fields.get("archiveReason") == CLEARED
        return was_cleared or (
            self.conversation.was_reset and not self.conversation.claude and not self.conversation.codex
        )
