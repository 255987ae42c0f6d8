"""The repairs of one diagnosis: each changes one row, and no two get the same conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.doctor.plan import DatabaseStep, DoctorFinding, RowChange, RowCheck
from holdfast.peers.hapi.candidates import CHOICE, Candidate
from holdfast.peers.hapi.flavors import TOKENS
from holdfast.peers.hapi.sessions import HapiSession

_SET = (
    "update sessions set metadata = ?, metadata_version = metadata_version + 1, seq = seq + 1"
    " where rowid = ? and id = ? and cast(metadata as blob) is cast(? as blob)"
    " and metadata_version is ? and seq is ?"
)
_NOW = "select metadata, metadata_version from sessions where id = ?"

Token = tuple[str, str]  # the metadata's key, and its value


class RowRepair(msgspec.Struct, frozen=True):
    """The repair of one session's row."""

    session: str
    statement: RowChange
    check: RowCheck
    tokens: frozenset[Token]
    chosen: bool  # by the user, who knows what else has that token


def plan_repair(session: HapiSession, candidate: Candidate) -> RowRepair | None:
    """The change that adds what a session lacks; None if its row cannot be changed as hapi would."""
    row, old = session.row, session.metadata.text
    text = session.metadata.with_keys(candidate.keys)
    if text is None or not row.named or not _counts(row.version) or not _counts(row.seq):
        return None
    try:
        was = None if old is None else old.decode()
    except UnicodeDecodeError:
        return None
    return RowRepair(
        session=row.id,
        statement=RowChange(_SET, (text, row.rowid, row.id, was, row.version, row.seq)),
        check=RowCheck(_NOW, (row.id,), [(text, row.version + 1)]),
        tokens=frozenset((key, value) for key, value in candidate.keys.items() if key in TOKENS),
        chosen=candidate.source == CHOICE,
    )


def _counts(value: object) -> bool:
    """Whether it is a number that can be incremented."""
    return isinstance(value, int) and abs(value) < 1 << 62


def contested(repairs: Iterable[RowRepair]) -> set[str]:
    """The sessions that would get the same token as another; hapi would merge their rows."""
    repairs = list(repairs)
    count = Counter(token for repair in repairs for token in repair.tokens)
    return {r.session for r in repairs if not r.chosen and any(count[token] > 1 for token in r.tokens)}


def step(path: str, repairs: Sequence[RowRepair], findings: Iterable[DoctorFinding]) -> DatabaseStep:
    """All repairs in one transaction."""
    return DatabaseStep(
        path=path,
        statements=[repair.statement for repair in repairs],
        checks=[repair.check for repair in repairs],
        findings=tuple(finding.id for finding in findings if finding.action),
    )


def without_action(finding: DoctorFinding, why: str = "") -> DoctorFinding:
    """The same finding without its action."""
    if finding.action is None:
        return finding
    return replace(finding, action=None, text=f"{finding.text}; {why}" if why else finding.text)
