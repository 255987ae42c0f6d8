"""What a session's metadata says of the SDK session that is kept in it: values in, values out."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.model.session import Session

FIELD = "claude_sdk"
LONGEST_SUMMARY = 64 * 1024  # characters; a longer one is folded again whenever it is asked for


class Subkey(msgspec.Struct, frozen=True):
    """A transcript beside the main one, such as a subagent's."""

    live: bool
    generation: int  # how often it was deleted; entries of an older generation are not loaded


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """Which SDK session it is, and what is there of it."""

    project: str
    session: str
    main: bool = False  # the main transcript was written
    summary: str | None = None  # the SDK's own, as JSON; None if it was too long
    subkeys: dict[str, Subkey] = {}

    def holds(self, subpath: str) -> bool:
        """Whether that transcript was written, and not deleted since."""
        return self.main if not subpath else subpath in self.subkeys and self.subkeys[subpath].live

    def generation(self, subpath: str) -> int:
        """The generation of that transcript's entries."""
        return self.subkeys[subpath].generation if subpath in self.subkeys else 0

    def metadata(self) -> dict[str, Any]:
        """All of it, for a new session."""
        return {FIELD: msgspec.to_builtins(self)}

    def patch_since(self, before: Shelf) -> dict[str, Any]:
        """The merge patch that makes this of `before`; empty if they are the same."""
        changed: dict[str, Any] = {}
        if self.main != before.main:
            changed["main"] = self.main
        if self.summary != before.summary:
            changed["summary"] = self.summary
        subkeys = {path: sub for path, sub in self.subkeys.items() if before.subkeys.get(path) != sub}
        if subkeys:
            changed["subkeys"] = msgspec.to_builtins(subkeys)
        return {FIELD: changed} if changed else {}

    def with_summary(self, summary: str) -> Shelf:
        """After more was written to the main transcript."""
        kept = summary if len(summary) <= LONGEST_SUMMARY else None
        return msgspec.structs.replace(self, main=True, summary=kept)

    def with_subkey(self, subpath: str) -> Shelf:
        """After something was written to that transcript."""
        if self.holds(subpath):
            return self
        sub = Subkey(True, self.generation(subpath))
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})

    def without_subkey(self, subpath: str) -> Shelf:
        """After that transcript was deleted."""
        if not self.holds(subpath):
            return self
        sub = Subkey(False, self.generation(subpath) + 1)
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})


def of(session: Session) -> Shelf | None:
    """The shelf that a session is; None if it is none."""
    told = (session.metadata or {}).get(FIELD)
    try:
        return msgspec.convert(told, type=Shelf)
    except msgspec.ValidationError:
        return None


def key(project: str, session: str) -> str:
    """Our key of an SDK session; no two of them have the same."""
    return f"{prefix(project)}{_quoted(session)}"


def prefix(project: str) -> str:
    """What the keys of all sessions of a project begin with."""
    return f"claude-sdk:{_quoted(project)}:"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")
