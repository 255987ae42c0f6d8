"""A reader that does not keep up is closed with a reason, and loses nothing when it comes back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.home import Home
from tests.hub.running_hub import RunningHub, running, script

CALLS, SIZE = 26, 900_000  # 23 MB: more than may wait for a reader (8 MiB) and than two kernels hold for it


class Reader:
    """A raw connection with a small window; what it does not ask for stays with the hub."""

    def __init__(self, hub: RunningHub, session: str, after: str | None):
        place = urlsplit(hub.url)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self._socket.settimeout(60)
        self._socket.connect((place.hostname, place.port))
        asked = [f"GET /api/sessions/{session}/stream HTTP/1.1", f"Host: {place.netloc}"]
        asked += [f"Authorization: Bearer {hub.token}", "Connection: close"]
        asked += [f"Last-Event-ID: {after}"] if after else []
        self._socket.sendall("\r\n".join([*asked, "", ""]).encode())
        self._lines = self._socket.makefile("rb")
        assert b" 200 " in self._lines.readline()

    def frames(self) -> Iterator[dict[str, str]]:
        """Frame by frame, each its fields; the hub's chunks are joined again."""
        found: dict[str, str] = {}
        for line in self._text():
            if not line:
                yield found
                found = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value

    def _text(self) -> Iterator[str]:
        while self._lines.readline() != b"\r\n":
            pass  # the head
        rest = b""
        while size := int(self._lines.readline() or b"0", 16):
            rest += self._lines.read(size)
            self._lines.readline()
            *whole, rest = rest.split(b"\n")
            yield from (line.decode() for line in whole)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def test_it_is_closed_with_a_reason_and_loses_nothing(home: Home, tmp_path: Path) -> None:
    with running(home, str(tmp_path / "work")) as hub:
        gate = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done"}
        loud = {"tool": "shell", "run": f"head -c {SIZE} /dev/zero | tr '\\0' x"}
        made = hub.client().dispatch(prompt=script(gate, *[loud] * CALLS), agent="demo", permissions="allow")
        reader = Reader(hub, made["session"], None)
        frames = reader.frames()
        seen: list[int] = []
        last, why = None, ""
        for frame in frames:  # up to the call that waits; then it sleeps through all the rest
            if frame.get("event") == "event":
                event = json.loads(frame["data"])["event"]
                seen.append(event["seq"])
                last = frame["id"]
                if event["kind"] == "tool_progress":
                    break
        Path(hub.terminal.cwd, "gate").touch()
        assert hub.terminal.ended(made["task"])["status"] == "succeeded"
        for frame in frames:
            if frame.get("event") == "closing":
                why = json.loads(frame["data"])["why"]
                break
            if frame.get("event") == "event":
                seen.append(json.loads(frame["data"])["event"]["seq"])
                last = frame["id"]
        reader.close()
        assert why.startswith("too slow")
        log = [event["seq"] for event in hub.terminal.log(made["session"])]
        assert len(seen) < len(log), "it was closed before it had all"
        back = Reader(hub, made["session"], last)
        for frame in back.frames():
            if frame.get("event") == "event":
                seen.append(json.loads(frame["data"])["event"]["seq"])
            if seen[-1] == log[-1]:
                break
        back.close()
        assert seen == log
