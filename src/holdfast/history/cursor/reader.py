"""The reader of Cursor's stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress

import msgspec

from holdfast import clock
from holdfast.errors import HoldfastError
from holdfast.history import living
from holdfast.history.cursor import cli_store, places, sdk, shells, transcript
from holdfast.history.cursor.judging import judge
from holdfast.history.cursor.places import ACP, LEGACY, SDK_JSONL, SDK_SQLITE, TRANSCRIPT, Spot
from holdfast.history.cursor.sdk_jsonl import JsonlStore
from holdfast.history.cursor.sdk_sqlite import SqliteStore, blobs_path
from holdfast.history.reader import Inspection, Place, Problem
from holdfast.model.event import NewEvent
from holdfast.process import tree

Item = NewEvent | Problem
_SDK = (SDK_SQLITE, SDK_JSONL)


class CursorReader:
    """All that Cursor's SDK, its CLI and its editor keep of their agents."""

    agent = "cursor"
    missing = "missing_store"
    uncopied = "a store of Cursor's holds the key of its conversation, so only transcripts are copied"

    def root(self, env: Mapping[str, str]) -> str:
        """`~/.cursor`, or where its variable says."""
        told = env.get("CURSOR_DATA_DIR", "").strip()
        return told or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".cursor")

    def find(self, root: str, name: str) -> list[Place]:
        """The sessions of that id, or at that path; several only if none is clearly the one that counts.

        Of one conversation the ACP store counts before an older chat that it continues, and any store
        before a transcript.
        """
        found: list[Place] = []
        if places.is_id(name):
            for spot in places.spots(root):
                if spot.form in _SDK or _name(spot) == name:
                    found += [place for place in _places(spot) if place.native_id == name]
        if not found and os.path.exists(name):
            for spot in places.spots(name):
                found += _places(spot)
        return _chosen(found)

    def sessions(self, root: str, cwd: str | None = None) -> Iterator[Place]:
        """All sessions, or those of one cwd; one odd file never stops the rest."""
        found: dict[str, list[Place]] = {}
        for spot in places.spots(root):
            if cwd is None or spot.form in (*_SDK, ACP) or _may_be_of(spot, cwd):
                for place in _places(spot, cwd):
                    if cwd is None or _same_folder(place.cwd, cwd):
                        found.setdefault(place.native_id, []).append(place)
        for several in found.values():
            yield from _chosen(several)

    def events(self, place: Place) -> Iterator[NewEvent]:
        """The history in its logical order, as the runner would have written it."""
        for item in _story(place, about=False):
            if isinstance(item, NewEvent):
                yield item

    def inspect(self, place: Place) -> Inspection:
        """Whether the stored session is sound, from the store alone."""
        found = judge(_story(place, about=True), has_runs=place.form in _SDK)
        return Inspection(
            agent=self.agent,
            native_id=place.native_id,
            path=place.path,
            sound=not found.problems,
            problems=found.problems,
            dangling=found.dangling,
            turns=found.turns,
            last_complete=found.last_complete,
            title=place.title,
            cwd=place.cwd,
        )

    def files(self, place: Place) -> list[str]:
        """The transcript, and no store: each holds a key of its conversation that must not be copied."""
        return [place.path] if place.form == TRANSCRIPT else []

    def owners(self, root: str, place: Place) -> list[int]:
        """The processes that have its database open; a store in JSONL shows none."""
        if place.form == SDK_SQLITE:
            return living.writers(blobs_path(place.path, place.native_id))
        return living.writers(place.path) if place.form in (ACP, LEGACY) else []

    def tools(self, root: str, place: Place) -> list[int]:
        """What the processes that have its database open have started, and shells that outlived them."""
        table = tree.table()
        found = {p.pid for owner in self.owners(root, place) for p in tree.descendants(table, owner)}
        if place.cwd is not None and (dangling := self.inspect(place).dangling):
            found.update(shells.left(table, place.cwd), living.commands(dangling, place.cwd))
        return sorted(found)


def _story(place: Place, about: bool) -> Iterator[Item]:
    """Everything that a store tells; `about`: also what is wrong besides its events."""
    if place.form in (ACP, LEGACY):
        yield from cli_store.story(place.path, place.form, place.native_id)
    elif place.form == TRANSCRIPT:
        yield from transcript.story(place.path, place.native_id)
    elif place.form in _SDK:
        with _sdk_store(place.form, place.path) as store:
            agents = [agent for agent in store.agents() if agent.id == place.native_id]
            for agent in agents[:1]:
                yield from sdk.story(store, agent)
                if about:
                    yield from sdk.about(store, agent)
            if not agents:
                yield Problem("missing_store", "the store has no such agent", {"path": place.path})
                yield from store.rest(place.native_id)


def _sdk_store(form: str, path: str) -> AbstractContextManager[sdk.Store]:
    return SqliteStore(path) if form == SDK_SQLITE else JsonlStore(path)


def _places(spot: Spot, cwd: str | None = None) -> list[Place]:
    """The sessions in a store; none if it cannot be read now."""
    try:
        if spot.form in _SDK:
            return list(_agents(spot))
        if spot.form == TRANSCRIPT:
            return [_place(spot, _name(spot), cwd)]
        header = cli_store.header(spot.path, spot.form)
        # A store under a name of its own tells its id itself.
        told = _name(spot) if os.path.basename(spot.path) == places.STORE else header.id or _name(spot)
        known = header.cwd or (cwd if spot.form == LEGACY else None)
        return [_place(spot, told, known, header.name)]
    except HoldfastError:
        return []


def _agents(spot: Spot) -> Iterator[Place]:
    with _sdk_store(spot.form, spot.path) as store:
        for agent in store.agents():
            if spot.only in (None, os.path.basename(os.path.dirname(blobs_path(spot.path, agent.id)))):
                place = _place(spot, agent.id, agent.cwd, agent.name)
                yield msgspec.structs.replace(place, updated_at=agent.updated or place.updated_at)


def _place(spot: Spot, native_id: str, cwd: str | None, title: str | None = None) -> Place:
    changed = None
    with suppress(OSError):
        changed = clock.stamp(os.stat(spot.path).st_mtime)
    return Place(
        agent=CursorReader.agent,
        native_id=native_id,
        path=spot.path,
        cwd=cwd,
        title=title,
        updated_at=changed,
        form=spot.form,
    )


def _name(spot: Spot) -> str:
    """The id that a store's path tells."""
    if spot.form == TRANSCRIPT or os.path.basename(spot.path) != places.STORE:
        return os.path.splitext(os.path.basename(spot.path))[0]
    return os.path.basename(os.path.dirname(spot.path))


def _may_be_of(spot: Spot, cwd: str) -> bool:
    if spot.form == LEGACY:
        return os.path.basename(os.path.dirname(os.path.dirname(spot.path))) == places.drawer(cwd)
    return places.project(spot.path) == places.slug(cwd)


def _same_folder(told: str | None, cwd: str) -> bool:
    return told is not None and os.path.normpath(told) == os.path.normpath(cwd)


def _chosen(found: Iterable[Place]) -> list[Place]:
    """The candidates that are left where one plainly stands for another, best first."""
    rest = list(found)
    stores = {place.native_id for place in rest if place.form != TRANSCRIPT}
    rest = [place for place in rest if place.form != TRANSCRIPT or place.native_id not in stores]
    for acp in [place for place in rest if place.form == ACP]:
        turns = cli_store.header(acp.path, ACP).turns
        rest = [p for p in rest if not (_is_older(p, acp) and _begins(turns, p))]
    return sorted(rest, key=lambda place: (place.native_id, _RANK.index(place.form), place.path))


_RANK = (SDK_SQLITE, SDK_JSONL, ACP, LEGACY, TRANSCRIPT)


def _is_older(place: Place, acp: Place) -> bool:
    return place.form == LEGACY and place.native_id == acp.native_id


def _begins(turns: tuple[str, ...], legacy: Place) -> bool:
    """Whether what an older chat has is all in the ACP store, which was copied from it."""
    older = cli_store.header(legacy.path, LEGACY).turns
    return turns[: len(older)] == older
