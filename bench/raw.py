"""The baselines: raw apsw, a whole-JSON rewrite per append, one file per event."""

from __future__ import annotations

import json
import os

import apsw
import msgspec

from holdfast.model.event import NewEvent
from holdfast.store.sqlite import migrations
from holdfast.store.sqlite.connection import open_writer

AT = "2026-01-01T00:00:00.000000Z"

_encode = msgspec.json.Encoder().encode


class RawSqlite:
    """The very transaction that a commit of ours is, by hand on one connection, on our own tables."""

    def __init__(self, path: str):
        self.db: apsw.Connection = open_writer(path)
        migrations.bring_up(self.db, path, "bench", os.path.dirname(path))
        self.db.execute(
            "insert into session (n, id, agent, state, metadata, version, created_at, updated_at, seq, "
            "messages, tasks, search) values (1, 's', 'claude', 'live', '{}', 1, ?1, ?1, 0, 0, 0, '')",
            (AT,),
        )
        self.db.execute(
            "insert into task (id, n, place, prompt, status, queued_at, delivery, options, generation, "
            "spool) values ('t', 1, 1, '\"p\"', 'running', ?, 'sent', '{}', 1, 0)",
            (AT,),
        )
        self.seq = 0

    def commit(self, events: list[NewEvent]) -> None:
        """Events, header and spool offset in one transaction."""
        db, seq = self.db, self.seq
        db.execute("begin immediate")
        rows = []
        for event in events:
            seq += 1
            origin = _encode(event.origin).decode()
            body = _encode(event.body).decode()
            rows.append((event.kind, AT, False, origin, body, seq, seq, 1, "t", None, False))
        db.executemany(
            "insert into log (kind, at, replayed, origin, body, seq, id, n, task, spool, last) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        db.execute(
            "update session set seq = ?, messages = ?, updated_at = ? where n = 1",
            (seq, seq, f"{AT[:-7]}{seq:06d}Z"),
        )
        db.execute("update task set spool = ? where id = 't'", (seq,))
        db.execute("commit")
        self.seq = seq


class WholeJson:
    """hermes-webui's way: the session is one JSON file, written anew, synced and renamed per append."""

    def __init__(self, path: str, count: int, event: NewEvent):
        self.path = path
        self.messages = [{"role": event.kind, "content": event.body} for _ in range(count)]

    def append(self, event: NewEvent) -> None:
        """One more message."""
        self.messages.append({"role": event.kind, "content": event.body})
        temp = self.path + ".tmp"
        with open(temp, "w", encoding="utf-8") as file:
            json.dump({"session_id": "s", "messages": self.messages}, file, ensure_ascii=False, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, self.path)


class FilePerEvent:
    """OpenHands' way: each append lists the folder and writes one more file, without a sync."""

    def __init__(self, folder: str, count: int, event: NewEvent):
        self.folder = folder
        os.makedirs(folder)
        for _ in range(count):
            self.append(event, look=False)

    def append(self, event: NewEvent, look: bool = True) -> None:
        """One more file."""
        number = len(os.listdir(self.folder)) if look else getattr(self, "_next", 0)
        self._next = number + 1
        with open(os.path.join(self.folder, f"event-{number:05d}.json"), "wb") as file:
            file.write(_encode({"kind": event.kind, "body": event.body}))
