"""Possible values for what a session's metadata lacks, and when one is applied without asking."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

import apsw
import msgspec
from msgspec.structs import replace

from holdfast import errors, timestamps
from holdfast.agents.registry import AgentRegistry
from holdfast.peers.hapi.database import HapiDatabase
from holdfast.peers.hapi.flavors import FLAVORS, PROTOCOL, TOKENS
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.peers.hapi.sessions import HapiSession
from holdfast.transcripts.reader import SessionRef, TranscriptReader

CHOICE = "choice"

Keys = dict[str, str]


class Candidate(msgspec.Struct, frozen=True):
    """One way to repair a session's metadata, and its evidence."""

    keys: Keys
    source: str  # `messages`, `native store`, `its token`, `choice`
    path: str = ""  # the native store, if that is the source
    held_by: str = ""  # another session that has this token already


def from_messages(session: HapiSession) -> list[Candidate]:
    """What the session's own messages have and its metadata lacks; several if they disagree."""
    candidates = []
    for flavor, ids in session.conversation.ids().items():
        if session.flavor in (None, flavor):
            common = {"flavor": flavor} if session.flavor is None else {}
            for name in sorted(ids, key=lambda n: -ids[n]):
                keys = {str(FLAVORS[flavor].token): name, **common, **_missing_folder(session)}
                candidates.append(Candidate(keys, "messages"))
    return candidates


def from_tokens(session: HapiSession) -> list[Candidate]:
    """The flavor of a session that names none, if it has one token and no message contradicts it."""
    tokens = session.metadata.tokens()
    named = {flavor for flavor, ids in session.conversation.ids().items() if ids}
    if session.flavor is None and len(tokens) == 1 and named <= tokens.keys():
        return [Candidate({"flavor": next(iter(tokens)), **_missing_folder(session)}, "its token")]
    return []


def from_folders(session: HapiSession) -> list[Candidate]:
    """The folder of a session that names none, if all its messages name the same one."""
    folder = _missing_folder(session)
    return [Candidate(folder, "messages")] if folder else []


def apply_choice(session: HapiSession, candidates: list[Candidate], token: str) -> list[Candidate]:
    """The user's choice: one of the candidates, or a token that only the user knows."""
    picked = [replace(c, source=CHOICE) for c in candidates if token in c.keys.values()][:1]
    flavor = FLAVORS.get(session.flavor or "")
    if picked or not session.lacks_token or session.cleared or flavor is None or flavor.token is None:
        return picked or candidates
    return [Candidate({flavor.token: token}, CHOICE)]


def only_candidate(candidates: list[Candidate]) -> Candidate | None:
    """The candidate that is applied without asking."""
    return candidates[0] if len(candidates) == 1 and not candidates[0].held_by else None


def _missing_folder(session: HapiSession) -> Keys:
    """Where the session ran, if its metadata lacks that and it can be derived."""
    metadata, cwds = session.metadata, session.conversation.cwds
    if metadata.string("path") is not None or len(cwds) != 1:
        return {}
    keys = {"path": next(iter(cwds))}
    if session.host is not None and not isinstance(metadata.fields.get("host"), str):
        keys["host"] = session.host  # hapi reads no metadata that has a path and no host
    return keys


# --- What the rest of an install shows about one session: who has which token, and the host of all.


class InstallOverview:
    """One pass over the metadata of all sessions and machines."""

    def __init__(self, db: HapiDatabase):
        self._holders: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._hosts: set[str] = set()
        with suppress(apsw.Error):  # a damaged file: use what can be read; a later read reports the error
            for row in db.sessions():
                self._take(row.id, HapiMetadata(row.metadata))
            for text in db.machines():
                self._take_host(HapiMetadata(text))

    @property
    def host(self) -> str | None:
        """The host of the whole install, if all of it names one host."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else None

    def with_holder(self, candidate: Candidate, session: str) -> Candidate:
        """The candidate, with the other session that has its token, if there is one.

        hapi merges two sessions with the same token and deletes one row: that is for a person to decide.
        """
        if candidate.source == CHOICE:
            return candidate
        for key, value in candidate.keys.items():
            others = [name for name in self._holders.get((key, value), []) if name != session]
            if key in TOKENS and others:
                return replace(candidate, held_by=others[0])
        return candidate

    def _take(self, session: str, metadata: HapiMetadata) -> None:
        self._take_host(metadata)
        for key in TOKENS:
            if token := metadata.string(key):
                self._holders[(key, token)].append(session)

    def _take_host(self, metadata: HapiMetadata) -> None:
        if host := metadata.string("host"):
            self._hosts.add(host)


# --- A session's conversation in the agents' own stores on this machine.

EARLIER_S = 300.0  # clocks and slow starts: a store may be older than the first message by this much

_UNREADABLE = (errors.HoldfastError, OSError, apsw.Error, ValueError)


class NativeStores:
    """The agents' own stores, as this user has them."""

    def __init__(self, env: Mapping[str, str]):
        self._env = env
        self._registry = AgentRegistry()
        self._readers: dict[str, TranscriptReader] = {}
        self._refs: dict[tuple[str, str, str], list[SessionRef]] = {}

    def conversations(self, session: HapiSession) -> list[Candidate]:
        """Conversations of the session's agent in its folder that contain all its prompts.

        For a session that does not name its agent, those of all agents.
        """
        path, prompts = session.metadata.string("path"), list(session.conversation.prompts)
        if path is None or not prompts:
            return []
        names = [session.flavor] if session.flavor else list(FLAVORS)
        candidates: list[Candidate] = []
        for name in names:
            flavor = FLAVORS.get(name)
            if flavor is not None and flavor.agent is not None and flavor.token is not None:
                common = {} if session.flavor else {"flavor": name}
                for ref in self._matching(flavor.agent, session, path, prompts):
                    keys = {flavor.token: ref.native_id, **common}
                    if protocol := self._protocol(ref):
                        keys[PROTOCOL] = protocol
                    candidates.append(Candidate(keys, "native store", ref.path))
        return candidates

    def protocols(self, session: HapiSession) -> list[Candidate]:
        """For a Cursor id without its protocol: the protocol of the store that has it."""
        if session.token is None:
            return []
        candidates = {}
        for root in self._roots("cursor", session):
            try:
                refs = self._reader("cursor").find(root, session.token)
            except _UNREADABLE:
                continue
            for ref in refs:
                if protocol := self._protocol(ref):
                    candidates[protocol] = Candidate({PROTOCOL: protocol}, "native store", ref.path)
        return list(candidates.values())

    def _recent(self, agent: str, session: HapiSession, path: str) -> Iterator[SessionRef]:
        first = (session.conversation.first_at or session.row.created_at) / 1000 - EARLIER_S
        for root in self._roots(agent, session):
            for ref in self._in_folder(agent, root, path):
                if ref.updated_at is None or timestamps.parse(ref.updated_at) >= first:
                    yield ref

    def _in_folder(self, agent: str, root: str, path: str) -> list[SessionRef]:
        """All conversations of a folder; a store is searched once for each folder."""
        refs = self._refs.get((agent, root, path))
        if refs is None:
            refs = self._refs[(agent, root, path)] = []
            with suppress(*_UNREADABLE):
                refs.extend(self._reader(agent).sessions(root, path))
        return refs

    def _matching(
        self, agent: str, session: HapiSession, path: str, prompts: list[str]
    ) -> Iterator[SessionRef]:
        """Each conversation with these prompts, once."""
        yielded = set()
        for ref in self._recent(agent, session, path):
            name = (ref.native_id, self._protocol(ref))
            if ref.agent == "cursor" and name[1] is None:
                continue  # a store of the SDK, which hapi does not use
            if name not in yielded and self._has_prompts(agent, ref, prompts):
                yielded.add(name)
                yield ref

    def _has_prompts(self, agent: str, ref: SessionRef, prompts: list[str]) -> bool:
        """Whether a conversation contains these prompts, each somewhere in a user message."""
        missing = set(prompts)
        try:
            for event in self._reader(agent).events(ref):
                if event.kind == "user":
                    message = str(event.body.get("text", ""))
                    missing = {text for text in missing if text not in message}
                    if not missing:
                        return True
        except _UNREADABLE:
            return False
        return False

    def _protocol(self, ref: SessionRef) -> str | None:
        if ref.agent != "cursor":
            return None
        return self._registry.get(ref.agent).protocol_of(ref.form)

    def _roots(self, agent: str, session: HapiSession) -> list[str]:
        """The store of the current user, and of the user whom the session names."""
        homes = [dict(self._env)]
        if home := session.metadata.string("homeDir"):
            homes.append({"HOME": home})
        roots = dict.fromkeys(self._reader(agent).root(env) for env in homes)
        return [root for root in roots if os.path.exists(root)]

    def _reader(self, agent: str) -> TranscriptReader:
        if agent not in self._readers:
            history = self._registry.get(agent).history
            assert history is not None
            self._readers[agent] = history()
        return self._readers[agent]
