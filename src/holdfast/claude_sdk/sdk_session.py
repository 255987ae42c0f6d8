"""The SDK session that one of our sessions stores, as its metadata records it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.model.session import Session

FIELD = "claude_sdk"
LONGEST_SUMMARY = 64 * 1024  # characters; a longer one is computed again whenever it is needed


class SdkSubkey(msgspec.Struct, frozen=True):
    """A transcript beside the main one, such as a subagent's."""

    live: bool
    generation: int  # how often it was deleted; entries of an older generation are not loaded


class SdkSession(msgspec.Struct, frozen=True, kw_only=True):
    """Which SDK session it is, and which transcripts it has."""

    project: str
    session: str
    main: bool = False  # the main transcript has entries
    summary: str | None = None  # the SDK's own, as JSON; None if it was too long
    subkeys: dict[str, SdkSubkey] = {}

    def holds(self, subpath: str) -> bool:
        """Whether a transcript has entries and was not deleted since."""
        return self.main if not subpath else subpath in self.subkeys and self.subkeys[subpath].live

    def generation(self, subpath: str) -> int:
        """The generation of a transcript's entries."""
        return self.subkeys[subpath].generation if subpath in self.subkeys else 0

    def metadata(self) -> dict[str, Any]:
        """The metadata of a new session."""
        return {FIELD: msgspec.to_builtins(self)}

    def patch_since(self, before: SdkSession) -> dict[str, Any]:
        """The merge patch from `before` to this state; empty if they are equal."""
        changed: dict[str, Any] = {}
        if self.main != before.main:
            changed["main"] = self.main
        if self.summary != before.summary:
            changed["summary"] = self.summary
        subkeys = {path: sub for path, sub in self.subkeys.items() if before.subkeys.get(path) != sub}
        if subkeys:
            changed["subkeys"] = msgspec.to_builtins(subkeys)
        return {FIELD: changed} if changed else {}

    def with_summary(self, summary: str) -> SdkSession:
        """The state after entries were added to the main transcript."""
        kept = summary if len(summary) <= LONGEST_SUMMARY else None
        return msgspec.structs.replace(self, main=True, summary=kept)

    def with_subkey(self, subpath: str) -> SdkSession:
        """The state after entries were added to another transcript."""
        if self.holds(subpath):
            return self
        sub = SdkSubkey(True, self.generation(subpath))
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})

    def without_subkey(self, subpath: str) -> SdkSession:
        """The state after another transcript was deleted."""
        if not self.holds(subpath):
            return self
        sub = SdkSubkey(False, self.generation(subpath) + 1)
        return msgspec.structs.replace(self, subkeys={**self.subkeys, subpath: sub})


def sdk_session(session: Session) -> SdkSession | None:
    """The SDK session that one of our sessions stores; None if it stores none."""
    stored = (session.metadata or {}).get(FIELD)
    try:
        return msgspec.convert(stored, type=SdkSession)
    except msgspec.ValidationError:
        return None


def session_key(project: str, session: str) -> str:
    """Our key of an SDK session; it is unique."""
    return f"{key_prefix(project)}{_quoted(session)}"


def key_prefix(project: str) -> str:
    """The common prefix of the keys of a project's sessions."""
    return f"claude-sdk:{_quoted(project)}:"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass")
