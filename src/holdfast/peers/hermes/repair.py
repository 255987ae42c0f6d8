"""What a session's sidecar should hold: a pure function of its chart."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.peers.hermes import database_rows, interrupted_turns, merge, sidecar, values
from holdfast.peers.hermes import facts as found_facts
from holdfast.peers.hermes import sidecar as anchor
from holdfast.peers.hermes.conversation import comparable_all
from holdfast.peers.hermes.findings import orphan_results, problem_key, session_problems
from holdfast.peers.hermes.messages import HermesMessage, read_message
from holdfast.peers.hermes.session_state import SessionState
from holdfast.peers.hermes.sidecar import SCENES, Sidecar, SidecarDraft, encode, move_cards
from holdfast.transcripts.reader import TranscriptProblem

Places = dict[int, int]  # where messages of a copy stand now


def merged(chart: SessionState) -> SidecarDraft:
    """Everything that any copy has, each message once; what is there stays as it is, word for word."""
    live, backup = chart.facts.live, chart.facts.backup
    messages: list[Any] = []
    now_at: dict[str, Places] = {"sidecar": {}, "backup": {}}
    for row, side in chart.story().copies():
        if side is not None:
            place = int(side.place)
            now_at[side.source][place] = len(messages)
            told = (live if side.source == "sidecar" else backup).messages[place]
            messages.append(told if row is None else database_rows.completed(told, row))
        elif row is not None:
            messages.append(database_rows.message(row))
    head = _head(chart, messages)
    if anchor.ANCHOR_FIELD in head:
        source, old = ("sidecar", live) if anchor.ANCHOR_FIELD in live.head else ("backup", backup)
        head[anchor.ANCHOR_FIELD] = anchor.move_anchor(
            head[anchor.ANCHOR_FIELD], old.messages, messages, now_at[source]
        )
    return SidecarDraft(head, messages, _cards(chart, now_at), _context(chart, messages))


def comparable_raw(told: list[Any]) -> list[merge.ComparableMessage]:
    """As much of a sidecar's messages as is needed to know them again."""
    return comparable_all([_read(value, place) for place, value in enumerate(told)])


def _head(chart: SessionState, messages: list[Any]) -> dict[str, Any]:
    """The live file's fields; what it has not, its backup's; what that has not, the row's."""
    facts = chart.facts
    head = dict(facts.live.head) if facts.live.usable or facts.live.state == "malformed" else {}
    if facts.backup.usable and not facts.why_shorter:
        for name in (SCENES, "anchor_scene_index"):
            mine, theirs = head.get(name), facts.backup.head.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                head[name] = {**theirs, **mine}
        head = {**facts.backup.head, **head}
    told = database_rows.head(chart.native_id, facts.header, chart.entry)
    head = {**told, **{name: value for name, value in head.items() if not _is_void(name, value, told)}}
    head["session_id"] = chart.native_id
    times = [at for value in messages if (at := _read(value, 0).at)]
    head.setdefault("title", database_rows.UNTITLED)
    head.setdefault("created_at", min(times, default=0.0))
    head.setdefault("updated_at", max(times, default=head["created_at"]))
    return head


def _is_void(name: str, value: Any, told: dict[str, Any]) -> bool:
    """Whether a field says nothing where its row says something; the web UI took "" for its own folder."""
    return name in ("workspace", "title", "created_at") and name in told and value in (None, "", 0)


def _cards(chart: SessionState, now_at: dict[str, Places]) -> list[Any]:
    live, backup = chart.facts.live, chart.facts.backup
    found = move_cards(live.cards, now_at["sidecar"])
    known = {_card_name(card) for card in found}
    if backup.usable and not chart.facts.why_shorter:
        theirs = move_cards(backup.cards, now_at["backup"])
        found = [card for card in theirs if _card_name(card) not in known] + found
    return found


def _card_name(card: Any) -> str:
    if isinstance(card, dict) and (own := values.identifier(card.get("tid"))):
        return own
    return repr(card)


def _context(chart: SessionState, messages: list[Any]) -> list[Any]:
    """What the model is told: its own copies where there are some, and nothing that was summed up comes back.

    Empty means the messages themselves.
    """
    live, backup = chart.facts.live, chart.facts.backup
    if any(_read(told, 0).summary for told in live.context):
        return list(live.context)
    older = backup.context if backup.usable and not chart.facts.why_shorter else []
    if not live.context and not older:
        return []
    base = _together(older, live.context)
    if any(_read(told, 0).summary for told in base):
        return base
    return _together(_projected(messages), base)


def _together(first: list[Any], second: list[Any]) -> list[Any]:
    """Two lists of messages as one; of what both have, the second's copy."""
    plan = merge.plan_merge(comparable_raw(first), comparable_raw(second))
    twins = {theirs: mine for mine, theirs in plan.pairs.items()}
    found = [second[n] for n in plan.after.get(-1, ())]
    for place, told in enumerate(first):
        found.append(second[twins[place]] if place in twins else told)
        found += [second[n] for n in plan.after.get(place, ())]
    return found


def _projected(messages: list[Any]) -> list[Any]:
    return [told for told in messages if isinstance(told, dict) and not _read(told, 0).marker]


def _read(told: Any, place: int) -> HermesMessage:
    return read_message(told if isinstance(told, dict) else {"value": told}, "sidecar", str(place))


def goes_on(chart: SessionState) -> bool:
    """Whether all that only other copies have was said before everything that the live file has."""
    live = chart.facts.live
    mine = [message.at for message in found_facts.sidecar_messages(live, "sidecar") if not message.marker]
    told = [side or row for row, side in chart.story().copies()]
    lost = [message.at for message in told if message is not None and message.source != "sidecar"]
    began = [at for at in mine if at is not None]
    ended = [at for at in lost if at is not None]
    if len(began) < len(mine) or len(ended) < len(lost) or not began or not ended:
        return False
    return max(ended) < min(began)


def nothing_lost(chart: SessionState, made: Sidecar) -> bool:
    """Whether a sidecar has every message that the copies it was made of have."""
    now = comparable_raw(made.messages)
    live = chart.facts.live
    mine = found_facts.sidecar_messages(live, "sidecar") if live.usable else []
    told = [side or row for row, side in chart.story().copies()]
    every = [message for message in told if message is not None]
    return all(not merge.plan_merge(now, comparable_all(copy)).after for copy in (mine, every))


# --- What a session's sidecar should hold: a pure function of its chart.

MOST_STEPS = 4
MERGED = frozenset({"shrunken_live", "live_behind_db", "content_diverged"})
REBUILT = frozenset({"torn_live", "empty_live", "malformed_session", "orphan_backup", "missing_sidecar"})
TIDIED = frozenset(
    {"count_mismatch", "duplicate_partials", "lone_surrogate", "orphan_tool_row", "session_id_mismatch"}
)
TURNS = frozenset({"stale_stream", "journal_pending_turn"})
MENDABLE = MERGED | REBUILT | TIDIED | TURNS


class SessionRepair(msgspec.Struct, frozen=True):
    """What is wrong, and the bytes with which as much of it as can be is not."""

    found: list[TranscriptProblem]
    mended: frozenset[tuple[str, str]] = frozenset()  # names of the problems that are gone then
    data: bytes | None = None  # what the sidecar should hold; None: it stays as it is


def repair_session(chart: SessionState) -> SessionRepair:
    """Only what another look would find gone is called mended, and only if no message is lost by it."""
    found = session_problems(chart)
    codes = _codes(chart, found)
    if not codes & MENDABLE or not _may_be_touched(chart, codes):
        return SessionRepair(found)
    try:
        after, data = _mended(chart)
    except ValueError:  # nested too deep to be written
        return SessionRepair(found)
    if data is None or not nothing_lost(_sources(chart, codes), after.facts.live):
        return SessionRepair(found)
    left = {problem_key(problem) for problem in session_problems(after)}
    mended = frozenset(own for problem in found if (own := problem_key(problem)) not in left)
    return SessionRepair(found, mended, data) if mended else SessionRepair(found)


def _codes(chart: SessionState, found: list[TranscriptProblem]) -> set[str]:
    """What is to be mended; copies of which neither goes on where the other ends are for a person."""
    codes = {problem.code for problem in found}
    return codes if "content_diverged" not in codes or goes_on(chart) else codes - {"content_diverged"}


def _may_be_touched(chart: SessionState, codes: set[str]) -> bool:
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


def _mended(chart: SessionState) -> tuple[SessionState, bytes | None]:
    """The chart as it would be, and the bytes that make it so: put together first, then set right."""
    data = None
    for _ in range(MOST_STEPS):
        codes = _codes(chart, session_problems(chart))
        body = _step(chart, codes)
        if body is None:
            break
        made = encode(body)
        if made == data:
            break
        data = made
        chart = chart.with_live(sidecar.read(chart.facts.live.path, data))
    return chart, data


def _step(chart: SessionState, codes: set[str]) -> SidecarDraft | None:
    live = chart.facts.live
    if live.state != "whole" or codes & MERGED:
        if not chart.story().has_messages() and not _is_known_empty(chart):
            return None  # there is nothing to make a session of
        return merged(_sources(chart, codes))
    if codes & TURNS and not chart.has_child:
        body = SidecarDraft.of(live)
        interrupted_turns.recover(chart, body)
        return body
    return _tidied(live, chart.native_id) if codes & TIDIED else None


def _is_known_empty(chart: SessionState) -> bool:
    """Whether a session without messages is what it was, and not all that is left of it."""
    told = chart.facts.live.head.get("message_count") == 0
    return told or chart.facts.live.state == "absent" or bool(chart.rows)


def _sources(chart: SessionState, codes: set[str]) -> SessionState:
    """The chart with those copies only that may be taken from: none that merely differs."""
    whole = chart.facts.live.state == "whole"
    backup = not whole or bool(codes & {"shrunken_live", "content_diverged"})
    return chart.without(backup=not backup, rows=whole and not codes & MERGED)


def _tidied(live: Sidecar, native_id: str) -> SidecarDraft:
    body = SidecarDraft.of(live)
    body.head["session_id"] = native_id
    kept = [int(message.place) for message in found_facts.sidecar_messages(live, "sidecar")]
    body.move([live.messages[place] for place in kept], {old: n for n, old in enumerate(kept)})
    body.context = _without_orphans(live, body.messages)
    return body


def _without_orphans(live: Sidecar, messages: list[Any]) -> list[Any]:
    """What the model is told: no answer without its question, no partial answer twice."""
    told = Sidecar(path="", state="whole", messages=live.context or messages)
    kept = [told.messages[int(message.place)] for message in found_facts.sidecar_messages(told, "sidecar")]
    lost = {place for place, _ in orphan_results(kept)}
    if not live.context and not lost:
        return []
    return [value for place, value in enumerate(kept) if place not in lost]
