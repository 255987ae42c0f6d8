"""Which messages of one Codex turn are recorded twice, as an item and as an event?"""

from __future__ import annotations

import msgspec

from holdfast.agents.codex.tool_calls import CodexCallResult, CodexToolCall
from holdfast.model.event import NewEvent

MOST = 100  # how many messages wait for their counterpart


class PendingMessage(msgspec.Struct, frozen=True):
    """A message of an event record that waits for the same message as an item."""

    kind: str
    text: str
    id: str
    event: NewEvent


class CodexTurn(msgspec.Struct):
    """From one prompt to the next."""

    explicit: bool = False  # it began with a record of its own
    number: int = 0  # from 1; 0 before the first prompt
    begun: bool = False  # something came after the prompt
    answered: bool = False
    answer_last: bool = False  # nothing came after the answer
    ended: str | None = None
    reason: str = ""
    calls: dict[str, CodexToolCall] = {}
    loose: dict[str, CodexCallResult] = {}  # results of calls without a start
    items: list[tuple[str, str]] = []  # messages in items, not yet in events: kind and text
    pending: list[PendingMessage] = []  # messages in events, not yet in items
    prompts: list[str] = []  # prompts that were emitted from events

    def by_item(self, kind: str, text: str, id: str) -> None:
        """An item holds this message. Skip it if an event already held it."""
        remaining = [message for message in self.pending if not _is_same(message, kind, text, id)]
        if len(remaining) == len(self.pending):
            self.items.append((kind, text))
            del self.items[:-MOST]
        self.pending = remaining

    def by_event(self, message: PendingMessage) -> None:
        """An event holds this message. Keep it until an item holds the same, or none can follow."""
        if not self.was_item(message.kind, message.text):
            self.pending.append(message)

    def was_item(self, kind: str, text: str) -> bool:
        """Whether an item held this message and no event has matched it yet."""
        for index, item in enumerate(self.items):
            if item[0] == kind and is_like(item[1], text):
                if kind != "thinking":  # one item matches several events
                    del self.items[index]
                return True
        return False

    def was_prompt(self, text: str) -> bool:
        """Whether an event held this prompt and no item has matched it yet."""
        for index, prompt in enumerate(self.prompts):
            if is_like(text, prompt):
                del self.prompts[index]
                return True
        return False

    def flush(self) -> list[NewEvent]:
        """The messages that only events hold."""
        events = [message.event for message in self.pending]
        self.pending = []
        return events


def is_like(item: str, event: str) -> bool:
    """Whether an item and an event hold the same text; an event may hold a part, or omit markup."""
    return item.strip() == event.strip() or event in item


def _is_same(message: PendingMessage, kind: str, text: str, id: str) -> bool:
    return message.kind == kind and ((bool(id) and message.id == id) or is_like(text, message.text))
