"""The views of a log: sessions, tokens and tasks are what `fold` makes of its records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.errors import StoreUnreadable
from holdfast.model import changes as c
from holdfast.model.event import CONVERSATION, Record
from holdfast.model.json_codec import decode_as
from holdfast.model.session import ArchiveNote, Deletion, Session
from holdfast.model.task import ENDED, Task
from holdfast.model.token import Status, Token

replace = msgspec.structs.replace


class View(msgspec.Struct, frozen=True):
    """What a log has come to."""

    session: Session | None = None
    tokens: tuple[Token, ...] = ()
    tasks: dict[str, Task] = {}


def fold(session_id: str, records: Iterable[Record], view: View | None = None) -> View:
    """The view after these records, going on from `view`."""
    view = view or View()
    for record in records:
        view = step(session_id, view, record)
    return view


def step(session_id: str, view: View, record: Record) -> View:
    """The view after one more record."""
    if record.kind in c.SHAPES:
        try:
            change = decode_as(record.body, c.SHAPES[record.kind])
        except (ValueError, msgspec.ValidationError) as problem:
            raise StoreUnreadable(
                f"record {record.seq} of {session_id}, a {record.kind} change, cannot be read: {problem}"
            ) from None
        view = apply(session_id, view, change, record.at, record.task)
    if record.task is not None and record.spool is not None and record.task in view.tasks:
        task = replace(view.tasks[record.task], spool=record.spool)
        view = replace(view, tasks={**view.tasks, task.id: task})
    if view.session is None:
        raise StoreUnreadable(f"the log of {session_id} does not begin with its creation")
    session = replace(
        view.session,
        events=record.seq,
        messages=view.session.messages + (record.kind in CONVERSATION),
        updated_at=max(view.session.updated_at, record.at),
    )
    return replace(view, session=session)


def apply(session_id: str, view: View, change: c.Change, at: str, task: str | None) -> View:
    """The view after that change; whether it was allowed is `decide`'s matter."""
    kind = c.KIND_OF[type(change)]
    if kind == "session":
        return replace(view, session=_session(session_id, view.session, change, at))
    if kind == "token":
        return replace(view, tokens=_tokens(view.tokens, change, at, task))
    before = view.tasks.get(task) if task is not None else None
    if task is None or view.session is None or (before is None and not isinstance(change, c.QueueTask)):
        return view  # the record that it follows from was lost
    after = _task(session_id, task, before, change, at)
    session = view.session
    if before is None:
        session = replace(session, tasks=session.tasks + 1)
    return replace(view, session=session, tasks={**view.tasks, task: after})


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _session(session_id: str, session: Session | None, change: c.Change, at: str) -> Session:
    if isinstance(change, c.Create):
        return Session(
            id=session_id,
            agent=change.agent,
            state="live",
            created_at=at,
            updated_at=at,
            key=change.key,
            cwd=change.cwd,
            host=change.host,
            title=change.title,
            worktree=change.worktree,
            link=change.link,
            metadata=change.metadata,
        )
    if session is None:
        raise StoreUnreadable(f"the log of {session_id} does not begin with its creation")
    match change:
        case c.PatchMetadata():
            return replace(
                session,
                metadata=merge_patch(session.metadata, change.patch),
                version=change.version + 1,
            )
        case c.Describe():
            given = {
                name: value
                for name in change.__struct_fields__
                if (value := getattr(change, name)) is not msgspec.UNSET
            }
            return replace(session, **given)
        case c.Archive():
            note = ArchiveNote(by=change.by, reason=change.reason, at=at)
            return replace(session, state="archived", archive=note)
        case c.Unarchive():
            return replace(session, state="live", archive=None)
        case c.Delete():
            deletion = Deletion(id=change.id, by=change.by, reason=change.reason, at=at)
            return replace(session, state="deleted", deletion=deletion)
        case c.Restore():
            state = "archived" if session.archive else "live"
            return replace(session, state=state, deletion=None, undone=change.undoes)
    raise AssertionError(change)


def _tokens(tokens: tuple[Token, ...], change: c.Change, at: str, task: str | None) -> tuple[Token, ...]:
    match change:
        case c.SeeToken() if change.instead_of is not None:
            reason = f"begun instead of {change.instead_of}"
            return (*tokens, _seen(change, at, task, "superseded", reason))
        case c.SeeToken():
            current = next((t for t in tokens if t.agent == change.agent and t.status == "current"), None)
            if current and current.native_id == change.native_id and current.protocol is None:
                # The same conversation, and now we know how to speak to it.
                known = replace(current, protocol=change.protocol)
                return tuple(known if t is current else t for t in tokens)
            seen = _seen(change, at, task, "current")
            reason = f"superseded by {change.native_id}"
            older = tuple(
                replace(t, status="superseded", reason=reason) if t is current else t for t in tokens
            )
            return (*older, seen)
        case c.RevokeToken():
            return _restatus(tokens, change, "current", "revoked")
        case c.ReinstateToken():
            return _restatus(tokens, change, "revoked", "current")
    raise AssertionError(change)


def _seen(change: c.SeeToken, at: str, task: str | None, status: Status, reason: str | None = None) -> Token:
    return Token(
        agent=change.agent,
        native_id=change.native_id,
        protocol=change.protocol,
        seen_in=change.seen_in,
        at=at,
        task=task,
        status=status,
        reason=reason,
    )


def _restatus(
    tokens: tuple[Token, ...], change: c.RevokeToken | c.ReinstateToken, old: str, new: str
) -> tuple[Token, ...]:
    places = [
        i
        for i, t in enumerate(tokens)
        if (t.agent, t.native_id, t.status) == (change.agent, change.native_id, old)
    ]
    if not places:
        return tokens  # the record that it follows from was lost
    last = places[-1]
    changed = replace(tokens[last], status=new, reason=change.reason)
    return (*tokens[:last], changed, *tokens[last + 1 :])


def _task(session_id: str, task_id: str, task: Task | None, change: c.Change, at: str) -> Task:
    if isinstance(change, c.QueueTask):
        return Task(
            id=task_id,
            session=session_id,
            prompt=change.prompt,
            options=change.options,
            retry_of=change.retry_of,
            status="queued",
            queued_at=at,
        )
    assert task is not None, "a task begins in the queue"
    match change:
        case c.ClaimTask():
            return replace(
                task,
                status="running",
                owner=change.owner,
                generation=change.generation,
                lease_until=change.lease_until,
                started_at=task.started_at or at,
                reason=None,
                waiting_for=None,
                not_before=None,
            )
        case c.Deliver():
            return replace(task, delivery=change.delivery)
        case c.SetStatus():
            ended = change.status in ENDED
            back = change.status == "queued"
            return replace(
                task,
                status=change.status,
                reason=change.reason,
                outcome=change.outcome if change.outcome is not None else task.outcome,
                ended_at=at if ended else None,
                lease_until=None if ended or back else task.lease_until,
                owner=None if back else task.owner,
                delivery="waiting" if back else task.delivery,
                spool=0 if back else task.spool,  # the next process begins a spool of its own
                waiting_for=change.waiting_for,
                not_before=change.not_before,
            )
    raise AssertionError(change)
