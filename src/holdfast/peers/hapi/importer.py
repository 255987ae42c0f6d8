"""Imports the sessions of a hapi install: tokens, messages and worktrees, each once."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from holdfast import errors, ids, timestamps
from holdfast.model.changes import Create, PatchMetadata, SeeToken
from holdfast.model.commit import Commit
from holdfast.model.event import NewEvent, Origin
from holdfast.model.session import Worktree
from holdfast.peers.hapi import database, message_content
from holdfast.peers.hapi.database import HapiDatabase, HapiMessageRow, HapiSessionRow
from holdfast.peers.hapi.flavors import FLAVORS, PROTOCOL
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.resume.log_evidence import ENDED_ELSEWHERE
from holdfast.store.store import Store
from holdfast.transcripts.dedupe import REPLAY_MARKER
from holdfast.transcripts.importer import ImportOutcome, TranscriptImport, append_replayed, load_known_events

AGENT = "hapi"

STATE = ("lifecycleState", "archivedBy", "archiveReason")  # fields of hapi's metadata that are kept
KEPT_STATE = "hapi_state"  # in our metadata
CRASHED = "Session crashed"  # hapi's reason when an agent's process ended with an error

EventBody = tuple[str, dict[str, Any]]  # kind and body


class HapiEventBuilder:
    """Turns the messages of one hapi session into events."""

    def __init__(self, session: str):
        self._session = session
        self._open: dict[str, str] = {}  # calls without a result: their names

    def events(self, messages: Iterable[HapiMessageRow]) -> Iterator[NewEvent]:
        """All events in order; a call without an end ends as interrupted."""
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
            decoded = message_content.decode_content(message.content)
        except message_content.UnreadableContent as problem:
            yield _notice("message_unreadable", f"a message cannot be read: {problem}")
            return
        inner = decoded.get("content")
        if decoded["role"] == "user":
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
        """What hapi stores for every agent except Claude."""
        kind = data.get("type")
        text = _text(data.get("message"))
        if kind == "message":
            return "assistant", {"text": text}
        if kind in ("reasoning", "thinking"):
            return "thinking", {"text": text or _text(data.get("text"))}
        if kind == "error":
            return "error", {"text": text, "code": "agent_error"}
        if kind == "tool-call":
            return self._call_started(data.get("callId"), data.get("name"), data.get("input"))
        if kind == "tool-call-result":
            return self._call_ended(data.get("callId"), data.get("output"), bool(data.get("isError")))
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
                yield self._call_started(block.get("id"), block.get("name"), block.get("input"))
            elif block.get("type") == "tool_result":
                failed = bool(block.get("is_error"))
                yield self._call_ended(block.get("tool_use_id"), block.get("content"), failed)
            else:
                yield _notice(str(block.get("type")), str(block.get("type")))

    def _call_started(self, call: Any, name: Any, arguments: Any) -> EventBody:
        self._open[str(call)] = str(name)
        return "tool_progress", {"call": str(call), "name": str(name), "input": arguments}

    def _call_ended(self, call: Any, output: Any, failed: bool) -> EventBody:
        name = self._open.pop(str(call), "")
        outcome = "error" if failed else "ok"
        return "tool_summary", {"call": str(call), "name": name, "outcome": outcome, "output": output}


def _notice(code: str, text: str) -> EventBody:
    return "notice", {"text": text, "code": code}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- The import itself.

Protocols = Callable[[str], str | None]  # the protocol that drives an agent
IdCheck = Callable[[str, str], bool]  # whether an agent can have a conversation with that id


def session_key(session: str) -> str:
    """The key of the session that continues a hapi session."""
    return f"hapi:{session}"


async def import_install(
    store: Store, path: str, *, host: str, protocol: Protocols, is_native_id: IdCheck
) -> AsyncIterator[tuple[str, ImportOutcome]]:
    """Import each hapi session, and add what is new to known ones; one that fails does not stop the rest."""
    with database.open_database(path) as db:
        if not 1 <= db.version <= database.NEWEST:
            raise errors.StoreUnreadable(
                f"{path} has schema version {db.version}; versions 1 to {database.NEWEST} are supported",
                hint="nothing was imported",
            )
        for row in db.sessions():
            try:
                yield row.id, await _import_session(store, db, row, path, host, protocol, is_native_id)
            except (errors.Refused, errors.BadInput, errors.StoreUnreadable, OSError) as problem:
                yield row.id, problem


async def _import_session(
    store: Store,
    db: HapiDatabase,
    row: HapiSessionRow,
    path: str,
    host: str,
    protocol: Protocols,
    is_native_id: IdCheck,
) -> TranscriptImport:
    metadata = HapiMetadata(row.metadata)
    stored = _tokens(metadata, protocol)
    tokens = [token for token in stored if is_native_id(token.agent, token.native_id)]
    events = HapiEventBuilder(row.id).events(db.messages(row))
    known = await _known_session(store, row, tokens)
    if known is not None:
        past = await load_known_events(store, known)
        held = {(token.agent, token.native_id) for token in await store.tokens(known)}
        new = [token for token in tokens if (token.agent, token.native_id) not in held]
        count = await _put(store, Commit(known, list(new)), past.missing(events), row, path, past.unmarked)
        await _put_state(store, known, metadata)
        return TranscriptImport(known, False, count)
    session = ids.new(ids.SESSION)
    agent = metadata.agent
    created = Create(
        agent=agent if agent in FLAVORS else AGENT,
        key=session_key(row.id),
        cwd=metadata.string("path"),
        host=_node(metadata.string("host"), host),
        title=_title(metadata) or row.tag,
        worktree=_worktree(metadata, row),
        metadata={"imported_from": path, "hapi_session": row.id},
    )
    # The key is in the first commit, so that an import after a crash finds this part and completes it.
    began = timestamps.of_millis(row.created_at)
    first = Commit(session, [created, *tokens, *_refused(stored, tokens)], at=began)
    count = await _put(store, first, events, row, path)
    await _put_state(store, session, metadata)
    return TranscriptImport(session, True, count)


def _node(recorded: str | None, here: str) -> str:
    """Where a session is: hapi records hostnames, and this machine's is this node."""
    return here if recorded is None or recorded == socket.gethostname() else recorded


async def _put_state(store: Store, session: str, metadata: HapiMetadata) -> None:
    """Record how hapi ended a session, after all its events; again only if that changed.

    The verdict depends on it: hapi archives a session whose agent died as "Session crashed".
    """
    state = {name: value for name in STATE if (value := metadata.string(name)) is not None}
    header = await store.session(session)
    known = header.metadata or {}
    if not state or known.get(KEPT_STATE) == state:
        return
    patch = PatchMetadata(patch={KEPT_STATE: state}, version=header.version)
    reason = state.get("archiveReason")
    if reason is None or header.tasks:  # later runs here are better evidence
        await store.commit(Commit(session, [patch], at=header.updated_at))
        return
    body = {
        "text": f"hapi archived this session: {reason}",
        "code": ENDED_ELSEWHERE,
        "reason": reason,
        "crashed": reason == CRASHED,
    }
    # It happened before the import, which is no activity of the session.
    await store.commit(Commit(session, [patch, NewEvent("notice", body)], at=header.updated_at))


async def _known_session(store: Store, row: HapiSessionRow, tokens: list[SeeToken]) -> str | None:
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
    count, last = await append_replayed(store, first, events, end, unmarked)
    if last.entries:
        await store.commit(last)
    return count


def _tokens(metadata: HapiMetadata, protocol: Protocols) -> list[SeeToken]:
    """All its tokens; its own agent's comes last and so is the current one."""
    tokens = metadata.tokens()
    own = metadata.string("flavor")
    cursor_protocol = metadata.string(PROTOCOL)
    return [
        SeeToken(
            agent=flavor,
            native_id=tokens[flavor],
            protocol=cursor_protocol if flavor == "cursor" else protocol(flavor),
            seen_in="import",
        )
        for flavor in sorted(tokens, key=lambda name: name == own)
    ]


def _refused(stored: list[SeeToken], adopted: list[SeeToken]) -> list[NewEvent]:
    """A notice for each id that its agent cannot have; such an id is never passed to the agent."""
    return [
        NewEvent(
            "notice",
            {
                "text": f"hapi has {token.native_id[:100]!r} as the id of {token.agent}, which is not valid",
                "code": "bad_native_id",
            },
            replayed=True,
        )
        for token in stored
        if token not in adopted
    ]


def _title(metadata: HapiMetadata) -> str | None:
    summary = metadata.fields.get("summary")
    text = summary.get("text") if isinstance(summary, dict) else None
    return metadata.string("name") or (text if isinstance(text, str) and text else None)


def _worktree(metadata: HapiMetadata, row: HapiSessionRow) -> Worktree | None:
    recorded: Any = metadata.fields.get("worktree")
    if not isinstance(recorded, dict):
        return None
    path = recorded.get("worktreePath") or metadata.string("path")
    branch, root, created = recorded.get("branch"), recorded.get("basePath"), recorded.get("createdAt")
    if not all(isinstance(part, str) and part for part in (path, branch, root)):
        return None
    at = created if isinstance(created, int | float) and 0 < created < 1e14 else row.created_at
    return Worktree(
        path=str(path), branch=str(branch), repo_root=str(root), created_at=timestamps.stamp(at / 1000)
    )
