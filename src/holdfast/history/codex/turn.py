"""One turn of a rollout while it is read: what is open in it, and what was told twice."""

from __future__ import annotations

import msgspec

from holdfast.history.codex.calls import Call, Ending
from holdfast.model.event import NewEvent

MOST = 100  # things said that wait for their other half


class Told(msgspec.Struct, frozen=True):
    """Something said, as an event tells it beside the item for the model."""

    kind: str
    text: str
    id: str
    event: NewEvent


class Turn(msgspec.Struct):
    """From one prompt to the next."""

    explicit: bool = False  # it began with a record of its own
    number: int = 0  # from 1; 0 while nobody prompted
    begun: bool = False  # something came after the prompt
    answered: bool = False
    answer_last: bool = False  # nothing came after the answer
    ended: str | None = None
    reason: str = ""
    calls: dict[str, Call] = {}
    loose: dict[str, Ending] = {}  # endings of calls that were never begun
    items: list[tuple[str, str]] = []  # said by items, and not yet by events: kind and text
    told: list[Told] = []  # said by events, and not yet by items
    prompts: list[str] = []  # told by events, and put as such

    def by_item(self, kind: str, text: str, id: str) -> None:
        """An item says it; the event that said it before, or will, is the same."""
        kept = [told for told in self.told if not _is_same(told, kind, text, id)]
        if len(kept) == len(self.told):
            self.items.append((kind, text))
            del self.items[:-MOST]
        self.told = kept

    def by_event(self, told: Told) -> None:
        """An event says it; kept until an item says the same, or it is clear that none will."""
        if not self.was_item(told.kind, told.text):
            self.told.append(told)

    def was_item(self, kind: str, text: str) -> bool:
        """Whether an item said it, for which no event came yet."""
        for place, said in enumerate(self.items):
            if said[0] == kind and is_like(said[1], text):
                if kind != "thinking":  # of one item there are several events
                    del self.items[place]
                return True
        return False

    def was_prompt(self, text: str) -> bool:
        """Whether an event told that prompt, for which no item came yet."""
        for place, told in enumerate(self.prompts):
            if is_like(text, told):
                del self.prompts[place]
                return True
        return False

    def flush(self) -> list[NewEvent]:
        """What only events said."""
        events = [told.event for told in self.told]
        self.told = []
        return events


def is_like(item: str, event: str) -> bool:
    """Whether an item's text is what an event told; an event may tell a part, or leave marks out."""
    return item.strip() == event.strip() or event in item


def _is_same(told: Told, kind: str, text: str, id: str) -> bool:
    return told.kind == kind and ((bool(id) and told.id == id) or is_like(text, told.text))
