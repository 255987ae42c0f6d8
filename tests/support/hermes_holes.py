"""The holes that a Hermes home can have, each put into a session, with what a doctor must say and do."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.hermes_builder import MARK, T0, Made, submitted, talk, token

SAID = 8  # messages of a session


class Hole(NamedTuple):
    """What was put in, and what must come of it."""

    codes: dict[str, bool]  # findings, and whether each is mended
    says: list[str] | None = None  # the texts of its messages afterwards, markers aside; None: there is none
    never: tuple[str, ...] = ()  # texts that must not come back
    unchanged: bool = False  # the file stays as it is, to the byte


def _texts(messages: list[dict[str, Any]]) -> list[str]:
    return [str(told["content"]) for told in messages]


def sound(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, talk(own, SAID))
    return Hole({}, _texts(talk(own, SAID)), unchanged=True)


def wiped_with_backup(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(own, [])
    return Hole({"shrunken_live": True}, _texts(talk(own, SAID)))


def wiped_with_rows(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, [])
    return Hole({"live_behind_db": True}, _texts(talk(own, SAID)))


def wiped_then_new(made: Made, own: str) -> Hole:
    new = talk(own, 3, start=100)
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(own, new)
    return Hole({"shrunken_live": True}, _texts(talk(own, SAID) + new))


def wiped_then_outgrown(made: Made, own: str) -> Hole:
    new = talk(own, SAID + 1, start=100)
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(own, new)
    return Hole({"content_diverged": True}, _texts(talk(own, SAID) + new))


def poorer_backup(made: Made, own: str) -> Hole:
    every = talk(own, SAID)
    made.row(own, every)
    made.side(own, every[5:], ".json.bak")
    made.side(own, every[7:])
    return Hole({"shrunken_live": True, "live_behind_db": True}, _texts(every))


def diverged(made: Made, own: str) -> Hole:
    other = [{**told, "content": f"{told['content']} differently"} for told in talk(own, SAID)]
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(own, other)
    return Hole({"content_diverged": False}, _texts(other), unchanged=True)


def torn_with_backup(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), ".json.bak")
    path = made.side(own, talk(own, SAID + 1))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    return Hole({"torn_live": True}, _texts(talk(own, SAID)))


def torn_with_rows(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    path = made.side(own, talk(own, SAID))
    path.write_bytes(path.read_bytes()[:300])
    return Hole({"torn_live": True}, _texts(talk(own, SAID)))


def empty_with_rows(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, []).write_bytes(b"")
    return Hole({"empty_live": True}, _texts(talk(own, SAID)))


def empty_alone(made: Made, own: str) -> Hole:
    made.side(own, []).write_bytes(b"\0" * 4096)
    return Hole({"empty_live": False}, unchanged=True)


def malformed_with_backup(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), ".json.bak")
    path = made.side(own, [])
    path.write_text(json.dumps({"session_id": own, "title": "t", "messages": "none"}))
    return Hole({"malformed_session": True}, _texts(talk(own, SAID)))


def backup_torn(made: Made, own: str) -> Hole:
    path = made.side(own, talk(own, SAID), ".json.bak")
    path.write_bytes(path.read_bytes()[:400])
    made.side(own, talk(own, SAID))
    return Hole({"malformed_backup": False}, _texts(talk(own, SAID)), unchanged=True)


def orphan_with_row(made: Made, own: str) -> Hole:
    made.row(own, [])
    made.side(own, talk(own, SAID), ".json.bak")
    return Hole({"orphan_backup": True}, _texts(talk(own, SAID)))


def orphan_without_row(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), ".json.bak")
    return Hole({"orphan_backup_no_row": False})


def deleted(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, talk(own, SAID), ".json.bak")
    made.delete(own)
    made.listed.remove(own)
    return Hole({"deleted_tombstone": False})


def missing(made: Made, own: str) -> Hole:
    undone = {**talk(own, 1, start=90)[0], "content": f"{own} undone", "active": 0}
    summed = {**talk(own, 1, start=91)[0], "content": f"{own} summed", "active": 0, "compacted": 1}
    rows = [*talk(own, SAID), *([undone, summed] if (made.version or 0) >= 22 else [])]
    made.row(own, rows)
    return Hole({"missing_sidecar": True}, _texts(talk(own, SAID)), never=(f"{own} undone", f"{own} summed"))


def empty_row(made: Made, own: str) -> Hole:
    made.row(own, [])
    return Hole({"empty_db_row": False})


def counted_wrong(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), message_count=999)
    return Hole({"count_mismatch": True}, _texts(talk(own, SAID)))


def partials(made: Made, own: str) -> Hole:
    part = {"role": "assistant", "content": "", "_partial": True, "timestamp": T0 + 20}
    made.side(own, [*talk(own, SAID), *[part] * 20])
    return Hole({"duplicate_partials": True}, [*_texts(talk(own, SAID)), ""])


def surrogate(made: Made, own: str) -> Hole:
    made.side(own, [*talk(own, SAID), {"role": "user", "content": "half HALF", "timestamp": T0 + 9}])
    path = made.folder / f"{own}.json"
    path.write_bytes(path.read_bytes().replace(b"HALF", b"\\ud83d"))
    return Hole({"lone_surrogate": True}, [*_texts(talk(own, SAID)), "half \ufffd"])


def orphan_result(made: Made, own: str) -> Hole:
    row = {"role": "tool", "tool_call_id": "nowhere1234", "content": "result", "timestamp": T0 + 20}
    made.side(own, [*talk(own, SAID), row])
    return Hole({"orphan_tool_row": True}, [*_texts(talk(own, SAID)), "result"])


def stale(made: Made, own: str) -> Hole:
    made.side(
        own,
        talk(own, SAID),
        active_stream_id=f"{own}-stream",
        pending_user_message=f"{own} asks",
        pending_started_at=T0 + 400,
    )
    made.told(
        own,
        f"{own}-stream",
        token(own, f"{own}-stream", 1, "an answer\u2028in "),
        token(own, f"{own}-stream", 2, "pieces"),
    )
    said = [*_texts(talk(own, SAID)), f"{own} asks", "an answer\u2028in pieces"]
    return Hole({"stale_stream": True}, said)


def journaled(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID))
    made.turn(own, submitted(own, "t1", f"{own} asked", T0 + 400, "gone"))
    made.turn(own, {"turn_id": "t1", "event": "worker_started", "created_at": T0 + 401}, shard="~99999998")
    return Hole({"journal_pending_turn": True}, [*_texts(talk(own, SAID)), f"{own} asked"])


def journal_torn(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID))
    made.turn(own, submitted(own, "t1", f"{own} says 6", T0 + 6, "s"), b'{"turn_id": "t1", "content": "\xc3')
    return Hole({"journal_torn": False}, _texts(talk(own, SAID)), unchanged=True)


def run_torn(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID))
    made.told(own, "some", token(own, "some", 1, "x"), b'{"event": "token", "payload": {"text": "\xc3')
    return Hole({"journal_torn": False}, _texts(talk(own, SAID)), unchanged=True)


def misnamed(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), session_id=f"{own}-other")
    made.listed.remove(own)
    return Hole({"session_id_mismatch": False}, _texts(talk(own, SAID)), unchanged=True)


def nameless(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, talk(own, SAID), session_id=None)
    return Hole({"session_id_mismatch": True}, _texts(talk(own, SAID)))


def nameless_alone(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), session_id=7)
    made.listed.remove(own)
    return Hole({"session_id_mismatch": False}, _texts(talk(own, SAID)), unchanged=True)


def cleared(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(
        own,
        [],
        clear_generation=MARK,
        truncation_watermark=0.0,
        truncation_boundary=0.0,
        pending_attachments=[],
        pending_started_at=None,
        pending_user_source=None,
    )
    return Hole({"intentional_shrink": False}, [], tuple(_texts(talk(own, SAID))), unchanged=True)


def undone(made: Made, own: str) -> Hole:
    every = talk(own, SAID)
    made.row(own, every)
    made.side(own, every, ".json.bak")
    made.side(own, every[:6], intentional_shrink_generation=MARK)
    return Hole({"intentional_shrink": False}, _texts(every[:6]), tuple(_texts(every[6:])), unchanged=True)


def compressed(made: Made, own: str) -> Hole:
    every = talk(own, SAID)
    made.side(own, every, ".json.bak")
    made.side(
        own,
        every[:1] + every[6:],
        compression_anchor_mode="manual",
        context_messages=[{"role": "user", "content": "[Context compaction] sum"}],
    )
    gone = tuple(_texts(every[1:6]))
    return Hole({"intentional_shrink": False}, _texts(every[:1] + every[6:]), gone, unchanged=True)


def forged(made: Made, own: str) -> Hole:
    made.side(own, talk(own, SAID), ".json.bak")
    made.side(own, talk(own, 2), intentional_shrink_generation="not-a-generation")
    return Hole({"shrunken_live": True}, _texts(talk(own, SAID)))


def behind_in_wal(made: Made, own: str) -> Hole:
    made.row(own, talk(own, SAID))
    made.side(own, talk(own, SAID))
    late = "insert into messages (session_id, role, content, timestamp) values"
    made.heat(f"{late} ('{own}', 'user', '{own} hot', {T0 + 50})")
    return Hole({"live_behind_db": True}, [*_texts(talk(own, SAID)), f"{own} hot"])


def snapshot(made: Made, own: str) -> Hole:
    pending: dict[str, Any] = {"active_stream_id": "s", "pending_user_message": "p", "pending_started_at": T0}
    made.side(own, talk(own, SAID), pre_compression_snapshot=True, **pending)
    return Hole({"stale_stream": False}, _texts(talk(own, SAID)), unchanged=True)


def image(made: Made, own: str) -> Hole:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    asked = {"role": "user", "content": parts, "timestamp": T0}
    call = {
        "role": "assistant",
        "content": "",
        "timestamp": T0 + 1,
        "tool_calls": [{"id": f"call-{own}-1", "function": {"name": "f", "arguments": "{}"}}],
        "reasoning": "why not",
    }
    answer = {"role": "tool", "content": "r", "tool_call_id": f"call-{own}-1", "tool_name": "f"}
    made.row(own, [asked, call, {**answer, "timestamp": T0 + 2}])
    made.side(own, [asked])
    return Hole({"live_behind_db": True}, [str(parts), "", "r"])


Put = Callable[[Made, str], Hole]
HOLES: dict[str, Put] = {
    put.__name__: put
    for put in (
        sound,
        wiped_with_backup,
        wiped_with_rows,
        wiped_then_new,
        wiped_then_outgrown,
        poorer_backup,
        diverged,
        torn_with_backup,
        torn_with_rows,
        empty_with_rows,
        empty_alone,
        malformed_with_backup,
        backup_torn,
        orphan_with_row,
        orphan_without_row,
        deleted,
        missing,
        empty_row,
        counted_wrong,
        partials,
        surrogate,
        orphan_result,
        stale,
        journaled,
        journal_torn,
        run_torn,
        misnamed,
        nameless,
        nameless_alone,
        cleared,
        undone,
        compressed,
        forged,
        behind_in_wal,
        snapshot,
        image,
    )
}


def torn_too(made: Made, own: str) -> None:
    path = made.folder / f"{own}.json"
    if path.exists():
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def backup_torn_too(made: Made, own: str) -> None:
    path = made.folder / f"{own}.json.bak"
    if path.exists():
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def journaled_too(made: Made, own: str) -> None:
    made.turn(own, submitted(own, "more", f"{own} asked more", T0 + 5000, "no-such-stream"))


def journal_torn_too(made: Made, own: str) -> None:
    made.turn(own, b'{"turn_id": "more", "content": "\xe2\x80')


def stale_too(made: Made, own: str) -> None:
    path = made.folder / f"{own}.json"
    if path.exists() and path.read_bytes()[:1] == b"{":
        with contextlib.suppress(ValueError):
            told = json.loads(path.read_text(encoding="utf-8"))
            more = {"active_stream_id": "dead", "pending_user_message": f"{own} waits"}
            path.write_text(json.dumps({**told, **more, "pending_started_at": T0 + 6000}, indent=2))


def counted_wrong_too(made: Made, own: str) -> None:
    for ending in (".json", ".json.bak"):
        path = made.folder / f"{own}{ending}"
        if path.exists():
            path.write_bytes(path.read_bytes().replace(b'"message_count": ', b'"message_count": 4'))


def litter_too(made: Made, own: str) -> None:
    for ending in (".json", ".json.bak"):
        path = made.folder / f"{own}{ending}"
        if path.exists():
            (made.folder / f"{own}.tmp.99999999.7").write_bytes(path.read_bytes())
            os.utime(made.folder / f"{own}.tmp.99999999.7", (T0, T0))


LAYERS: dict[str, Callable[[Made, str], None]] = {
    put.__name__: put
    for put in (
        torn_too,
        backup_torn_too,
        journaled_too,
        journal_torn_too,
        stale_too,
        counted_wrong_too,
        litter_too,
    )
}


class FolderHole(NamedTuple):
    """A hole of the folder as a whole: what is told of it."""

    codes: dict[str, bool]


def index_missing(made: Made) -> FolderHole:
    (made.folder / "_index.json").unlink()
    return FolderHole({"index_missing": True})


def index_corrupt(made: Made) -> FolderHole:
    (made.folder / "_index.json").write_text('[{"session_id": ')
    return FolderHole({"index_corrupt": True})


def index_ghost(made: Made) -> FolderHole:
    path = made.folder / "_index.json"
    listed = json.loads(path.read_text())
    path.write_text(json.dumps([*listed, {"session_id": "ghost", "title": "gone"}], indent=2))
    return FolderHole({"index_stale": True})


def foreign(made: Made) -> FolderHole:
    (made.folder / "notes.json").write_text("[1, 2]")
    return FolderHole({"foreign_file": False})


def litter(made: Made) -> FolderHole:
    (made.folder / "abc.tmp.99999999.1").write_text("")
    (made.folder / "_index.tmp.recovery.99999999.1").write_text("[]")
    for name in ("abc.tmp.99999999.1", "_index.tmp.recovery.99999999.1"):
        os.utime(made.folder / name, (T0, T0))
    return FolderHole({"tmp_litter": True})


def tidy(made: Made) -> FolderHole:
    return FolderHole({})


FOLDER_HOLES: dict[str, Callable[[Made], FolderHole]] = {
    put.__name__: put for put in (tidy, index_missing, index_corrupt, index_ghost, foreign, litter)
}
