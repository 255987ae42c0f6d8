"""What is wrong with one hapi session, and whether the plan repairs it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.doctor.plan import DoctorFinding, finding_id
from holdfast.peers.hapi import candidates as candidate
from holdfast.peers.hapi.candidates import Candidate
from holdfast.peers.hapi.flavors import FLAVORS, PROTOCOL
from holdfast.peers.hapi.sessions import HapiSession

ATTEMPTS = ("piResumeAttempt", "ptyResumeAttempt", "opencodeClearOperation")
FINISHED = ("completed", "aborted")  # states of an operation that is not stuck


def session_findings(session: HapiSession, candidates: list[Candidate]) -> list[DoctorFinding]:
    """All findings; a single candidate is a repair, several are left to a person."""
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
        text = f"its metadata is not a readable object: {metadata.problem}"
        return [note("metadata_not_object", text + _how_to_choose(session, candidates), repair, evidence)]
    if metadata.string("path") is None:
        action = repair if any("path" in c.keys for c in candidates) else None
        found.append(
            note(
                "metadata_no_path",
                "its metadata names no folder, so hapi cannot resume it",
                action,
            )
        )
    if session.flavor is None:
        action = repair if any("flavor" in c.keys for c in candidates) else None
        found.append(note("metadata_no_flavor", "its metadata does not name its agent", action))
    elif session.flavor not in FLAVORS:
        text = f"hapi does not know its agent {session.flavor!r} and treats it as claude"
        found.append(note("flavor_unknown", text))
    tokens = metadata.tokens()
    if session.lacks_token:
        found.append(_missing_token(session, note, candidates))
    elif session.token is None and not tokens and session.conversation.count == 0:
        found.append(note("never_started", "it never started: no token and no messages, so nothing is lost"))
    others = sorted(flavor for flavor in tokens if flavor != session.agent)
    if others:
        text = f"it has a token of another agent: {', '.join(others)}"
        found.append(note("token_other_flavor", text, evidence={"tokens": {f: tokens[f] for f in others}}))
    if session.lacks_protocol:
        action = repair if any(PROTOCOL in c.keys for c in candidates) else None
        text = "it has a Cursor id without its protocol; hapi would treat it as one of the older kind"
        found.append(note("cursor_protocol_missing", text, action, evidence))
    return found


def _missing_token(session: HapiSession, note: _FindingBuilder, candidates: list[Candidate]) -> DoctorFinding:
    if session.cleared:
        return note("token_cleared_on_purpose", "the user cleared its conversation; it stays cleared")
    text = f"it has {session.conversation.count} messages and no token to resume its agent with"
    if session.merged:
        text += "; its first messages are older than the session: hapi merged them from a deleted row"
    flavor = FLAVORS.get(session.flavor or "")
    if not candidates and flavor is not None and flavor.agent is None:
        text += f"; its messages do not contain one, and Holdfast cannot read the store of {flavor.name}"
    text += _how_to_choose(session, candidates)
    return note("token_missing", text, _action(candidates), _evidence(candidates))


def _how_to_choose(session: HapiSession, candidates: list[Candidate]) -> str:
    """Why a person must choose the conversation, and how."""
    if not candidates or candidate.only_candidate(candidates) is not None:
        return ""
    how = f"--choose {session.row.id}=TOKEN"
    if len(candidates) > 1:
        return f"; {len(candidates)} conversations match, so choose one: {how}"
    return f"; the only match belongs to {candidates[0].held_by}; if it belongs to both: {how}"


def _about_lifecycle(session: HapiSession) -> list[DoctorFinding]:
    metadata, found = session.metadata, []
    note = _FindingBuilder(session)
    state = metadata.fields.get("lifecycleState")
    if state == "running" and not session.alive:
        who = {"host": metadata.fields.get("host"), "pid": metadata.fields.get("hostPid")}
        found.append(
            note(
                "ghost_running",
                "it is marked as running, but its process is gone; archive it in hapi",
                evidence=who,
            )
        )
    if state == "archived" and session.token and metadata.string("path"):
        found.append(note("archived_resumable", "it is archived and can be resumed; reopen it in hapi"))
    for key in ATTEMPTS:
        attempt = metadata.fields.get(key)
        if isinstance(attempt, dict) and attempt.get("state") not in FINISHED:
            text = f"{key} was started and never finished (state {attempt.get('state')!r})"
            found.append(note("stuck_attempt", text, part=key, evidence={key: attempt}))
    if session.superseded_gone is not None:
        text = f"it was replaced by {session.superseded_gone}, which does not exist"
        found.append(note("superseded_gone", text))
    return found


def _about_messages(session: HapiSession) -> list[DoctorFinding]:
    conversation, note = session.conversation, _FindingBuilder(session)
    cases = (
        (
            "token_replaced",
            conversation.replaced,
            "a resume failed, and hapi replaced its token with that of a new conversation",
        ),
        (
            "prompt_without_reply",
            conversation.unanswered,
            "a prompt was marked as delivered and got no reply: send it again",
        ),
        ("prompt_failed", conversation.failed, "a prompt got only an error as its reply: send it again"),
        ("prompt_queued", conversation.queued, "a prompt is waiting for delivery"),
        ("prompt_scheduled", conversation.scheduled, "a prompt is waiting for its scheduled time"),
    )
    found = [
        note(code, text, evidence={"messages": list(messages)}) for code, messages, text in cases if messages
    ]
    if conversation.unread:
        text = f"{conversation.unread} of its messages cannot be read"
        found.append(note("message_unreadable", text, evidence={"messages": conversation.unreadable}))
    return found


class _FindingBuilder:
    """Builds findings about one session."""

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
            code=code,
            subject=self._subject,
            text=text,
            action=action,
            evidence=evidence or {},
            id=finding_id(code, self._subject, part),
        )


def _action(candidates: list[Candidate]) -> str | None:
    chosen = candidate.only_candidate(candidates)
    if chosen is None:
        return None
    return (
        f"set {', '.join(f'{key} to {value}' for key, value in chosen.keys.items())} (from {chosen.source})"
    )


def _evidence(candidates: list[Candidate]) -> dict[str, Any]:
    return {"candidates": [msgspec.to_builtins(c) for c in candidates]} if candidates else {}
