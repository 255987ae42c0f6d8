"""All that is written of one session, in whichever store, before anything is made of it."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from holdfast.peers.hermes import journal, sidecar, values
from holdfast.peers.hermes import values as files
from holdfast.peers.hermes.database import HermesDatabase, HermesSessionRow
from holdfast.peers.hermes.layout import DELETED, HermesLayout
from holdfast.peers.hermes.messages import HermesMessage, card_call, read_message, strip_wrappers
from holdfast.peers.hermes.sidecar import Sidecar

_GENERATION = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}")  # uuid4().hex
SAVED_S = 60.0  # an agent's rows may be that much later than the file that tells of the same turn
_CLEARED: dict[str, Any] = {
    "truncation_watermark": 0.0,
    "truncation_boundary": 0.0,
    "active_stream_id": None,
    "pending_user_message": None,
    "pending_attachments": [],
    "pending_started_at": None,
    "pending_user_source": None,
}


def shrink_reason(live: Sidecar, backup: Sidecar) -> str:
    """Why what the backup has more is gone: `clear`, `undo`, `compress`; empty if nobody meant it."""
    if not live.has_all or not backup.usable:
        return ""
    if _is_clear(live, backup):
        return "clear"
    mine, theirs = (side.head.get("intentional_shrink_generation") for side in (live, backup))
    if _is_generation(mine) and (theirs is None or (_is_generation(theirs) and theirs != mine)):
        return "undo"
    if backup.state == "whole" and _is_compressed(live) and _predates(live, backup):
        return "compress"
    return ""


def truncated_span(live: Sidecar) -> tuple[float, float] | None:
    """The times between which the user took messages back; an agent's database may have them still.

    From the boundary that was kept to the first message after it, or without end.
    """
    if not live.has_all:
        return None
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if boundary is None or (boundary and not live.messages):
        return None  # cut down to nothing would be 0.0: this one was lost since
    watermark = values.seconds(live.head.get("truncation_watermark"))
    later = [
        at
        for told in live.messages
        if isinstance(told, dict) and (at := values.seconds(told.get("timestamp"))) and at > boundary
    ]
    if watermark is not None and watermark > boundary:
        later.append(watermark)
    if not later and (saved := values.seconds(live.head.get("updated_at"))):
        later.append(max(boundary, saved) + SAVED_S)
    return boundary, min(later, default=float("inf"))


def compressed_until(live: Sidecar) -> float | None:
    """Up to when a compaction by hand may have taken messages away; None if there was none."""
    by_hand = values.identifier(live.head.get("compression_anchor_mode")).strip().lower() == "manual"
    if live.state != "whole" or not live.messages or not by_hand:
        return None
    told = (values.seconds(live.head.get(name)) for name in ("truncation_watermark", "updated_at"))
    return next((moment for moment in told if moment), None)


def kept_until(live: Sidecar, backup: Sidecar) -> float | None:
    """Up to when a torn sidecar's messages were kept by whoever took the rest away; None: nobody did.

    The head comes first in the file, so it is whole when the messages are not.
    """
    boundary = values.seconds(live.head.get("truncation_boundary"))
    if live.state != "torn" or live.has_all or boundary is None:
        return None
    for name in ("intentional_shrink_generation", "clear_generation"):
        mine, theirs = live.head.get(name), backup.head.get(name)
        if _is_generation(mine) and (theirs is None or (_is_generation(theirs) and theirs != mine)):
            return boundary
    return None


def _is_clear(live: Sidecar, backup: Sidecar) -> bool:
    generation = live.head.get("clear_generation")
    if not isinstance(generation, str) or not generation:
        return False
    if backup.head.get("clear_generation") == generation:
        return False
    if live.messages:
        wanted = {name: _CLEARED[name] for name in ("truncation_watermark", "truncation_boundary")}
    else:
        wanted = _CLEARED
    shape = all(name in live.head and _same(live.head[name], value) for name, value in wanted.items())
    return shape and (bool(live.messages) or not live.context)


def _same(found: Any, wanted: Any) -> bool:
    return found == wanted and not isinstance(found, bool)


def _is_generation(value: Any) -> bool:
    return isinstance(value, str) and _GENERATION.fullmatch(value) is not None


def _is_compressed(live: Sidecar) -> bool:
    head = live.head
    if values.identifier(head.get("compression_anchor_mode")).strip().lower() == "manual":
        return True
    if live.state != "whole" or len(live.context) >= len(live.messages):
        return False
    summed = values.text(head.get("compression_anchor_summary")).strip()
    anchored = bool(summed) and head.get("compression_anchor_message_key") is not None
    return anchored or head.get("truncation_watermark") is not None


def _predates(live: Sidecar, backup: Sidecar) -> bool:
    """Whether the backup is from before the compaction; a later one shows a loss."""
    for told in backup.context:
        said = told.get("content") if isinstance(told, dict) else None
        if isinstance(said, str) and said.lstrip()[:30].lower().startswith(
            ("[context compaction", "context compaction")
        ):
            return False
    return len(backup.context) > len(live.context)


# --- All that is written of one session, in whichever store, before anything is made of it.

GRACE_S = 30.0  # how long the web UI itself waits before it calls a stream dead


class HermesFacts(msgspec.Struct, kw_only=True):
    """What was found; the doctor stands on it too."""

    native_id: str
    live: Sidecar
    backup: Sidecar
    why_shorter: str  # the wish behind what only the backup has; empty: none is known
    header: HermesSessionRow | None = None
    database: str | None = None  # the one that has its row
    transcript: str | None = None  # the agent's file that stands in for its rows
    damage: list[str] = []  # what its databases do not give, in SQLite's words
    unknown_schema: bool = False
    consulted: bool = True  # a database could be asked whether it knows the session
    tombstoned: bool = False
    turns: list[journal.JournaledTurn] = []  # that were asked for and have no end in their journal
    torn_turns: int = 0
    torn_runs: int = 0  # lines of the journals of other runs, where somebody looked at them
    pending: journal.JournaledTurn | None = None  # the one that the sidecar says is under way
    runs: dict[str, journal.JournaledRun] = {}  # what the streams of these turns had told

    @property
    def deleted(self) -> bool:
        """Whether somebody deleted it; the mark is the web UI's, and covers its own sessions only."""
        own = self.header is None or self.header.word("source") in (None, "webui")
        return self.tombstoned and self.live.state == "absent" and own

    @property
    def exists(self) -> bool:
        """Whether there is any trace of it."""
        return self.header is not None or self.live.state != "absent" or self.backup.state != "absent"


def read_facts(
    layout: HermesLayout, native_id: str, db: HermesDatabase | None, deleted: frozenset[str] | None = None
) -> HermesFacts:
    """Read what the files and one database have of a session; `deleted`: the tombstones, if known."""
    path = layout.sidecar(native_id)
    live = sidecar.load(path) if path else Sidecar(path="", state="absent")
    backup = sidecar.load(f"{path}.bak") if path else Sidecar(path="", state="absent")
    header = db.header(native_id) if db is not None else None
    turns, torn = journal.read_turns(layout.turn_journals(native_id), native_id)
    facts = HermesFacts(
        native_id=native_id,
        live=live,
        backup=backup,
        why_shorter=shrink_reason(live, backup),
        header=header,
        database=db.path if db is not None and header is not None else None,
        tombstoned=native_id in (deleted_ids(layout) if deleted is None else deleted),
        torn_turns=torn,
    )
    facts.pending = pending_turn(live)
    facts.turns = [turn for turn in turns if not turn.ended and turn.prompt]
    streams = {turn.stream for turn in facts.turns} | ({facts.pending.stream} if facts.pending else set())
    for run_path in layout.run_journals(native_id):
        stream = os.path.basename(run_path)[: -len(".jsonl")]
        if stream in streams:
            facts.runs[stream] = journal.read_run(run_path, native_id)
    return facts


def deleted_ids(layout: HermesLayout) -> frozenset[str]:
    """The sessions that the web UI has a tombstone of."""
    return tombstones(layout) or frozenset()


def tombstones(layout: HermesLayout) -> frozenset[str] | None:
    """The same; None if there are some and they cannot be read."""
    if layout.folder is None:
        return frozenset()
    try:
        with files.open_file(os.path.join(layout.folder, DELETED)) as file:
            told = values.parse(file.read())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError):
        return None
    ids = told.get("ids") if isinstance(told, dict) else told
    return frozenset(own for own in ids if isinstance(own, str)) if isinstance(ids, list) else None


def sidecar_messages(side: Sidecar, source: str) -> list[HermesMessage]:
    """The messages of a sidecar, with the tool cards that are nowhere else."""
    found = [
        read_message(told if isinstance(told, dict) else {"value": told}, source, str(place))
        for place, told in enumerate(side.messages)
    ]
    known = {call.id for message in found for call in message.calls}
    for place, card in enumerate(side.cards):
        if not isinstance(card, dict):
            continue
        at, own = card.get("assistant_msg_idx"), values.identifier(card.get("tid"))
        if type(at) is not int or not 0 <= at < len(found) or own in known:
            continue
        anchor = found[at]
        if anchor.raw.get("tool_calls") or (not own and not card.get("_recovered_from_run_journal")):
            continue
        anchor.calls = [*anchor.calls, card_call(card, own or f"card-{place}")]
    return drop_repeated_partials(found)


def drop_repeated_partials(found: list[HermesMessage]) -> list[HermesMessage]:
    """One of each row of partial answers that say the same; thousands of them were seen (#2592)."""
    kept: list[HermesMessage] = []
    for message in found:
        last = kept[-1] if kept else None
        if (
            last is not None
            and message.marker == last.marker == "partial"
            and _shown(last) == _shown(message)
        ):
            continue
        kept.append(message)
    return kept


def _shown(message: HermesMessage) -> list[Any]:
    return [
        message.key,
        *((call.name, call.input, call.done, call.ok, call.output) for call in message.calls),
    ]


def pending_turn(live: Sidecar) -> journal.JournaledTurn | None:
    """The prompt that a sidecar says is being answered."""
    if not live.usable:
        return None
    prompt, stream = (
        live.head.get("pending_user_message"),
        values.identifier(live.head.get("active_stream_id")),
    )
    said = strip_wrappers(values.text(prompt))
    if not said and not stream:
        return None
    started = values.seconds(live.head.get("pending_started_at"))
    return journal.JournaledTurn(id=f"pending:{stream}", prompt=said, at=started, stream=stream)
