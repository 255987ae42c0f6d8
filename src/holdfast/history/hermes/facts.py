"""All that is written of one session, in whichever store, before anything is made of it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast.history.hermes import files, intent, journal, sidecar, values
from holdfast.history.hermes.database import Database, Header
from holdfast.history.hermes.layout import DELETED, Layout
from holdfast.history.hermes.message import Message, bare, card_call, read
from holdfast.history.hermes.sidecar import Sidecar

GRACE_S = 30.0  # how long the web UI itself waits before it calls a stream dead


class Facts(msgspec.Struct, kw_only=True):
    """What was found; the doctor stands on it too."""

    native_id: str
    live: Sidecar
    backup: Sidecar
    why_shorter: str  # the wish behind what only the backup has; empty: none is known
    header: Header | None = None
    database: str | None = None  # the one that has its row
    transcript: str | None = None  # the agent's file that stands in for its rows
    damage: list[str] = []  # what its databases do not give, in SQLite's words
    unknown_schema: bool = False
    consulted: bool = True  # a database could be asked whether it knows the session
    tombstoned: bool = False
    turns: list[journal.Turn] = []  # that were asked for and have no end in their journal
    torn_turns: int = 0
    torn_runs: int = 0  # lines of the journals of other runs, where somebody looked at them
    pending: journal.Turn | None = None  # the one that the sidecar says is under way
    runs: dict[str, journal.Run] = {}  # what the streams of these turns had told

    @property
    def deleted(self) -> bool:
        """Whether somebody deleted it; the mark is the web UI's, and covers its own sessions only."""
        own = self.header is None or self.header.word("source") in (None, "webui")
        return self.tombstoned and self.live.state == "absent" and own

    @property
    def exists(self) -> bool:
        """Whether there is any trace of it."""
        return self.header is not None or self.live.state != "absent" or self.backup.state != "absent"


def gather(
    layout: Layout, native_id: str, db: Database | None, deleted: frozenset[str] | None = None
) -> Facts:
    """Read what the files and one database have of a session; `deleted`: the tombstones, if known."""
    path = layout.sidecar(native_id)
    live = sidecar.load(path) if path else Sidecar(path="", state="absent")
    backup = sidecar.load(f"{path}.bak") if path else Sidecar(path="", state="absent")
    header = db.header(native_id) if db is not None else None
    turns, torn = journal.turns(layout.turn_journals(native_id), native_id)
    facts = Facts(
        native_id=native_id,
        live=live,
        backup=backup,
        why_shorter=intent.of(live, backup),
        header=header,
        database=db.path if db is not None and header is not None else None,
        tombstoned=native_id in (deleted_ids(layout) if deleted is None else deleted),
        torn_turns=torn,
    )
    facts.pending = pending(live)
    facts.turns = [turn for turn in turns if not turn.ended and turn.prompt]
    streams = {turn.stream for turn in facts.turns} | ({facts.pending.stream} if facts.pending else set())
    for run_path in layout.run_journals(native_id):
        stream = os.path.basename(run_path)[: -len(".jsonl")]
        if stream in streams:
            facts.runs[stream] = journal.run(run_path, native_id)
    return facts


def deleted_ids(layout: Layout) -> frozenset[str]:
    """The sessions that the web UI has a tombstone of."""
    return tombstones(layout) or frozenset()


def tombstones(layout: Layout) -> frozenset[str] | None:
    """The same; None if there are some and they cannot be read."""
    if layout.folder is None:
        return frozenset()
    try:
        with files.opened(os.path.join(layout.folder, DELETED)) as file:
            told = values.parse(file.read())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError):
        return None
    ids = told.get("ids") if isinstance(told, dict) else told
    return frozenset(own for own in ids if isinstance(own, str)) if isinstance(ids, list) else None


def messages(side: Sidecar, source: str) -> list[Message]:
    """The messages of a sidecar, with the tool cards that are nowhere else."""
    found = [
        read(told if isinstance(told, dict) else {"value": told}, source, str(place))
        for place, told in enumerate(side.messages)
    ]
    known = {call.id for message in found for call in message.calls}
    for place, card in enumerate(side.cards):
        if not isinstance(card, dict):
            continue
        at, own = card.get("assistant_msg_idx"), values.word(card.get("tid"))
        if type(at) is not int or not 0 <= at < len(found) or own in known:
            continue
        anchor = found[at]
        if anchor.raw.get("tool_calls") or (not own and not card.get("_recovered_from_run_journal")):
            continue
        anchor.calls = [*anchor.calls, card_call(card, own or f"card-{place}")]
    return without_repeats(found)


def without_repeats(found: list[Message]) -> list[Message]:
    """One of each row of partial answers that say the same; thousands of them were seen (#2592)."""
    kept: list[Message] = []
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


def _shown(message: Message) -> list[Any]:
    return [
        message.key,
        *((call.name, call.input, call.done, call.ok, call.output) for call in message.calls),
    ]


def pending(live: Sidecar) -> journal.Turn | None:
    """The prompt that a sidecar says is being answered."""
    if not live.usable:
        return None
    prompt, stream = live.head.get("pending_user_message"), values.word(live.head.get("active_stream_id"))
    said = bare(values.text(prompt))
    if not said and not stream:
        return None
    started = values.seconds(live.head.get("pending_started_at"))
    return journal.Turn(id=f"pending:{stream}", prompt=said, at=started, stream=stream)
