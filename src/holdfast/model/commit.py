"""`decide`: what a commit adds to a log, or why it is refused; values in, values out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Union, cast

import msgspec

from holdfast import errors, ids, timestamps
from holdfast.model import changes as c
from holdfast.model import event as ev
from holdfast.model.json_codec import check_plain, decode_as, encode, flat_text, text
from holdfast.model.projection import View, apply, merge_patch
from holdfast.model.session import Session, Worktree
from holdfast.model.task import ACTIVE, MAY_BECOME, Task
from holdfast.model.token import TokenRules, current

MAX_METADATA = 1024 * 1024  # bytes of a session's metadata as JSON

MAX_ORIGIN = 4000  # characters of an origin's JSON

Entry = Union[ev.NewEvent, c.Change]

_DELIVERY_ORDER = {"waiting": 0, "sent": 1, "accepted": 2}


class Commit(msgspec.Struct, frozen=True):
    """What one call puts into a log, all or nothing."""

    session: str
    entries: Sequence[Entry] = ()
    task: str | None = None  # whose doing it is; task changes are changes of this task
    generation: int | None = None  # of the task, as its owner knows it
    spool: int | None = None  # bytes of the task's stdout that are in the log after this
    at: str | None = None  # when it happened, if that is not now: an import records the past


# A record without its place in the log: kind, at, replayed, origin, body. A plain tuple, because
# drafts are made by the hundred on the way of every event.
Draft = tuple[str, str, bool, Union[str, None], str]


class Decision(NamedTuple):
    """The records to add and the view after them."""

    drafts: list[Draft]
    view: View
    dropped: int  # events whose origin was in the log already
    unchanged: int  # changes that said what was so already


class Prepared(NamedTuple):
    """The entries of a commit, events checked and encoded: all that needs no look at the store."""

    entries: list[Draft | c.Change]
    changes: list[c.Change]
    origins: set[str]
    plain: bool  # events only, no two of one origin


def prepare(commit: Commit, now: str) -> Prepared:
    """Check and encode what a commit brings."""
    if commit.at is not None and not timestamps.is_stamp(commit.at):
        raise errors.BadInput(f"«{commit.at}» is not a time like 2026-01-31T12:00:00.000000Z")
    now = commit.at or now
    entries: list[Draft | c.Change] = []
    changes: list[c.Change] = []
    origins: list[str] = []
    for entry in commit.entries:
        if isinstance(entry, c.Change):
            changes.append(entry)
            entries.append(entry)
            continue
        ev.check(entry)
        origin = None if entry.origin is None else _origin_text(entry.origin)
        if origin is not None:
            origins.append(origin)
        entries.append((entry.kind, entry.at or now, entry.replayed, origin, text(entry.body)))
    distinct = set(origins)
    return Prepared(entries, changes, distinct, not changes and len(distinct) == len(origins))


def _origin_text(origin: ev.Origin) -> str:
    """An origin as it is stored and compared."""
    shown = flat_text(origin)
    if "\\" in shown or len(shown) > MAX_ORIGIN:  # an escape that no id of an agent has; look closer
        check_plain("an origin", origin.agent + origin.native_id + origin.record_id)
    return shown


def decide(
    view: View,
    commit: Commit,
    prepared: Prepared,
    known: Collection[str],
    key_holder: str | None,
    rules: TokenRules,
    now: str,
) -> Decision:
    """What `commit` adds to `view`.

    `known` are those of its origins that the log has, `key_holder` the live session that has the
    key this commit wants.
    """
    if view.session is None and not (commit.entries and isinstance(commit.entries[0], c.Create)):
        raise errors.NotFound(f"there is no session {commit.session}")
    now = commit.at or now
    if commit.task is not None and commit.task not in view.tasks:
        _check_new_task(commit, prepared.changes)
    _check_fence(view, commit)
    if len(prepared.entries) > len(prepared.changes):
        _refuse_deleted(view.session)
    if prepared.plain and not known:
        return Decision(cast(list[Draft], prepared.entries), view, 0, 0)
    drafts: list[Draft] = []
    seen: set[str] = set()
    dropped = unchanged = 0
    for entry in prepared.entries:
        if type(entry) is tuple:
            _refuse_deleted(view.session)
            origin = entry[3]
            if origin is not None:
                if origin in known or origin in seen:
                    dropped += 1
                    continue
                seen.add(origin)
            drafts.append(entry)
            continue
        assert isinstance(entry, c.Change)
        change = _check_change(view, commit, entry, key_holder, rules)
        if change is None:
            unchanged += 1
            continue
        drafts.append((c.KIND_OF[type(change)], now, False, None, _body(change)))
        view = apply(commit.session, view, change, now, commit.task)
    return Decision(drafts, view, dropped, unchanged)


def _body(change: c.Change) -> str:
    """The change as it is recorded; refused if `fold` could not read the same out of it again."""
    body = encode(change).decode()
    try:
        same = decode_as(body, type(change)) == change
    except ValueError as problem:  # so are msgspec's
        raise errors.BadInput(f"that is no {type(change).__name__}: {problem}") from None
    if not same:
        raise errors.BadInput(f"that {type(change).__name__} would not be read back the same")
    return body


def _check_new_task(commit: Commit, changes: Sequence[c.Change]) -> None:
    """A task that the session does not have must be one that this commit queues."""
    if not any(isinstance(change, c.QueueTask) for change in changes):
        raise errors.NotFound(f"session {commit.session} has no task {commit.task}")
    if not ids.is_id(commit.task or "", ids.TASK):
        raise errors.BadInput(f"{commit.task!r} is no id for a task")


def _check_fence(view: View, commit: Commit) -> None:
    if commit.generation is None:
        if commit.spool is not None:
            raise errors.BadInput("a spool offset needs the generation of its task's owner")
        return
    task = _task(view, commit)
    if task.generation != commit.generation or task.status not in ACTIVE:
        raise errors.StaleGeneration(
            f"task {task.id} is {task.status} in generation {task.generation}, not in {commit.generation}",
            generation=task.generation,
            status=task.status,
        )
    if commit.spool is not None and commit.spool < task.spool:
        raise errors.IllegalChange(f"the spool offset of {task.id} cannot go back to {commit.spool}")


def _check_change(
    view: View, commit: Commit, change: c.Change, key_holder: str | None, rules: TokenRules
) -> c.Change | None:
    """The change as it will be recorded, or None where it says what is so already."""
    session = view.session
    if isinstance(change, c.Create):
        if session is not None:
            raise errors.IllegalChange(f"session {commit.session} exists")
        if not ids.is_id(commit.session, ids.SESSION):
            raise errors.BadInput(f"{commit.session!r} is no id for a session")
        _check_worktree(change.worktree)
        _check_names(change, "agent", "key", "cwd", "host", "title")
        if not change.agent:
            raise errors.BadInput("a session needs an agent")
        _check_metadata(change.metadata, rules)
        _check_key(change.key, key_holder, commit.session)
        return change
    assert session is not None
    if isinstance(change, c.Restore):
        return _check_restore(session, change, key_holder)
    if isinstance(change, c.Delete) and session.state == "deleted":
        return None
    _refuse_deleted(session)
    match change:
        case c.PatchMetadata():
            return _check_patch(session, change, rules)
        case c.Describe():
            _check_names(change, "title", "cwd", "key")
            _check_worktree(change.worktree)
            if change.key is not msgspec.UNSET and session.state == "live":
                _check_key(change.key, key_holder, session.id)
            return change
        case c.Archive():
            _check_names(change, "by", "reason")
            return change
        case c.Unarchive():
            if session.state == "live":
                return None
            _check_key(session.key, key_holder, session.id)
            return change
        case c.Delete():
            running = [t.id for t in view.tasks.values() if t.status in ACTIVE]
            if running:
                raise errors.SessionRunning(
                    f"task {running[0]} of session {session.id} is running",
                    hint="cancel it first",
                    task=running[0],
                )
            _check_names(change, "by", "reason")
            return change
        case c.SeeToken() | c.RevokeToken() | c.ReinstateToken():
            return _check_token(view, change)
    return _check_task(view, commit, change)


def _check_restore(session: Session, change: c.Restore, key_holder: str | None) -> c.Change | None:
    if session.deletion is None or session.deletion.id != change.undoes:
        return None
    if session.archive is None:
        _check_key(session.key, key_holder, session.id)
    return change


def _check_patch(session: Session, change: c.PatchMetadata, rules: TokenRules) -> c.Change | None:
    if session.metadata is None:
        raise errors.MetadataUnreadable(
            f"the stored metadata of {session.id} cannot be read: {session.metadata_problem}"
        )
    _check_metadata(change.patch, rules)
    if change.version != session.version:
        raise errors.VersionMismatch(
            f"the metadata of {session.id} is at version {session.version}, not {change.version}",
            version=session.version,
            metadata=session.metadata,
        )
    merged = merge_patch(session.metadata, change.patch)
    encode(merged, limit=MAX_METADATA)
    # Their texts: to Python, 1, 1.0 and true are equal.
    return None if encode(merged) == encode(session.metadata) else change


def _check_token(view: View, change: c.Change) -> c.Change | None:
    if isinstance(change, c.SeeToken):
        _check_names(change, "agent", "native_id", "protocol", "seen_in", "instead_of", "by")
        if not change.native_id:
            raise errors.BadInput("a token needs the agent's id")
        if change.instead_of is not None:
            known = any((t.agent, t.native_id) == (change.agent, change.native_id) for t in view.tokens)
            return None if known else change
        last = current(view.tokens, change.agent) or next(
            (t for t in reversed(view.tokens) if t.agent == change.agent and t.status == "revoked"), None
        )
        same = last is not None and last.native_id == change.native_id
        if last is not None and same and change.protocol in (None, last.protocol):
            return None
        if last is not None and same and last.status == "revoked":
            return None
        return change
    assert isinstance(change, (c.RevokeToken, c.ReinstateToken))
    _check_names(change, "reason", "by")
    if not change.reason:
        raise errors.BadInput("a token is revoked or reinstated for a reason; give one")
    wanted = "current" if isinstance(change, c.RevokeToken) else "revoked"
    of_id = [t for t in view.tokens if (t.agent, t.native_id) == (change.agent, change.native_id)]
    if not of_id:
        raise errors.NotFound(f"no token {change.native_id} of {change.agent} was ever seen here")
    if not any(t.status == wanted for t in of_id):
        if of_id[-1].status == ("revoked" if wanted == "current" else "current"):
            return None
        raise errors.IllegalChange(f"token {change.native_id} is {of_id[-1].status}")
    if wanted == "revoked" and (now := current(view.tokens, change.agent)) is not None:
        raise errors.IllegalChange(f"token {now.native_id} has become current since")
    return change


def _check_task(view: View, commit: Commit, change: c.Change) -> c.Change | None:
    if isinstance(change, c.QueueTask):
        if commit.task is None:
            raise errors.BadInput("a task change needs its task")
        if commit.task in view.tasks:
            raise errors.IllegalChange(f"task {commit.task} exists")
        return change
    task = _task(view, commit)
    if isinstance(change, c.ClaimTask):
        return change  # the claim call has looked at what else runs; it is not offered by itself
    if task.status in ACTIVE and commit.generation is None:
        raise errors.StaleGeneration(f"task {task.id} is {task.status}; only its owner changes it")
    if isinstance(change, c.Deliver):
        if change.delivery not in _DELIVERY_ORDER:
            raise errors.BadInput(f"a prompt is waiting, sent or accepted, not {change.delivery!r}")
        step = _DELIVERY_ORDER[change.delivery] - _DELIVERY_ORDER[task.delivery]
        if step == 0:
            return None
        if step < 0 or task.status not in ACTIVE:
            raise errors.IllegalChange(
                f"the prompt of {task.status} task {task.id} is {task.delivery}, not {change.delivery}"
            )
        return change
    assert isinstance(change, c.SetStatus)
    _check_names(change, "reason")
    if change.status not in MAY_BECOME[task.status] or (
        change.status == "queued" and task.delivery == "accepted"
    ):
        raise errors.IllegalChange(f"task {task.id} is {task.status} and cannot become {change.status}")
    _check_waiting(change)
    same = (task.waiting_for, task.not_before) == (change.waiting_for, change.not_before)
    return None if change.status == task.status == "waiting" and same else change


def _check_waiting(change: c.SetStatus) -> None:
    """A task waits for something, and only a waiting task does."""
    if (change.status == "waiting") != (change.waiting_for is not None):
        raise errors.BadInput("a task is `waiting` for something, and only then")
    if change.not_before is not None and change.waiting_for is None:
        raise errors.BadInput("only a waiting task has a time before which it does not start")
    times = [change.not_before]
    if change.waiting_for is not None:
        for name in ("cause", "text"):
            check_plain(name, getattr(change.waiting_for, name))
        times += [change.waiting_for.since, change.waiting_for.until]
    for time in times:
        if time is not None and not timestamps.is_stamp(time):
            raise errors.BadInput(f"{time!r} is not a time like 2026-01-31T12:00:00.000000Z")


def _task(view: View, commit: Commit) -> Task:
    task = view.tasks.get(commit.task) if commit.task else None
    if task is None:
        raise errors.NotFound(f"session {commit.session} has no task {commit.task}")
    return task


def _refuse_deleted(session: Session | None) -> None:
    if session is not None and session.state == "deleted":
        raise errors.SessionDeleted(f"session {session.id} is in the trash")


def _check_key(key: object, holder: str | None, own: str) -> None:
    if isinstance(key, str) and holder is not None and holder != own:
        raise errors.KeyTaken(
            f"session {holder} is live under the key {key}",
            hint=f"`holdfast resume {own} --anyway` brings {own} back and takes the key",
            session=holder,
        )


def _check_names(change: c.Change, *names: str) -> None:
    for name in names:
        value = getattr(change, name)
        if value is not msgspec.UNSET:
            check_plain(name, value)


def _check_worktree(worktree: object) -> None:
    if isinstance(worktree, Worktree):
        for name in worktree.__struct_fields__:
            check_plain(f"a worktree's {name}", getattr(worktree, name))


def _check_metadata(metadata: object, rules: TokenRules) -> None:
    if not isinstance(metadata, dict):
        raise errors.MetadataInvalid(
            f"metadata is a JSON object, not {type(metadata).__name__}; nothing was changed"
        )
    for name in metadata:
        if name in rules.fields:
            raise errors.TokenField(f"«{name}» names an agent's token; metadata cannot hold or clear it")
    encode(metadata, limit=MAX_METADATA)
