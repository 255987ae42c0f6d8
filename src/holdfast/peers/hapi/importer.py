"""Bringing the sessions of a hapi install into ours: tokens, messages and worktrees, and none twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from holdfast import errors, ids, timestamps
from holdfast.model.changes import Create, SeeToken
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.session import Worktree
from holdfast.peers.hapi import database
from holdfast.peers.hapi import database as content
from holdfast.peers.hapi.database import FLAVORS, PROTOCOL, HapiDatabase, HapiMessageRow, HapiSessionRow
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.store.types import Store
from holdfast.transcripts.dedupe import REPLAY_MARKER
from holdfast.transcripts.importer import Came, TranscriptImport, past_of, put_replayed

AGENT = "hapi"

EventBody = tuple[str, dict[str, Any]]  # kind and body


class HapiEventBuilder:
    """The events of one session, in its order."""

    def __init__(self, session: str):
        self._session = session
        self._open: dict[str, str] = {}  # calls without a result: their names

    def events(self, messages: Iterable[HapiMessageRow]) -> Iterator[NewEvent]:
        """All of them; a call that never ended ends as interrupted."""
        for message in messages:
            at = timestamps.stamp((message.invoked_at or message.created_at) / 1000)
            for number, (kind, body) in enumerate(self._message(message)):
                record = message.id if number == 0 else f"{message.id}#{number}"
                yield NewEvent(kind, body, at=at, origin=Origin(AGENT, self._session, record))
        for call, name in self._open.items():
            body = {"call": call, "name": name, "outcome": "interrupted", "output": ""}
            yield NewEvent("tool_summary", body, origin=Origin(AGENT, self._session, f"end of {call}"))

    def _message(self, message: HapiMessageRow) -> Iterator[EventBody]:
        try:
            said = content.decode_content(message.content)
        except content.UnreadableContent as problem:
            yield _notice("message_unreadable", f"a message could not be read: {problem}")
            return
        inner = said.get("content")
        if said["role"] == "user":
            text = _text(inner.get("text")) if isinstance(inner, dict) else _text(inner)
            waits = message.local_id is not None and message.invoked_at is None
            yield _notice("prompt_queued", text) if waits else ("user", {"text": text})
            return
        data = inner.get("data") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(data, dict):
            yield _notice("message", _text(inner))
        elif inner.get("type") == "output":
            yield from self._claude(data)
        elif inner.get("type") == "event":
            yield _notice(str(data.get("type")), _text(data.get("message")) or str(data.get("type")))
        else:
            yield self._generic(data)

    def _generic(self, data: dict[str, Any]) -> EventBody:
        """What hapi stores for every agent but Claude."""
        kind = data.get("type")
        text = _text(data.get("message"))
        if kind == "message":
            return "assistant", {"text": text}
        if kind in ("reasoning", "thinking"):
            return "thinking", {"text": text or _text(data.get("text"))}
        if kind == "error":
            return "error", {"text": text, "code": "agent_error"}
        if kind == "tool-call":
            return self._begins(data.get("callId"), data.get("name"), data.get("input"))
        if kind == "tool-call-result":
            return self._ends(data.get("callId"), data.get("output"), bool(data.get("isError")))
        return _notice(str(kind), text or str(kind))

    def _claude(self, data: dict[str, Any]) -> Iterator[EventBody]:
        """A line of Claude's own transcript."""
        message = data.get("message")
        blocks = message.get("content") if isinstance(message, dict) else None
        speaker = "user" if data.get("type") == "user" else "assistant"
        if data.get("type") not in ("user", "assistant") or blocks is None:
            kind = str(data.get("type"))
            yield _notice(kind, _text(data.get("summary")) or _text(data.get("content")) or kind)
            return
        for block in blocks if isinstance(blocks, list) else [{"type": "text", "text": blocks}]:
            if not isinstance(block, dict):
                yield _notice("block", _text(block))
            elif block.get("type") == "text":
                yield speaker, {"text": _text(block.get("text"))}
            elif block.get("type") == "thinking":
                yield "thinking", {"text": _text(block.get("thinking"))}
            elif block.get("type") == "tool_use":
                yield self._begins(block.get("id"), block.get("name"), block.get("input"))
            elif block.get("type") == "tool_result":
                failed = bool(block.get("is_error"))
                yield self._ends(block.get("tool_use_id"), block.get("content"), failed)
            else:
                yield _notice(str(block.get("type")), str(block.get("type")))

    def _begins(self, call: Any, name: Any, given: Any) -> EventBody:
        self._open[str(call)] = str(name)
        return "tool_progress", {"call": str(call), "name": str(name), "input": given}

    def _ends(self, call: Any, output: Any, failed: bool) -> EventBody:
        name = self._open.pop(str(call), "")
        outcome = "error" if failed else "ok"
        return "tool_summary", {"call": str(call), "name": name, "outcome": outcome, "output": output}


def _notice(code: str, text: str) -> EventBody:
    return "notice", {"text": text, "code": code}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- Bringing the sessions of a hapi install into ours: tokens, messages and worktrees, and none twice.

Protocols = Callable[[str], str | None]  # how an agent of that name is driven


def session_key(session: str) -> str:
    """Under which key a session of hapi's lives on."""
    return f"hapi:{session}"


async def import_install(
    store: Store, path: str, *, host: str, protocol: Protocols
) -> AsyncIterator[tuple[str, Came]]:
    """A session of ours for each of hapi's, with what it lacks; one that cannot be taken stops none."""
    with database.open_database(path) as db:
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


async def _adopt(
    store: Store, db: HapiDatabase, row: HapiSessionRow, path: str, host: str, protocol: Protocols
) -> TranscriptImport:
    metadata = HapiMetadata(row.metadata)
    tokens = _tokens(metadata, protocol)
    events = HapiEventBuilder(row.id).events(db.messages(row))
    known = await _known(store, row, tokens)
    if known is not None:
        past = await past_of(store, known)
        held = {(token.agent, token.native_id) for token in await store.tokens(known)}
        new = [token for token in tokens if (token.agent, token.native_id) not in held]
        count = await _put(store, Commit(known, list(new)), past.missing(events), row, path, past.unmarked)
        return TranscriptImport(known, False, count)
    session = ids.new(ids.SESSION)
    agent = metadata.agent
    created = Create(
        agent=agent if agent in FLAVORS else AGENT,
        key=session_key(row.id),
        cwd=metadata.string("path"),
        host=metadata.string("host") or host,
        title=_title(metadata) or row.tag,
        worktree=_worktree(metadata, row),
        metadata={"imported_from": path, "hapi_session": row.id},
    )
    # The key is in the first commit: after a crash the part that is here is found by it, and completed.
    count = await _put(store, Commit(session, [created, *tokens]), events, row, path)
    return TranscriptImport(session, True, count)


async def _known(store: Store, row: HapiSessionRow, tokens: list[SeeToken]) -> str | None:
    page = await store.sessions(state="all", key=session_key(row.id), empty=True, limit=1)
    for header in page.sessions:
        return header.id
    for token in tokens:
        for session in await store.sessions_of_token(token.agent, token.native_id):
            return session
    return None


async def _put(
    store: Store,
    first: Commit,
    events: Iterable[NewEvent],
    row: HapiSessionRow,
    path: str,
    unmarked: bool = False,
) -> int:
    body = {
        "text": f"Replayed from hapi's session {row.id}",
        "code": REPLAY_MARKER,
        "native_id": row.id,
        "path": path,
    }
    end = NewEvent("notice", body, replayed=True)
    count, last = await put_replayed(store, first, events, end, unmarked)
    if last.entries:
        await store.commit(last)
    return count


def _tokens(metadata: HapiMetadata, protocol: Protocols) -> list[SeeToken]:
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


def _title(metadata: HapiMetadata) -> str | None:
    summary = metadata.fields.get("summary")
    text = summary.get("text") if isinstance(summary, dict) else None
    return metadata.string("name") or (text if isinstance(text, str) and text else None)


def _worktree(metadata: HapiMetadata, row: HapiSessionRow) -> Worktree | None:
    told: Any = metadata.fields.get("worktree")
    if not isinstance(told, dict):
        return None
    path = told.get("worktreePath") or metadata.string("path")
    branch, root, made = told.get("branch"), told.get("basePath"), told.get("createdAt")
    if not all(isinstance(part, str) and part for part in (path, branch, root)):
        return None
    at = made if isinstance(made, int | float) and 0 < made < 1e14 else row.created_at
    return Worktree(
        path=str(path), branch=str(branch), repo_root=str(root), created_at=timestamps.stamp(at / 1000)
    )
