"""What each store has of one session, before the copies are compared."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast.peers.hermes import journal, shrink, sidecar, values
from holdfast.peers.hermes.database import HermesDatabase, HermesSessionRow
from holdfast.peers.hermes.layout import DELETED, HermesLayout
from holdfast.peers.hermes.messages import HermesMessage, card_call, read_message, strip_wrappers
from holdfast.peers.hermes.sidecar import Sidecar

GRACE_S = 30.0  # the web UI itself waits this long before it calls a stream dead


class HermesFacts(msgspec.Struct, kw_only=True):
    """Everything that the reader and the doctor know about one session."""

    native_id: str
    live: Sidecar
    backup: Sidecar
    shrink_reason: str  # why only the backup has some messages, if that was on purpose; else empty
    header: HermesSessionRow | None = None
    database: str | None = None  # the database that has its row
    transcript: str | None = None  # the agent's transcript file that replaces its rows
    damage: list[str] = []  # SQLite's errors about its databases
    unknown_schema: bool = False
    database_answered: bool = True  # a database could be asked whether it has the session
    tombstoned: bool = False
    turns: list[journal.JournaledTurn] = []  # accepted, and without an end in their journal
    torn_turns: int = 0
    torn_runs: int = 0  # torn lines in the journals of other runs, if those were read
    pending: journal.JournaledTurn | None = None  # the turn that the sidecar records as running
    runs: dict[str, journal.JournaledRun] = {}  # the recorded output of these turns, by stream

    @property
    def deleted(self) -> bool:
        """Whether a user deleted it; the tombstone is the web UI's and covers only its own sessions."""
        own = self.header is None or self.header.text("source") in (None, "webui")
        return self.tombstoned and self.live.state == "absent" and own

    @property
    def exists(self) -> bool:
        """Whether any store has it."""
        return self.header is not None or self.live.state != "absent" or self.backup.state != "absent"

    @property
    def live_messages(self) -> list[HermesMessage]:
        """The messages of the sidecar."""
        return sidecar_messages(self.live, "sidecar") if self.live.usable else []

    @property
    def backup_messages(self) -> list[HermesMessage]:
        """The messages of the backup."""
        return sidecar_messages(self.backup, "backup") if self.backup.usable else []


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
        shrink_reason=shrink.shrink_reason(live, backup),
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
    """The sessions that have a tombstone; none if the tombstones cannot be read."""
    return tombstones(layout) or frozenset()


def tombstones(layout: HermesLayout) -> frozenset[str] | None:
    """The sessions that have a tombstone; None if the tombstones cannot be read."""
    if layout.folder is None:
        return frozenset()
    try:
        with values.open_file(os.path.join(layout.folder, DELETED)) as file:
            content = values.parse(file.read())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError):
        return None
    ids = content.get("ids") if isinstance(content, dict) else content
    return frozenset(own for own in ids if isinstance(own, str)) if isinstance(ids, list) else None


def sidecar_messages(side: Sidecar, source: str) -> list[HermesMessage]:
    """The messages of a sidecar, with the tool cards that no message has; read once."""
    if source not in side.parsed:
        side.parsed[source] = _parse_messages(side, source)
    return side.parsed[source]


def _parse_messages(side: Sidecar, source: str) -> list[HermesMessage]:
    messages = [
        read_message(raw if isinstance(raw, dict) else {"value": raw}, source, str(position))
        for position, raw in enumerate(side.messages)
    ]
    known = {call.id for message in messages for call in message.calls}
    for position, card in enumerate(side.cards):
        if not isinstance(card, dict):
            continue
        at, own = card.get("assistant_msg_idx"), values.identifier(card.get("tid"))
        if type(at) is not int or not 0 <= at < len(messages) or own in known:
            continue
        anchor = messages[at]
        if anchor.raw.get("tool_calls") or (not own and not card.get("_recovered_from_run_journal")):
            continue
        anchor.calls = [*anchor.calls, card_call(card, own or f"card-{position}")]
    return drop_repeated_partials(messages)


def drop_repeated_partials(messages: list[HermesMessage]) -> list[HermesMessage]:
    """One of each series of equal partial answers; sidecars had thousands of them (#2592)."""
    kept: list[HermesMessage] = []
    for message in messages:
        last = kept[-1] if kept else None
        if (
            last is not None
            and message.marker == last.marker == "partial"
            and _visible(last) == _visible(message)
        ):
            continue
        kept.append(message)
    return kept


def _visible(message: HermesMessage) -> list[Any]:
    return [
        message.key,
        *((call.name, call.input, call.done, call.ok, call.output) for call in message.calls),
    ]


def pending_turn(live: Sidecar) -> journal.JournaledTurn | None:
    """The turn that a sidecar records as running."""
    if not live.usable:
        return None
    stream = values.identifier(live.head.get("active_stream_id"))
    prompt = strip_wrappers(values.text(live.head.get("pending_user_message")))
    if not prompt and not stream:
        return None
    started = values.seconds(live.head.get("pending_started_at"))
    return journal.JournaledTurn(id=f"pending:{stream}", prompt=prompt, at=started, stream=stream)
