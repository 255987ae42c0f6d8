"""Ways to give a session back what its metadata lack, and when one may be taken without asking."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.doctor.hapi.session import Session
from holdfast.history.hapi.flavor import FLAVORS

CHOICE = "choice"

Keys = dict[str, str]


class Candidate(msgspec.Struct, frozen=True):
    """One way to mend a session's metadata, and what speaks for it."""

    keys: Keys
    source: str  # `messages`, `native store`, `its token`, `choice`
    path: str = ""  # of a native store
    held_by: str = ""  # another session that has this token already


def from_messages(session: Session) -> list[Candidate]:
    """What the session's own messages say that its metadata lacks; several where they disagree."""
    found = []
    for flavor, ids in session.story.ids().items():
        if session.flavor in (None, flavor):
            common = {"flavor": flavor} if session.flavor is None else {}
            for name in sorted(ids, key=lambda n: -ids[n]):
                keys = {str(FLAVORS[flavor].token): name, **common, **_place(session)}
                found.append(Candidate(keys, "messages"))
    return found


def from_tokens(session: Session) -> list[Candidate]:
    """The flavor of a session that names none, if it has one token and no message speaks against it."""
    tokens = session.metadata.tokens()
    named = {flavor for flavor, ids in session.story.ids().items() if ids}
    if session.flavor is None and len(tokens) == 1 and named <= tokens.keys():
        return [Candidate({"flavor": next(iter(tokens)), **_place(session)}, "its token")]
    return []


def from_folders(session: Session) -> list[Candidate]:
    """The folder of a session that names none, if its messages were all said in one."""
    place = _place(session)
    return [Candidate(place, "messages")] if place else []


def chosen(session: Session, candidates: list[Candidate], token: str) -> list[Candidate]:
    """The one that a person chose: one of the candidates, or a token that only the person knows."""
    picked = [replace(c, source=CHOICE) for c in candidates if token in c.keys.values()][:1]
    known = FLAVORS.get(session.flavor or "")
    if picked or not session.lacks_token or session.cleared or known is None or known.token is None:
        return picked or candidates
    return [Candidate({known.token: token}, CHOICE)]


def only(candidates: list[Candidate]) -> Candidate | None:
    """The one that may be taken without asking."""
    return candidates[0] if len(candidates) == 1 and not candidates[0].held_by else None


def _place(session: Session) -> Keys:
    """Where it ran, as far as its metadata lack that and it can be told."""
    metadata, cwds = session.metadata, session.story.cwds
    if metadata.string("path") is not None or len(cwds) != 1:
        return {}
    place = {"path": next(iter(cwds))}
    if session.host is not None and not isinstance(metadata.fields.get("host"), str):
        place["host"] = session.host  # hapi reads no metadata that has a path and no host
    return place
