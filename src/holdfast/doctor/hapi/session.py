"""All that is known of one session of hapi's, before anything is said about it."""

from __future__ import annotations

import msgspec

from holdfast.doctor.hapi.story import Story
from holdfast.history.hapi.database import Row
from holdfast.history.hapi.flavor import FLAVORS, PROTOCOL, PROTOCOLS
from holdfast.history.hapi.metadata import Metadata

CLEARED = "Cleared by /clear"
IMPORTED = ("forkedFrom", "codexSourceSessionId", "piImportState")  # such a row may have older messages


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Its row, its messages, and what the rest of the install says about it."""

    row: Row
    metadata: Metadata
    story: Story
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
