"""The SDK's `SessionStore` on our store: one of our sessions for each SDK session, its entries in our log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast
from weakref import WeakValueDictionary

from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)
from claude_agent_sdk import SessionStore as SdkSessionStore

from holdfast import errors, ids, timestamps
from holdfast.agents.claude import AGENT
from holdfast.claude_sdk import sdk_session as sdk_sessions
from holdfast.claude_sdk.entries import events, stored_entry
from holdfast.claude_sdk.sdk_session import SdkSession
from holdfast.model import changes as c
from holdfast.model.commit import Commit, Entry
from holdfast.model.session import Session
from holdfast.store.store import Store
from holdfast.transcripts.jsonl import storable_id

BY = "claude-agent-sdk"
PAGE = 500
TRIES = 100  # when others write to the same session at the same moment
NAMES = 64  # sessions whose open calls are kept by name


class SessionStore(SdkSessionStore):
    """Stores the transcripts that the SDK mirrors; they are durable in our log when `append` returns."""

    def __init__(self, store: Store):
        """Use a store that the caller opened and closes."""
        self._store = store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._names: dict[str, dict[str, str]] = {}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries to a transcript, all or none; an entry with a known uuid adds nothing."""
        if not entries:
            return
        name, subpath = _name(key), key.get("subpath") or ""
        # Calls of one process keep their order; calls of several are ordered by their commits.
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            for left in range(TRIES, 0, -1):
                found = await self._find(key)
                try:
                    await self._store.commit(self._commit(key, subpath, entries, found))
                    return
                except (errors.VersionMismatch, errors.KeyTaken, errors.SessionDeleted):
                    if left == 1:
                        raise

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript, equal to what was appended; None if it does not exist."""
        found, subpath = await self._find(key), key.get("subpath") or ""
        if found is None or not found[1].holds(subpath):
            return None
        return await self._load(found[0].id, subpath, found[1].generation(subpath)) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project that have a main transcript."""
        return [
            {"session_id": sdk_session.session, "mtime": _millis(session)}
            async for session, sdk_session in self._sdk_sessions(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summaries of these sessions, which `append` keeps up to date."""
        return [await self._summary(*found) async for found in self._sdk_sessions(project_key)]

    async def delete(self, key: SessionKey) -> None:
        """Move a session with all its transcripts to the trash, or delete one of its other transcripts."""
        subpath = key.get("subpath") or ""
        for left in range(TRIES, 0, -1):
            found = await self._find(key)
            if found is None:
                return
            session, sdk_session = found
            if not subpath:
                await self._store.delete(session.id, BY, "deleted through the SDK")
                return
            patch = sdk_session.without_subkey(subpath).patch_since(sdk_session)
            try:
                if patch:
                    await self._store.patch_metadata(session.id, patch, session.version)
                return
            except (errors.VersionMismatch, errors.SessionDeleted):
                if left == 1:
                    raise

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The other transcripts of a session."""
        found = await self._find(key)
        return [] if found is None else [path for path in found[1].subkeys if found[1].holds(path)]

    def _commit(
        self,
        key: SessionKey,
        subpath: str,
        entries: list[SessionStoreEntry],
        found: tuple[Session, SdkSession] | None,
    ) -> Commit:
        before = (
            found[1]
            if found is not None
            else SdkSession(project=key["project_key"], session=key["session_id"])
        )
        if subpath:
            after = before.with_subkey(subpath)
        elif before.main and before.summary is None:
            after = before  # it was too long once: only all entries give it
        else:
            after = before.with_summary(json.dumps(_fold(before, key, entries)))
        changes: list[Entry] = []
        if found is None:
            session = ids.new(ids.SESSION)
            cwd = next((cwd for entry in entries if (cwd := storable_id(_plain(entry).get("cwd")))), None)
            node = self._store.node
            host = None if node is None else node.id
            created = c.Create(
                agent=AGENT.name, key=_name(key), cwd=cwd, host=host, metadata=after.metadata()
            )
            changes.append(created)
            if (token := storable_id(key["session_id"])) is not None:
                protocol = AGENT.protocols[0]
                changes.append(
                    c.SeeToken(agent=AGENT.name, native_id=token, protocol=protocol, seen_in="sdk")
                )
        else:
            session = found[0].id
            if patch := after.patch_since(before):
                changes.append(c.PatchMetadata(patch=patch, version=found[0].version))
        return Commit(session, [*changes, *self._events(session, key, subpath, after, entries)])

    def _events(
        self,
        session: str,
        key: SessionKey,
        subpath: str,
        sdk_session: SdkSession,
        entries: list[SessionStoreEntry],
    ) -> list[Entry]:
        names = self._names.pop(session, {})
        self._names[session] = names
        while len(self._names) > NAMES:
            del self._names[next(iter(self._names))]
        now, generation = timestamps.now(), sdk_session.generation(subpath)
        return [
            event
            for entry in entries
            for event in events(_plain(entry), key["session_id"], subpath, generation, names, now)
        ]

    async def _load(self, session: str, subpath: str, generation: int) -> list[SessionStoreEntry]:
        loaded: list[SessionStoreEntry] = []
        after = 0
        while page := await self._store.events(session, after=after, limit=PAGE):
            after = page[-1].seq
            for event in page:
                entry = stored_entry(event.body, subpath, generation)
                if entry is not None:
                    loaded.append(cast(SessionStoreEntry, entry))
        return loaded

    async def _find(self, key: SessionKey | SessionListSubkeysKey) -> tuple[Session, SdkSession] | None:
        try:
            session = await self._store.session(await self._store.resolve(_name(key)))
        except errors.NotFound:
            return None
        sdk_session = sdk_sessions.sdk_session(session)
        if session.state == "deleted":
            return None
        if sdk_session is None:
            raise errors.MetadataUnreadable(
                f"the metadata of {session.id} does not name the SDK session that it stores"
            )
        return session, sdk_session

    async def _sdk_sessions(self, project: str) -> AsyncIterator[tuple[Session, SdkSession]]:
        """The sessions of a project that have a main transcript, and what each stores."""
        before: str | None = None
        seen: set[str] = set()
        while True:
            page = await self._store.sessions(
                agent=AGENT.name, text=sdk_sessions.key_prefix(project), empty=True, before=before, limit=PAGE
            )
            for session in page.sessions:
                sdk_session = sdk_sessions.sdk_session(session)
                if (
                    sdk_session is None
                    or sdk_session.project != project
                    or not sdk_session.main
                    or session.id in seen
                ):
                    continue
                seen.add(session.id)
                yield session, sdk_session
            if page.next is None:
                return
            before = page.next

    async def _summary(self, session: Session, sdk_session: SdkSession) -> SessionSummaryEntry:
        if sdk_session.summary is not None:
            data = json.loads(sdk_session.summary)
        else:
            key: SessionKey = {"project_key": sdk_session.project, "session_id": sdk_session.session}
            data = fold_session_summary(None, key, await self._load(session.id, "", 0))["data"]
        return {"session_id": sdk_session.session, "mtime": _millis(session), "data": data}


def _fold(before: SdkSession, key: SessionKey, entries: list[SessionStoreEntry]) -> dict[str, Any]:
    previous: SessionSummaryEntry | None = None
    if before.summary is not None:
        previous = {"session_id": before.session, "mtime": 0, "data": json.loads(before.summary)}
    return fold_session_summary(previous, key, entries)["data"]


def _name(key: SessionKey | SessionListSubkeysKey) -> str:
    return sdk_sessions.session_key(key["project_key"], key["session_id"])


def _plain(entry: SessionStoreEntry) -> dict[str, Any]:
    return cast(dict[str, Any], entry)


def _millis(session: Session) -> int:
    """When the session was last written, in the SDK's time format."""
    return int(timestamps.parse(session.updated_at) * 1000)
