"""The session that replaces another one: fresh, or a copy of its conversation."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from holdfast import errors, ids
from holdfast.model.changes import Create
from holdfast.model.session import Link, Session, Worktree
from holdfast.resume.verdict import Verdict, reasons_text
from holdfast.runner import sessions
from holdfast.runner.context import header
from holdfast.store.types import Dispatch, SessionReplacement

REASON = 500  # characters of the reasons in the note of the session that was put away


class SessionFolder(NamedTuple):
    """Where the new session works."""

    cwd: str
    worktree: Worktree | None


def session_folder(old: Session, wanted: str | None) -> SessionFolder:
    """The folder that is asked for, else that of the old session, in whose worktree the half-done work is."""
    if wanted is not None and not is_in(old, wanted):
        return SessionFolder(folder(wanted), None)
    if old.worktree is not None:
        return SessionFolder(old.cwd or old.worktree.path, old.worktree)
    if old.cwd is None:
        raise errors.BadInput(f"session {old.id} has no folder", hint="give one with --cwd")
    return SessionFolder(folder(old.cwd), None)


def is_in(session: Session, path: str) -> bool:
    """Whether a session was begun in that folder; it may have a worktree of it."""
    return session.cwd is not None and os.path.realpath(path) == os.path.realpath(session.cwd)


def folder(path: str) -> str:
    """A folder that is there."""
    found = os.path.realpath(path)
    if not os.path.isdir(found):
        raise errors.BadInput(f"there is no folder {found}", hint="make it, or give another with --cwd")
    return found


def fresh(
    old: Session,
    found: Verdict,
    where: SessionFolder,
    *,
    prompt: str,
    options: dict[str, Any],
    by: str,
    retry_of: str | None = None,
    moved: tuple[str, int] | None = None,
    seen: int | None = None,
    new: str | None = None,
) -> Dispatch:
    """A new session with a new conversation; the old one is archived with its token and its log."""
    new = new or ids.new(ids.SESSION)
    created = _create(old, where, prompt, "fresh", key=old.key)
    begun = Dispatch(new, prompt, options, retry_of=retry_of, create=created)
    return _instead(begun, found, old, by, seen, moved)


def fork(
    old: Session,
    found: Verdict,
    where: SessionFolder,
    *,
    prompt: str,
    options: dict[str, Any],
    by: str,
    seen: int,
) -> Dispatch:
    """A new session that starts as a copy.

    It replaces a live session that is not safe to resume. The copy of an archived one has no key.
    """
    instead = found.action != "resume" and old.state == "live"  # an archived one keeps what it has
    created = _create(old, where, prompt, "fork", key=old.key if instead else None)
    begun = Dispatch(ids.new(ids.SESSION), prompt, options, create=created)
    return _instead(begun, found, old, by, seen) if instead else begun


def _instead(
    begun: Dispatch,
    found: Verdict,
    old: Session,
    by: str,
    seen: int | None,
    moved: tuple[str, int] | None = None,
) -> Dispatch:
    """The same in the place of the old session, if that is still as it was judged; the log says why."""
    note = header(f"it goes on in session {begun.session}: {reasons_text(found)}", REASON)
    replacing = SessionReplacement(old.id, by, note, moved)
    return begun._replace(replaces=replacing, seen=seen, events=(sessions.warning(found),))


def _create(old: Session, where: SessionFolder, prompt: str, relation: str, *, key: str | None) -> Create:
    return Create(
        agent=old.agent,
        key=key,
        cwd=where.cwd,
        host=old.host,
        title=old.title or header(prompt, 80),
        worktree=where.worktree,
        link=Link(old.id, relation),
    )
