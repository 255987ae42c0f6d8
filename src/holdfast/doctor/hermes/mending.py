"""What a session's sidecar should hold: a pure function of its chart."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.doctor.hermes import merging, turns
from holdfast.doctor.hermes.chart import Chart
from holdfast.doctor.hermes.form import Body, encode
from holdfast.doctor.hermes.symptoms import name, orphans, symptoms
from holdfast.history.hermes import facts as found_facts
from holdfast.history.hermes import sidecar
from holdfast.history.hermes.sidecar import Sidecar
from holdfast.history.reader import Problem

MOST_STEPS = 4
MERGED = frozenset({"shrunken_live", "live_behind_db", "content_diverged"})
REBUILT = frozenset({"torn_live", "empty_live", "malformed_session", "orphan_backup", "missing_sidecar"})
TIDIED = frozenset(
    {"count_mismatch", "duplicate_partials", "lone_surrogate", "orphan_tool_row", "session_id_mismatch"}
)
TURNS = frozenset({"stale_stream", "journal_pending_turn"})
MENDABLE = MERGED | REBUILT | TIDIED | TURNS


class Remedy(msgspec.Struct, frozen=True):
    """What is wrong, and the bytes with which as much of it as can be is not."""

    found: list[Problem]
    mended: frozenset[tuple[str, str]] = frozenset()  # names of the problems that are gone then
    data: bytes | None = None  # what the sidecar should hold; None: it stays as it is


def remedy(chart: Chart) -> Remedy:
    """Only what another look would find gone is called mended, and only if no message is lost by it."""
    found = symptoms(chart)
    codes = _codes(chart, found)
    if not codes & MENDABLE or not _may_be_touched(chart, codes):
        return Remedy(found)
    try:
        after, data = _mended(chart)
    except ValueError:  # nested too deep to be written
        return Remedy(found)
    if data is None or not merging.nothing_lost(_sources(chart, codes), after.facts.live):
        return Remedy(found)
    left = {name(problem) for problem in symptoms(after)}
    mended = frozenset(own for problem in found if (own := name(problem)) not in left)
    return Remedy(found, mended, data) if mended else Remedy(found)


def _codes(chart: Chart, found: list[Problem]) -> set[str]:
    """What is to be mended; copies of which neither goes on where the other ends are for a person."""
    codes = {problem.code for problem in found}
    return (
        codes if "content_diverged" not in codes or merging.goes_on(chart) else codes - {"content_diverged"}
    )


def _may_be_touched(chart: Chart, codes: set[str]) -> bool:
    facts = chart.facts
    if "orphan_backup_no_row" in codes or chart.is_fresh():
        return False
    known = facts.header is not None or facts.backup.usable  # else it may be anybody's file
    if "session_id_mismatch" in codes and not (facts.live.nameless and known):
        return False
    if facts.live.state == "unreadable" or not facts.live.path:
        return False
    if facts.live.state == "absent" and (facts.unknown_schema or chart.may_be_deleted):
        return False
    if not facts.exists and not chart.entry:
        return False  # a journal alone: the rest was deleted, for all that is known
    return not (facts.live.state == "whole" and facts.live.head.get("pre_compression_snapshot"))


def _mended(chart: Chart) -> tuple[Chart, bytes | None]:
    """The chart as it would be, and the bytes that make it so: put together first, then set right."""
    data = None
    for _ in range(MOST_STEPS):
        codes = _codes(chart, symptoms(chart))
        body = _step(chart, codes)
        if body is None:
            break
        made = encode(body)
        if made == data:
            break
        data = made
        chart = chart.with_live(sidecar.read(chart.facts.live.path, data))
    return chart, data


def _step(chart: Chart, codes: set[str]) -> Body | None:
    live = chart.facts.live
    if live.state != "whole" or codes & MERGED:
        if not chart.story().has_messages() and not _is_known_empty(chart):
            return None  # there is nothing to make a session of
        return merging.merged(_sources(chart, codes))
    if codes & TURNS and not chart.has_child:
        body = Body.of(live)
        turns.recover(chart, body)
        return body
    return _tidied(live, chart.native_id) if codes & TIDIED else None


def _is_known_empty(chart: Chart) -> bool:
    """Whether a session without messages is what it was, and not all that is left of it."""
    told = chart.facts.live.head.get("message_count") == 0
    return told or chart.facts.live.state == "absent" or bool(chart.rows)


def _sources(chart: Chart, codes: set[str]) -> Chart:
    """The chart with those copies only that may be taken from: none that merely differs."""
    whole = chart.facts.live.state == "whole"
    backup = not whole or bool(codes & {"shrunken_live", "content_diverged"})
    return chart.without(backup=not backup, rows=whole and not codes & MERGED)


def _tidied(live: Sidecar, native_id: str) -> Body:
    body = Body.of(live)
    body.head["session_id"] = native_id
    kept = [int(message.place) for message in found_facts.messages(live, "sidecar")]
    body.move([live.messages[place] for place in kept], {old: n for n, old in enumerate(kept)})
    body.context = _without_orphans(live, body.messages)
    return body


def _without_orphans(live: Sidecar, messages: list[Any]) -> list[Any]:
    """What the model is told: no answer without its question, no partial answer twice."""
    told = Sidecar(path="", state="whole", messages=live.context or messages)
    kept = [told.messages[int(message.place)] for message in found_facts.messages(told, "sidecar")]
    lost = {place for place, _ in orphans(kept)}
    if not live.context and not lost:
        return []
    return [value for place, value in enumerate(kept) if place not in lost]
