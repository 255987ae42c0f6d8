"""One pass over a session's messages: what they prove about it."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterable

from holdfast.history.hapi import content
from holdfast.history.hapi.content import Said
from holdfast.history.hapi.database import Message

RESET = "Context was reset"
REPLACED = "resume failed; starting a new session"
DROPPED = "Dropping the queued message"
COMMAND = re.compile(r"/[\w-]+")  # to hapi or to the agent's program, as `/clear`
KEPT = 200  # prompts whose text is kept, the last ones
MOST_TEXT = 4000  # characters of a prompt that are kept


class Story:
    """What the messages of one session say together; its size does not grow with their number."""

    def __init__(self, messages: Iterable[Message] = ()):
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

    def _add(self, message: Message) -> None:
        self.count += 1
        self.digest.update(b"%d %d " % (message.seq, len(message.content)))
        self.digest.update(message.content)
        self.first_at = (
            message.created_at if self.first_at is None else min(self.first_at, message.created_at)
        )
        try:
            said = content.read(message.content)
        except content.Unreadable:
            self.unread += 1
            self.unreadable = [*self.unreadable, message.seq][:5]
            return
        if said.kind == "prompt":
            self._prompt(message, said)
        else:
            self._reply(message, said)

    def _prompt(self, message: Message, said: Said) -> None:
        if message.local_id is not None and message.invoked_at is None:
            (self.queued if message.scheduled_at is None else self.scheduled).append(message.seq)
            return
        if text := said.text.strip()[:MOST_TEXT]:
            self._prompts.append((message.seq, text))
        self._settle()
        self._asked = message.seq
        if message.local_id is not None and message.invoked_at is not None:
            self.unanswered.append(message.seq)

    def _reply(self, message: Message, said: Said) -> None:
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
