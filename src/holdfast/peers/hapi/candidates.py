"""Ways to give a session back what its metadata lack, and when one may be taken without asking."""

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
from holdfast.peers.hapi.database import FLAVORS, PROTOCOL, TOKENS, HapiDatabase
from holdfast.peers.hapi.metadata import HapiMetadata
from holdfast.peers.hapi.sessions import HapiSession
from holdfast.transcripts.reader import SessionRef, TranscriptReader

CHOICE = "choice"

Keys = dict[str, str]


class Candidate(msgspec.Struct, frozen=True):
    """One way to mend a session's metadata, and what speaks for it."""

    keys: Keys
    source: str  # `messages`, `native store`, `its token`, `choice`
    path: str = ""  # of a native store
    held_by: str = ""  # another session that has this token already


def from_messages(session: HapiSession) -> list[Candidate]:
    """What the session's own messages say that its metadata lacks; several where they disagree."""
    found = []
    for flavor, ids in session.story.ids().items():
        if session.flavor in (None, flavor):
            common = {"flavor": flavor} if session.flavor is None else {}
            for name in sorted(ids, key=lambda n: -ids[n]):
                keys = {str(FLAVORS[flavor].token): name, **common, **_place(session)}
                found.append(Candidate(keys, "messages"))
    return found


def from_tokens(session: HapiSession) -> list[Candidate]:
    """The flavor of a session that names none, if it has one token and no message speaks against it."""
    tokens = session.metadata.tokens()
    named = {flavor for flavor, ids in session.story.ids().items() if ids}
    if session.flavor is None and len(tokens) == 1 and named <= tokens.keys():
        return [Candidate({"flavor": next(iter(tokens)), **_place(session)}, "its token")]
    return []


def from_folders(session: HapiSession) -> list[Candidate]:
    """The folder of a session that names none, if its messages were all said in one."""
    place = _place(session)
    return [Candidate(place, "messages")] if place else []


def apply_choice(session: HapiSession, candidates: list[Candidate], token: str) -> list[Candidate]:
    """The one that a person chose: one of the candidates, or a token that only the person knows."""
    picked = [replace(c, source=CHOICE) for c in candidates if token in c.keys.values()][:1]
    known = FLAVORS.get(session.flavor or "")
    if picked or not session.lacks_token or session.cleared or known is None or known.token is None:
        return picked or candidates
    return [Candidate({known.token: token}, CHOICE)]


def only_candidate(candidates: list[Candidate]) -> Candidate | None:
    """The one that may be taken without asking."""
    return candidates[0] if len(candidates) == 1 and not candidates[0].held_by else None


def _place(session: HapiSession) -> Keys:
    """Where it ran, as far as its metadata lack that and it can be told."""
    metadata, cwds = session.metadata, session.story.cwds
    if metadata.string("path") is not None or len(cwds) != 1:
        return {}
    place = {"path": next(iter(cwds))}
    if session.host is not None and not isinstance(metadata.fields.get("host"), str):
        place["host"] = session.host  # hapi reads no metadata that has a path and no host
    return place


# --- What the rest of an install says about one session: who has which token, and on which host all ran.


class InstallOverview:
    """One pass over the metadata of all sessions and machines."""

    def __init__(self, db: HapiDatabase):
        self._holders: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._hosts: set[str] = set()
        with suppress(apsw.Error):  # of a damaged file what can be read; whoever reads on tells of it
            for row in db.sessions():
                self._take(row.id, HapiMetadata(row.metadata))
            for text in db.machines():
                self._take_host(HapiMetadata(text))

    @property
    def host(self) -> str | None:
        """Where all of the install ran, if that is one place."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else None

    def told(self, candidate: Candidate, session: str) -> Candidate:
        """The candidate, with the other session that has its token, if there is one.

        hapi makes one row of two with the same token and deletes the other: that is a person's to say.
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


# --- Looking for a session's conversation in the agents' own stores on this machine.

EARLIER_S = 300.0  # clocks and slow starts: a store may have been written this long before the first message

_UNREADABLE = (errors.HoldfastError, OSError, apsw.Error, ValueError)


class NativeStores:
    """The agents' own stores, as the user of this process has them during one look."""

    def __init__(self, env: Mapping[str, str]):
        self._env = env
        self._registry = AgentRegistry()
        self._readers: dict[str, TranscriptReader] = {}
        self._known: dict[tuple[str, str, str], list[SessionRef]] = {}

    def conversations(self, session: HapiSession) -> list[Candidate]:
        """Those of the session's agent that were held in its folder and have all its prompts.

        Of a session that does not say which agent it is of, those of all agents.
        """
        path, prompts = session.metadata.string("path"), list(session.story.prompts)
        if path is None or not prompts:
            return []
        asked = [session.flavor] if session.flavor else list(FLAVORS)
        found: list[Candidate] = []
        for name in asked:
            flavor = FLAVORS.get(name)
            if flavor is not None and flavor.agent is not None and flavor.token is not None:
                common = {} if session.flavor else {"flavor": name}
                for place in self._telling(flavor.agent, session, path, prompts):
                    keys = {flavor.token: place.native_id, **common}
                    if protocol := self._protocol(place):
                        keys[PROTOCOL] = protocol
                    found.append(Candidate(keys, "native store", place.path))
        return found

    def protocols(self, session: HapiSession) -> list[Candidate]:
        """For a Cursor id without its protocol: what the store that has it says."""
        if session.token is None:
            return []
        found = {}
        for root in self._roots("cursor", session):
            try:
                places = self._reader("cursor").find(root, session.token)
            except _UNREADABLE:
                continue
            for place in places:
                if protocol := self._protocol(place):
                    found[protocol] = Candidate({PROTOCOL: protocol}, "native store", place.path)
        return list(found.values())

    def _places(self, agent: str, session: HapiSession, path: str) -> Iterator[SessionRef]:
        first = (session.story.first_at or session.row.created_at) / 1000 - EARLIER_S
        for root in self._roots(agent, session):
            for place in self._held_in(agent, root, path):
                if place.updated_at is None or timestamps.parse(place.updated_at) >= first:
                    yield place

    def _held_in(self, agent: str, root: str, path: str) -> list[SessionRef]:
        """All that were held in a folder; a store is searched for each folder once."""
        known = self._known.get((agent, root, path))
        if known is None:
            known = self._known[(agent, root, path)] = []
            with suppress(*_UNREADABLE):
                known.extend(self._reader(agent).sessions(root, path))
        return known

    def _telling(
        self, agent: str, session: HapiSession, path: str, prompts: list[str]
    ) -> Iterator[SessionRef]:
        """One place of each conversation that has these prompts."""
        told = set()
        for place in self._places(agent, session, path):
            name = (place.native_id, self._protocol(place))
            if place.agent == "cursor" and name[1] is None:
                continue  # a store of the SDK's, which no hapi has made
            if name not in told and self._tells(agent, place, prompts):
                told.add(name)
                yield place

    def _tells(self, agent: str, place: SessionRef, prompts: list[str]) -> bool:
        """Whether a conversation has these prompts, each somewhere in what its user said."""
        missing = set(prompts)
        try:
            for event in self._reader(agent).events(place):
                if event.kind == "user":
                    said = str(event.body.get("text", ""))
                    missing = {text for text in missing if text not in said}
                    if not missing:
                        return True
        except _UNREADABLE:
            return False
        return False

    def _protocol(self, place: SessionRef) -> str | None:
        if place.agent != "cursor":
            return None
        return self._registry.get(place.agent).protocol_of(place.form)

    def _roots(self, agent: str, session: HapiSession) -> list[str]:
        """The store of the user who looks, and of the one whom the session names."""
        homes = [dict(self._env)]
        if told := session.metadata.string("homeDir"):
            homes.append({"HOME": told})
        roots = dict.fromkeys(self._reader(agent).root(env) for env in homes)
        return [root for root in roots if os.path.exists(root)]

    def _reader(self, agent: str) -> TranscriptReader:
        if agent not in self._readers:
            history = self._registry.get(agent).history
            assert history is not None
            self._readers[agent] = history()
        return self._readers[agent]
