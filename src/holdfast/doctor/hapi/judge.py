"""What is wrong with one session of hapi's, told from its row and its messages alone."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.doctor.finding import Finding
from holdfast.doctor.hapi.story import Story
from holdfast.history.hapi.database import Row
from holdfast.history.hapi.flavor import FLAVORS, PROTOCOL, PROTOCOLS
from holdfast.history.hapi.metadata import Metadata

CLEARED = "Cleared by /clear"
ATTEMPTS = ("piResumeAttempt", "ptyResumeAttempt", "opencodeClearOperation")
OVER = ("completed", "aborted")  # states of an operation that is not stuck

IMPORTED = (
    "forkedFrom",
    "codexSourceSessionId",
    "piImportState",
)  # messages older than the row are no wonder
CHOICE = "choice"

Keys = dict[str, str]


class Candidate(msgspec.Struct, frozen=True):
    """One way to mend a session's metadata, and what speaks for it."""

    keys: Keys
    source: str  # `messages`, `native store`, `its token`, `choice`
    path: str = ""  # of a native store
    held_by: str = ""  # another session that has this token already


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one session, before it is judged."""

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
    def token(self) -> str | None:
        """The token that hapi would resume it with."""
        known = FLAVORS.get(self.flavor or "claude")
        return self.metadata.string(known.token) if known is not None and known.token else None

    @property
    def lacks_token(self) -> bool:
        """Whether it talked with an agent and cannot be gone on with."""
        known = FLAVORS.get(self.flavor or "claude")
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


def from_messages(session: Session) -> list[Candidate]:
    """What the session's own messages say that its metadata lacks; several where they disagree."""
    story = session.story
    named = {"claude": story.claude, "codex": story.codex}
    found = []
    for flavor in [session.flavor] if session.flavor else list(named):
        token = FLAVORS[flavor].token if flavor in FLAVORS else None
        for name in sorted(named.get(flavor, {}), key=lambda n: -named[flavor][n]):
            keys = {str(token): name}
            if session.flavor is None:
                keys["flavor"] = flavor
            if session.metadata.string("path") is None and len(story.cwds) == 1:
                keys["path"] = next(iter(story.cwds))
                if session.host is not None and not isinstance(session.metadata.fields.get("host"), str):
                    keys["host"] = session.host  # hapi reads no metadata that has a path and no host
            found.append(Candidate(keys, "messages"))
    return found


def from_tokens(session: Session) -> list[Candidate]:
    """The flavor of a session that names none, if it has exactly one token."""
    tokens = session.metadata.tokens()
    if session.flavor is None and len(tokens) == 1:
        return [Candidate({"flavor": next(iter(tokens))}, "its token")]
    return []


def chosen(candidates: list[Candidate], token: str) -> list[Candidate]:
    """The one that a person chose; all of them if it is none of these."""
    picked = [c for c in candidates if token in c.keys.values()]
    return [replace(c, source=CHOICE) for c in picked[:1]] or candidates


def only(candidates: list[Candidate]) -> Candidate | None:
    """The one that may be taken without asking."""
    return candidates[0] if len(candidates) == 1 and not candidates[0].held_by else None


def findings(session: Session, candidates: list[Candidate]) -> list[Finding]:
    """What to tell; one candidate is a repair, several are left to a person."""
    found = _about_metadata(session, candidates)
    found += _about_lifecycle(session)
    found += _about_messages(session)
    return found


def _about_metadata(session: Session, candidates: list[Candidate]) -> list[Finding]:
    metadata, found = session.metadata, []
    note = _Note(session)
    repair = _action(candidates)
    evidence = _evidence(candidates)
    if not metadata.is_object:
        text = f"its metadata is no object that can be read: {metadata.problem}"
        return [note("metadata_not_object", text + _asks(session, candidates), repair, evidence)]
    if metadata.string("path") is None:
        action = repair if any("path" in c.keys for c in candidates) else None
        found.append(
            note(
                "metadata_no_path",
                "its metadata names no folder to run in, so hapi will not resume it",
                action,
            )
        )
    if session.flavor is None:
        action = repair if any("flavor" in c.keys for c in candidates) else None
        found.append(note("metadata_no_flavor", "its metadata does not say which agent it is of", action))
    elif session.flavor not in FLAVORS:
        text = f"its agent {session.flavor!r} is none that hapi has; hapi takes it for claude"
        found.append(note("flavor_unknown", text))
    tokens = metadata.tokens()
    if session.lacks_token:
        found.append(_lacking(session, note, candidates))
    elif session.token is None and not tokens and session.story.count == 0:
        found.append(note("never_started", "it never began: no token and no messages, so nothing is lost"))
    others = sorted(flavor for flavor in tokens if flavor != (session.flavor or "claude"))
    if others:
        text = f"it has a token of another agent: {', '.join(others)}"
        found.append(note("token_other_flavor", text, evidence={"tokens": {f: tokens[f] for f in others}}))
    if session.lacks_protocol:
        action = repair if any(PROTOCOL in c.keys for c in candidates) else None
        text = "it has a Cursor id without its protocol; hapi would take it for one of the older kind"
        found.append(note("cursor_protocol_missing", text, action, evidence))
    return found


def _lacking(session: Session, note: _Note, candidates: list[Candidate]) -> Finding:
    if session.cleared:
        return note("token_cleared_on_purpose", "its conversation was cleared by the user; it stays cleared")
    text = f"it has {session.story.count} messages and no token of its agent to go on with"
    if session.merged:
        text += "; its first messages are older than itself: it was merged from a row that is gone"
    known = FLAVORS.get(session.flavor or "")
    if not candidates and known is not None and known.agent is None:
        text += f"; its messages do not tell it, and the store of {known.name} is none that we can read"
    text += _asks(session, candidates)
    return note("token_missing", text, _action(candidates), _evidence(candidates))


def _asks(session: Session, candidates: list[Candidate]) -> str:
    """Why a person must say which conversation it is, and how."""
    if not candidates or only(candidates) is not None:
        return ""
    how = f"--choose {session.row.id}=TOKEN"
    if len(candidates) > 1:
        return f"; {len(candidates)} conversations could be meant, so a person must say which: {how}"
    return f"; the one that could be meant is that of {candidates[0].held_by}; if it is of both: {how}"


def _about_lifecycle(session: Session) -> list[Finding]:
    metadata, found = session.metadata, []
    note = _Note(session)
    state = metadata.fields.get("lifecycleState")
    if state == "running" and not session.alive:
        who = {"host": metadata.fields.get("host"), "pid": metadata.fields.get("hostPid")}
        found.append(
            note(
                "ghost_running",
                "it is marked as running and nobody is there; hapi can archive it",
                evidence=who,
            )
        )
    if state == "archived" and session.token and metadata.string("path"):
        found.append(
            note("archived_resumable", "it is archived and could be gone on with; hapi can reopen it")
        )
    for key in ATTEMPTS:
        attempt = metadata.fields.get(key)
        if isinstance(attempt, dict) and attempt.get("state") not in OVER:
            text = f"{key} was begun and never ended (state {attempt.get('state')!r})"
            found.append(note("stuck_attempt", text, part=key, evidence={key: attempt}))
    if session.superseded_gone is not None:
        text = f"it was replaced by {session.superseded_gone}, which is not there"
        found.append(note("superseded_gone", text))
    return found


def _about_messages(session: Session) -> list[Finding]:
    story, note = session.story, _Note(session)
    told = (
        (
            "token_replaced",
            story.replaced,
            "a resume failed, and hapi replaced its token by that of a new conversation",
        ),
        (
            "prompt_without_reply",
            story.unanswered,
            "a prompt was marked as delivered and nothing came after it: send it again",
        ),
        ("prompt_failed", story.failed, "a prompt was answered by an error only: send it again"),
        ("prompt_queued", story.queued, "a prompt waits to be delivered"),
        ("prompt_scheduled", story.scheduled, "a prompt waits for its time"),
    )
    found = [note(code, text, evidence={"messages": list(which)}) for code, which, text in told if which]
    if story.unread:
        text = f"{story.unread} of its messages cannot be read"
        found.append(note("message_unreadable", text, evidence={"messages": story.unreadable}))
    return found


class _Note:
    """Makes findings about one session."""

    def __init__(self, session: Session):
        self._subject = session.row.id

    def __call__(
        self,
        code: str,
        text: str,
        action: str | None = None,
        evidence: dict[str, Any] | None = None,
        part: str = "",
    ) -> Finding:
        return Finding(
            code=code, subject=self._subject, text=text, action=action, evidence=evidence or {}, part=part
        )


def _action(candidates: list[Candidate]) -> str | None:
    one = only(candidates)
    if one is None:
        return None
    return f"set {', '.join(f'{key} to {value}' for key, value in one.keys.items())} (from {one.source})"


def _evidence(candidates: list[Candidate]) -> dict[str, Any]:
    return {"candidates": [msgspec.to_builtins(c) for c in candidates]} if candidates else {}
