"""Bringing the sessions of a hapi install into ours: tokens, messages and worktrees, and none twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from holdfast import clock, errors, ids
from holdfast.history.adopting import Adopted, Came, past_of, put_replayed
from holdfast.history.align import BORDER
from holdfast.history.hapi import database
from holdfast.history.hapi.database import Database, Row
from holdfast.history.hapi.flavor import FLAVORS, PROTOCOL
from holdfast.history.hapi.metadata import Metadata
from holdfast.history.hapi.telling import AGENT, Telling
from holdfast.model.change import Create, SeeToken
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent
from holdfast.model.session import Worktree
from holdfast.store.contract import Store

Protocols = Callable[[str], str | None]  # how an agent of that name is driven


def key_of(session: str) -> str:
    """Under which key a session of hapi's lives on."""
    return f"hapi:{session}"


async def adopt_install(
    store: Store, path: str, *, host: str, protocol: Protocols
) -> AsyncIterator[tuple[str, Came]]:
    """A session of ours for each of hapi's, with what it lacks; one that cannot be taken stops none."""
    with database.opened(path) as db:
        if not 1 <= db.version <= database.NEWEST:
            raise errors.StoreUnreadable(
                f"{path} has schema version {db.version}; 1 to {database.NEWEST} are known",
                hint="nothing was taken from it",
            )
        for row in db.sessions():
            try:
                yield row.id, await _adopt(store, db, row, path, host, protocol)
            except (errors.Refused, errors.BadInput, errors.StoreUnreadable, OSError) as problem:
                yield row.id, problem


async def _adopt(store: Store, db: Database, row: Row, path: str, host: str, protocol: Protocols) -> Adopted:
    metadata = Metadata(row.metadata)
    tokens = _tokens(metadata, protocol)
    events = Telling(row.id).events(db.messages(row))
    known = await _known(store, row, tokens)
    if known is not None:
        past = await past_of(store, known)
        held = {(token.agent, token.native_id) for token in await store.tokens(known)}
        new = [token for token in tokens if (token.agent, token.native_id) not in held]
        count = await _put(store, Commit(known, list(new)), past.missing(events), row, path, past.unmarked)
        return Adopted(known, False, count)
    session = ids.new(ids.SESSION)
    agent = metadata.agent
    created = Create(
        agent=agent if agent in FLAVORS else AGENT,
        key=key_of(row.id),
        cwd=metadata.string("path"),
        host=metadata.string("host") or host,
        title=_title(metadata) or row.tag,
        worktree=_worktree(metadata, row),
        metadata={"imported_from": path, "hapi_session": row.id},
    )
    # The key is in the first commit: after a crash the part that is here is found by it, and completed.
    count = await _put(store, Commit(session, [created, *tokens]), events, row, path)
    return Adopted(session, True, count)


async def _known(store: Store, row: Row, tokens: list[SeeToken]) -> str | None:
    page = await store.sessions(state="all", key=key_of(row.id), empty=True, limit=1)
    for header in page.sessions:
        return header.id
    for token in tokens:
        for session in await store.sessions_of_token(token.agent, token.native_id):
            return session
    return None


async def _put(
    store: Store, first: Commit, events: Iterable[NewEvent], row: Row, path: str, unmarked: bool = False
) -> int:
    body = {
        "text": f"Replayed from hapi's session {row.id}",
        "code": BORDER,
        "native_id": row.id,
        "path": path,
    }
    end = NewEvent("notice", body, replayed=True)
    count, last = await put_replayed(store, first, events, end, unmarked)
    if last.entries:
        await store.commit(last)
    return count


def _tokens(metadata: Metadata, protocol: Protocols) -> list[SeeToken]:
    """All that it has; its own agent's comes last, and so is the current one."""
    found = metadata.tokens()
    own = metadata.string("flavor")
    told = metadata.string(PROTOCOL)
    return [
        SeeToken(
            agent=flavor,
            native_id=found[flavor],
            protocol=told if flavor == "cursor" else protocol(flavor),
            seen_in="import",
        )
        for flavor in sorted(found, key=lambda name: name == own)
    ]


def _title(metadata: Metadata) -> str | None:
    summary = metadata.fields.get("summary")
    text = summary.get("text") if isinstance(summary, dict) else None
    return metadata.string("name") or (text if isinstance(text, str) and text else None)


def _worktree(metadata: Metadata, row: Row) -> Worktree | None:
    told: Any = metadata.fields.get("worktree")
    if not isinstance(told, dict):
        return None
    path = told.get("worktreePath") or metadata.string("path")
    branch, root, made = told.get("branch"), told.get("basePath"), told.get("createdAt")
    if not all(isinstance(part, str) and part for part in (path, branch, root)):
        return None
    at = made if isinstance(made, int | float) and 0 < made < 1e14 else row.created_at
    return Worktree(
        path=str(path), branch=str(branch), repo_root=str(root), created_at=clock.stamp(at / 1000)
    )
