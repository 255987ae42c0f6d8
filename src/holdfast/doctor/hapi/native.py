"""Looking for a session's conversation in the agents' own stores on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

import apsw

from holdfast import clock, errors
from holdfast.agents.registry import Registry
from holdfast.doctor.hapi.candidate import Candidate
from holdfast.doctor.hapi.session import Session
from holdfast.history.hapi.flavor import FLAVORS, PROTOCOL
from holdfast.history.reader import Place, Reader

EARLIER_S = 300.0  # clocks and slow starts: a store may have been written this long before the first message

_UNREADABLE = (errors.HoldfastError, OSError, apsw.Error, ValueError)


class NativeStores:
    """The agents' own stores, as the user of this process has them during one look."""

    def __init__(self, env: Mapping[str, str]):
        self._env = env
        self._registry = Registry()
        self._readers: dict[str, Reader] = {}
        self._known: dict[tuple[str, str, str], list[Place]] = {}

    def conversations(self, session: Session) -> list[Candidate]:
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

    def protocols(self, session: Session) -> list[Candidate]:
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

    def _places(self, agent: str, session: Session, path: str) -> Iterator[Place]:
        first = (session.story.first_at or session.row.created_at) / 1000 - EARLIER_S
        for root in self._roots(agent, session):
            for place in self._held_in(agent, root, path):
                if place.updated_at is None or clock.parse(place.updated_at) >= first:
                    yield place

    def _held_in(self, agent: str, root: str, path: str) -> list[Place]:
        """All that were held in a folder; a store is searched for each folder once."""
        known = self._known.get((agent, root, path))
        if known is None:
            known = self._known[(agent, root, path)] = []
            with suppress(*_UNREADABLE):
                known.extend(self._reader(agent).sessions(root, path))
        return known

    def _telling(self, agent: str, session: Session, path: str, prompts: list[str]) -> Iterator[Place]:
        """One place of each conversation that has these prompts."""
        told = set()
        for place in self._places(agent, session, path):
            name = (place.native_id, self._protocol(place))
            if place.agent == "cursor" and name[1] is None:
                continue  # a store of the SDK's, which no hapi has made
            if name not in told and self._tells(agent, place, prompts):
                told.add(name)
                yield place

    def _tells(self, agent: str, place: Place, prompts: list[str]) -> bool:
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

    def _protocol(self, place: Place) -> str | None:
        if place.agent != "cursor":
            return None
        return self._registry.get(place.agent).protocol_of(place.form)

    def _roots(self, agent: str, session: Session) -> list[str]:
        """The store of the user who looks, and of the one whom the session names."""
        homes = [dict(self._env)]
        if told := session.metadata.string("homeDir"):
            homes.append({"HOME": told})
        roots = dict.fromkeys(self._reader(agent).root(env) for env in homes)
        return [root for root in roots if os.path.exists(root)]

    def _reader(self, agent: str) -> Reader:
        if agent not in self._readers:
            history = self._registry.get(agent).history
            assert history is not None
            self._readers[agent] = history()
        return self._readers[agent]
