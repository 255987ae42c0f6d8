"""What is wrong with one session of hapi's, and whether that is mended."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.doctor.plan import DoctorFinding
from holdfast.peers.hapi import candidates as candidate
from holdfast.peers.hapi.candidates import Candidate
from holdfast.peers.hapi.database import FLAVORS, PROTOCOL
from holdfast.peers.hapi.sessions import HapiSession

ATTEMPTS = ("piResumeAttempt", "ptyResumeAttempt", "opencodeClearOperation")
OVER = ("completed", "aborted")  # states of an operation that is not stuck


def session_findings(session: HapiSession, candidates: list[Candidate]) -> list[DoctorFinding]:
    """What to tell; one candidate is a repair, several are left to a person."""
    found = _about_metadata(session, candidates)
    found += _about_lifecycle(session)
    found += _about_messages(session)
    return found


def _about_metadata(session: HapiSession, candidates: list[Candidate]) -> list[DoctorFinding]:
    metadata, found = session.metadata, []
    note = _FindingBuilder(session)
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
    others = sorted(flavor for flavor in tokens if flavor != session.agent)
    if others:
        text = f"it has a token of another agent: {', '.join(others)}"
        found.append(note("token_other_flavor", text, evidence={"tokens": {f: tokens[f] for f in others}}))
    if session.lacks_protocol:
        action = repair if any(PROTOCOL in c.keys for c in candidates) else None
        text = "it has a Cursor id without its protocol; hapi would take it for one of the older kind"
        found.append(note("cursor_protocol_missing", text, action, evidence))
    return found


def _lacking(session: HapiSession, note: _FindingBuilder, candidates: list[Candidate]) -> DoctorFinding:
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


def _asks(session: HapiSession, candidates: list[Candidate]) -> str:
    """Why a person must say which conversation it is, and how."""
    if not candidates or candidate.only_candidate(candidates) is not None:
        return ""
    how = f"--choose {session.row.id}=TOKEN"
    if len(candidates) > 1:
        return f"; {len(candidates)} conversations could be meant, so a person must say which: {how}"
    return f"; the one that could be meant is that of {candidates[0].held_by}; if it is of both: {how}"


def _about_lifecycle(session: HapiSession) -> list[DoctorFinding]:
    metadata, found = session.metadata, []
    note = _FindingBuilder(session)
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


def _about_messages(session: HapiSession) -> list[DoctorFinding]:
    story, note = session.story, _FindingBuilder(session)
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


class _FindingBuilder:
    """Makes findings about one session."""

    def __init__(self, session: HapiSession):
        self._subject = session.row.id

    def __call__(
        self,
        code: str,
        text: str,
        action: str | None = None,
        evidence: dict[str, Any] | None = None,
        part: str = "",
    ) -> DoctorFinding:
        return DoctorFinding(
            code=code, subject=self._subject, text=text, action=action, evidence=evidence or {}, part=part
        )


def _action(candidates: list[Candidate]) -> str | None:
    one = candidate.only_candidate(candidates)
    if one is None:
        return None
    return f"set {', '.join(f'{key} to {value}' for key, value in one.keys.items())} (from {one.source})"


def _evidence(candidates: list[Candidate]) -> dict[str, Any]:
    return {"candidates": [msgspec.to_builtins(c) for c in candidates]} if candidates else {}
