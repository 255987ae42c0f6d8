"""What a session's sidecar should contain: a pure function of the session's state."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.peers.hermes import database_rows, interrupted_turns, merge, sidecar, values
from holdfast.peers.hermes.conversation import comparable_all
from holdfast.peers.hermes.facts import sidecar_messages
from holdfast.peers.hermes.findings import orphan_results, problem_key
from holdfast.peers.hermes.messages import HermesMessage, read_message
from holdfast.peers.hermes.session_state import SessionState
from holdfast.peers.hermes.sidecar import (
    ANCHOR_FIELD,
    SCENES,
    Sidecar,
    SidecarDraft,
    encode,
    move_anchor,
    move_cards,
)
from holdfast.transcripts.reader import TranscriptProblem

Positions = dict[int, int]  # old position of a copy's message: its position in the merged list

MAX_STEPS = 4
MERGED = frozenset({"shrunken_live", "live_behind_db", "content_diverged"})
REBUILT = frozenset({"torn_live", "empty_live", "malformed_session", "orphan_backup", "missing_sidecar"})
CLEANED = frozenset(
    {"count_mismatch", "duplicate_partials", "lone_surrogate", "orphan_tool_row", "session_id_mismatch"}
)
TURNS = frozenset({"stale_stream", "journal_pending_turn"})
REPAIRABLE = MERGED | REBUILT | CLEANED | TURNS


class SessionRepair(msgspec.Struct, frozen=True):
    """The problems of a session, and the bytes that fix as many of them as possible."""

    problems: list[TranscriptProblem]
    fixed: frozenset[tuple[str, str]] = frozenset()  # keys of the problems that the bytes fix
    data: bytes | None = None  # the new sidecar; None: the sidecar stays as it is


def repair_session(state: SessionState) -> SessionRepair:
    """Plan a repair; a problem counts as fixed only if it is gone afterward and no message is lost."""
    problems = state.problems
    codes = _codes(state)
    if not codes & REPAIRABLE or not _may_repair(state, codes):
        return SessionRepair(problems)
    try:
        after, data = _repaired(state)
    except ValueError:  # nested too deep to be written
        return SessionRepair(problems)
    if data is None or not _keeps_everything(_sources(state, codes), after.facts.live):
        return SessionRepair(problems)
    left = {problem_key(problem) for problem in after.problems}
    fixed = frozenset(key for problem in problems if (key := problem_key(problem)) not in left)
    return SessionRepair(problems, fixed, data) if fixed else SessionRepair(problems)


def comparable_raw(messages: list[Any]) -> list[merge.ComparableMessage]:
    """The raw messages of a sidecar in the form that a merge compares."""
    return comparable_all([_read(raw, position) for position, raw in enumerate(messages)])


def _codes(state: SessionState) -> set[str]:
    """What to repair; copies that diverge without one continuing the other are left to a person."""
    codes = {problem.code for problem in state.problems}
    return codes if "content_diverged" not in codes or _continues(state) else codes - {"content_diverged"}


def _may_repair(state: SessionState, codes: set[str]) -> bool:
    facts = state.facts
    if "orphan_backup_no_row" in codes or state.may_be_running():
        return False
    known = facts.header is not None or facts.backup.usable  # otherwise the file may be anybody's
    if "session_id_mismatch" in codes and not (facts.live.nameless and known):
        return False
    if facts.live.state == "unreadable" or not facts.live.path:
        return False
    if facts.live.state == "absent" and (facts.unknown_schema or state.may_be_deleted):
        return False
    if not facts.exists and not state.entry:
        return False  # only a journal is left: the rest may have been deleted on purpose
    return not (facts.live.state == "whole" and facts.live.head.get("pre_compression_snapshot"))


def _repaired(state: SessionState) -> tuple[SessionState, bytes | None]:
    """The state after the repair and the bytes that lead to it: merge first, then clean up."""
    data = None
    for _ in range(MAX_STEPS):
        draft = _next_draft(state, _codes(state))
        if draft is None:
            break
        encoded = encode(draft)
        if encoded == data:
            break
        data = encoded
        state = state.with_live(sidecar.read(state.facts.live.path, data))
    return state, data


def _next_draft(state: SessionState, codes: set[str]) -> SidecarDraft | None:
    live = state.facts.live
    if live.state != "whole" or codes & MERGED:
        if not state.conversation.has_messages() and not _is_known_empty(state):
            return None  # there is nothing to build a session from
        return _merged(_sources(state, codes))
    if codes & TURNS and not state.has_child:
        draft = SidecarDraft.of(live)
        interrupted_turns.recover(state, draft)
        return draft
    return _cleaned(state) if codes & CLEANED else None


def _is_known_empty(state: SessionState) -> bool:
    """Whether a session without messages never had any."""
    live = state.facts.live
    return live.head.get("message_count") == 0 or live.state == "absent" or bool(state.rows)


def _sources(state: SessionState, codes: set[str]) -> SessionState:
    """The state with only those copies that messages may be taken from: none that merely differs."""
    whole = state.facts.live.state == "whole"
    use_backup = not whole or bool(codes & {"shrunken_live", "content_diverged"})
    return state.without(backup=not use_backup, rows=whole and not codes & MERGED)


def _continues(state: SessionState) -> bool:
    """Whether everything that only other copies have was said before everything in the live file."""
    live_times = [message.at for message in state.facts.live_messages if not message.marker]
    copies = [side or row for row, side in state.conversation.copies()]
    other_times = [message.at for message in copies if message is not None and message.source != "sidecar"]
    started = [at for at in live_times if at is not None]
    ended = [at for at in other_times if at is not None]
    if len(started) < len(live_times) or len(ended) < len(other_times) or not started or not ended:
        return False
    return max(ended) < min(started)


def _keeps_everything(state: SessionState, repaired: Sidecar) -> bool:
    """Whether a sidecar has every message of the copies that it was built from."""
    now = comparable_raw(repaired.messages)
    copies = [side or row for row, side in state.conversation.copies()]
    every = [message for message in copies if message is not None]
    return all(
        not merge.plan_merge(now, comparable_all(copy)).after for copy in (state.facts.live_messages, every)
    )


def _merged(state: SessionState) -> SidecarDraft:
    """Every message of any copy once; messages that the sidecar has stay as they are, byte for byte."""
    live, backup = state.facts.live, state.facts.backup
    messages: list[Any] = []
    moved: dict[str, Positions] = {"sidecar": {}, "backup": {}}
    for row, side in state.conversation.copies():
        if side is not None:
            position = int(side.place)
            moved[side.source][position] = len(messages)
            raw = (live if side.source == "sidecar" else backup).messages[position]
            messages.append(raw if row is None else database_rows.completed(raw, row))
        elif row is not None:
            messages.append(database_rows.message(row))
    head = _head(state, messages)
    if ANCHOR_FIELD in head:
        source, old = ("sidecar", live) if ANCHOR_FIELD in live.head else ("backup", backup)
        head[ANCHOR_FIELD] = move_anchor(head[ANCHOR_FIELD], old.messages, messages, moved[source])
    return SidecarDraft(head, messages, _cards(state, moved), _context(state, messages))


def _head(state: SessionState, messages: list[Any]) -> dict[str, Any]:
    """The fields of the live file; missing ones come from the backup, then from the row."""
    facts = state.facts
    head = dict(facts.live.head) if facts.live.usable or facts.live.state == "malformed" else {}
    if facts.backup.usable and not facts.shrink_reason:
        for name in (SCENES, "anchor_scene_index"):
            mine, theirs = head.get(name), facts.backup.head.get(name)
            if isinstance(mine, dict) and isinstance(theirs, dict):
                head[name] = {**theirs, **mine}
        head = {**facts.backup.head, **head}
    row = database_rows.head(state.native_id, facts.header, state.entry)
    head = {**row, **{name: value for name, value in head.items() if not _is_void(name, value, row)}}
    head["session_id"] = state.native_id
    times = [at for raw in messages if (at := _read(raw, 0).at)]
    head.setdefault("title", database_rows.UNTITLED)
    head.setdefault("created_at", min(times, default=0.0))
    head.setdefault("updated_at", max(times, default=head["created_at"]))
    return head


def _is_void(name: str, value: Any, row: dict[str, Any]) -> bool:
    """Whether a field is empty while the row has a value; the web UI replaces "" with its own folder."""
    return name in ("workspace", "title", "created_at") and name in row and value in (None, "", 0)


def _cards(state: SessionState, moved: dict[str, Positions]) -> list[Any]:
    live, backup = state.facts.live, state.facts.backup
    cards = move_cards(live.cards, moved["sidecar"])
    known = {_card_key(card) for card in cards}
    if backup.usable and not state.facts.shrink_reason:
        theirs = move_cards(backup.cards, moved["backup"])
        cards = [card for card in theirs if _card_key(card) not in known] + cards
    return cards


def _card_key(card: Any) -> str:
    if isinstance(card, dict) and (own := values.identifier(card.get("tid"))):
        return own
    return repr(card)


def _context(state: SessionState, messages: list[Any]) -> list[Any]:
    """The messages for the model: its own list where there is one; summarized messages do not come back.

    Empty means: the same as the visible messages.
    """
    live, backup = state.facts.live, state.facts.backup
    if any(_read(raw, 0).summary for raw in live.context):
        return list(live.context)
    older = backup.context if backup.usable and not state.facts.shrink_reason else []
    if not live.context and not older:
        return []
    base = _merged_lists(older, live.context)
    if any(_read(raw, 0).summary for raw in base):
        return base
    return _merged_lists(_without_markers(messages), base)


def _merged_lists(first: list[Any], second: list[Any]) -> list[Any]:
    """Two lists of messages as one; where both have a message, the second's copy is taken."""
    plan = merge.plan_merge(comparable_raw(first), comparable_raw(second))
    twins = {theirs: mine for mine, theirs in plan.pairs.items()}
    merged = [second[n] for n in plan.after.get(-1, ())]
    for position, raw in enumerate(first):
        merged.append(second[twins[position]] if position in twins else raw)
        merged += [second[n] for n in plan.after.get(position, ())]
    return merged


def _without_markers(messages: list[Any]) -> list[Any]:
    return [raw for raw in messages if isinstance(raw, dict) and not _read(raw, 0).marker]


def _cleaned(state: SessionState) -> SidecarDraft:
    live = state.facts.live
    draft = SidecarDraft.of(live)
    draft.head["session_id"] = state.native_id
    kept = [int(message.place) for message in state.facts.live_messages]
    draft.move([live.messages[old] for old in kept], {old: new for new, old in enumerate(kept)})
    draft.context = _clean_context(live, draft.messages)
    return draft


def _clean_context(live: Sidecar, messages: list[Any]) -> list[Any]:
    """The messages for the model without results that have no call and without repeated partial answers."""
    context = Sidecar(path="", state="whole", messages=live.context or messages)
    kept = [context.messages[int(message.place)] for message in sidecar_messages(context, "sidecar")]
    orphans = {position for position, _ in orphan_results(kept)}
    if not live.context and not orphans:
        return []
    return [raw for position, raw in enumerate(kept) if position not in orphans]


def _read(raw: Any, position: int) -> HermesMessage:
    return read_message(raw if isinstance(raw, dict) else {"value": raw}, "sidecar", str(position))
