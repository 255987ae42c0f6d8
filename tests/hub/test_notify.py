"""People are told: real channels, an outbox that survives kills, and delays that an answer cancels."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast import timestamps
from holdfast.home import Home
from holdfast.node import Node
from holdfast.notify.channels import SIGNATURE, signature
from holdfast.notify.service import NotifyService
from holdfast.notify.settings import NotifySettings
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from holdfast.store.types import Notification
from tests.conftest import REGISTRY
from tests.hub.running_hub import RunningHub, running
from tests.support.terminal import Terminal

SECRET = "s3cret"


class Receiver:
    """A server that takes what channels send, or refuses it."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((self.path, dict(self.headers.items()), body))
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kinds(self, path: str) -> list[str]:
        return [json.loads(body).get("kind", "") for where, _, body in self.got if where == path]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def config(receiver: Receiver, folder: Path) -> str:
    return f"""
[notify]
on = ["asks", "died", "failed", "finished"]
[notify.channels.hook]
kind = "webhook"
url = "{receiver.url}/hook"
secret = "{SECRET}"
[notify.channels.phone]
kind = "ntfy"
url = "{receiver.url}/topic"
on = ["asks"]
keys = ["k*"]
[notify.channels.late]
kind = "webhook"
url = "{receiver.url}/late"
secret = "{SECRET}"
on = ["asks"]
delay_s = 3600
[notify.channels.night]
kind = "webhook"
url = "{receiver.url}/night"
secret = "{SECRET}"
quiet = "00:00-23:59"
on = ["finished"]
[notify.channels.desk]
kind = "command"
command = ["sh", "-c", "cat >> {folder}/told"]
on = ["failed"]
"""


def outbox(hub: RunningHub) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hub.terminal.asked("notify")
    return found


def test_people_are_told_once_over_each_channel(home: Home, tmp_path: Path, receiver: Receiver) -> None:
    with running(home, str(tmp_path / "work"), config(receiver, tmp_path)) as hub:
        terminal = hub.terminal
        asking = terminal.detached({"tool": "shell", "run": "true", "ask": True}, words=["--key", "k1"])
        terminal.until(lambda: "asks" in receiver.kinds("/hook"))
        terminal.until(lambda: any(path == "/" for path, _, _ in receiver.got))
        _, headers, body = next(one for one in receiver.got if one[0] == "/hook")
        assert headers[SIGNATURE] == signature(SECRET, body)
        told = json.loads(body)
        assert (told["task"], told["key"], told["text"]) == (asking["task"], "k1", "shell: true")
        assert told["url"] == f"{hub.url}/#/s/{asking['session']}"
        message = json.loads(next(body for path, _, body in receiver.got if path == "/"))
        assert message["topic"] == "topic" and "k1" in message["title"]
        # A hub that is killed before it has recorded the channel's answer sends it again.
        terminal.until(lambda: sum(row["status"] == "sent" for row in outbox(hub)) == 2)
        hub.kill(signal.SIGKILL)
        hub.start()
        terminal.give("answer", "k1", "allow")
        terminal.ended(asking["task"])
        terminal.run({"error": "no"}, words=["--key", "other"], status=11)
        terminal.until(lambda: "failed" in receiver.kinds("/hook"))
        terminal.until(lambda: (tmp_path / "told").exists() and (tmp_path / "told").read_text().strip())
        assert json.loads((tmp_path / "told").read_text())["kind"] == "failed"
        assert receiver.kinds("/hook").count("asks") == 1, "not again after a kill"
        assert receiver.kinds("/late") == receiver.kinds("/night") == []
        rows = {(row["channel"], row["kind"]): row["status"] for row in outbox(hub)}
        assert rows["late", "asks"] == "waiting" and rows["night", "finished"] == "waiting"
        assert rows["phone", "asks"] == "sent"


def test_a_delayed_question_is_cancelled_by_its_answer(
    home: Home, tmp_path: Path, receiver: Receiver
) -> None:
    text = config(receiver, tmp_path).replace("delay_s = 3600", "delay_s = 3")
    with running(home, str(tmp_path / "work"), text) as hub:
        terminal = hub.terminal
        asking = terminal.detached({"tool": "shell", "run": "true", "ask": True}, words=["--key", "k1"])
        terminal.until(lambda: "asks" in receiver.kinds("/hook"))
        hub.kill(signal.SIGKILL)  # its time comes while no hub runs
        terminal.give("answer", asking["task"], "allow")
        terminal.ended(asking["task"])
        hub.start()

        def ended() -> list[str]:
            rows = [row["status"] for row in outbox(hub) if row["channel"] == "late"]
            return [] if "waiting" in rows else rows

        assert terminal.until(ended) == ["cancelled"] and receiver.kinds("/late") == []


def test_a_channel_that_fails_is_shown_and_tried_again(
    home: Home, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.status = 503
    with running(home, str(tmp_path / "work"), config(receiver, tmp_path)) as hub:
        hub.terminal.run({"error": "no"}, words=["--key", "x"], status=11)
        found = hub.terminal.until(
            lambda: [row for row in outbox(hub) if row["channel"] == "hook" and row["tries"]]
        )
        assert found[0]["status"] == "waiting" and "503" in found[0]["problem"]
        assert found[0]["due_at"] > found[0]["created_at"]
        assert "503" in hub.terminal.give("status").stdout
        refused = hub.terminal.give("notify", "test", "hook", status=1)
        assert "hook: it answered 503" in refused.stdout and refused.stderr.count("\n") == 1
        receiver.status = 200
        assert hub.terminal.asked("notify", "test", "hook") == {"hook": None}


def test_without_channels_nothing_is_queued(home: Home, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    terminal = Terminal(home, str(work))
    terminal.give("init")
    assert "no channel is configured" in terminal.give("notify").stdout
    terminal.give("notify", "test", status=2)


def one(id: str, **more: Any) -> Notification:
    now = timestamps.now()
    return Notification(id, "node", "a", "asks", "s1", "t1", "{}", now, now)._replace(**more)


async def test_the_outbox_on_both_stores(store: Store) -> None:
    assert await store.notify_cursor("node") is None and await store.next_notification("node") is None
    first, later = one("n1"), one("n2", due_at="2999-01-01T00:00:00.000000Z")
    await store.queue_notifications("node", "e.1", [first, later])
    await store.queue_notifications("node", "e.2", [first._replace(body="{}x")])
    assert await store.notify_cursor("node") == "e.2"
    assert await store.due_notifications("node", timestamps.now()) == [first], "the same is not queued twice"
    assert await store.due_notifications("other", timestamps.now()) == []
    assert await store.next_notification("node") == first.due_at
    await store.update_notification(first._replace(status="sent", ended_at=timestamps.now(), tries=1))
    assert await store.due_notifications("node", timestamps.now()) == []
    assert await store.next_notification("node") == later.due_at
    await store.trim_notifications("2999-01-01T00:00:00.000000Z")
    await store.queue_notifications("node", "e.3", [first])
    assert await store.due_notifications("node", timestamps.now()) == [first], "it was forgotten"


async def test_a_failing_store_ends_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The service tries again, and what waited in the outbox is dealt with."""
    monkeypatch.setattr("holdfast.notify.service.RETRY_S", 0.05)
    store = await open_store(Location("sqlite", home.database), home, REGISTRY.token_rules())
    await store.queue_notifications("node", await store.cursor(), [one("n1")])
    rename(home, "notification", "elsewhere")
    service = asyncio.create_task(NotifyService(store, Node("node", frozenset()), NotifySettings()).run())
    await until(lambda: "tried again" in caplog.text)
    rename(home, "elsewhere", "notification")
    while await store.next_notification("node") is not None:  # noqa: ASYNC110 - its channel is unknown: cancelled
        await asyncio.sleep(0.02)
    assert not service.done()
    service.cancel()
    await asyncio.gather(service, return_exceptions=True)
    await store.close()


def rename(home: Home, old: str, new: str) -> None:
    """In another process: two copies of SQLite in one process break each other's locks."""
    code = f"import sqlite3; sqlite3.connect({home.database!r}).execute('alter table {old} rename to {new}')"
    subprocess.run([sys.executable, "-c", code], check=True)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
