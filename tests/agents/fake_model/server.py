"""The fake model's HTTP: one threaded server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import msgspec

from tests.agents.fake_model import anthropic, chat, gemini, responses
from tests.agents.fake_model.journal import Journal, Request
from tests.agents.fake_model.reply import Asked, Drop, Pause, Piece, reply, side_reply
from tests.agents.fake_model.script import due

MODELS = {
    "object": "list",
    "data": [
        {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "owned_by": "fake",
            "context_length": 200000,
        }
        for name in ("fake-model", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
    ],
    "has_more": False,
    "models": [],
}


class FakeModel(ThreadingHTTPServer):
    """A server that runs in threads of this process."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.journal = Journal()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        """Its root, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of ours; anything else is shown."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(port: int = 0) -> Iterator[FakeModel]:
    """A server for as long as this lasts."""
    server = FakeModel(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeModel

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.server.journal.note("HEAD", self.path).end = "sent"
        self._whole({})

    def do_GET(self) -> None:
        if self.path == "/_log":
            return self._bytes(msgspec.json.encode(self.server.journal.requests()))
        request = self.server.journal.note("GET", self.path)
        request.end = "sent"
        if "/models" in self.path:
            return self._whole(MODELS)
        return self._whole({"error": {"message": "not found"}}, 404)

    def do_POST(self) -> None:
        request = self.server.journal.note("POST", self.path)
        raw = self._body()
        path = self.path.partition("?")[0]
        try:
            body = json.loads(raw or b"{}")
        except ValueError as problem:
            return self._error(request, anthropic, 400, f"not JSON: {problem}")
        try:
            if path.endswith(("/count_tokens", ":countTokens")):
                request.end = "sent"
                return self._whole({"input_tokens": len(raw) // 4 + 1, "totalTokens": len(raw) // 4 + 1})
            if (api := _api(path)) is None:
                return self._error(request, anthropic, 404, "not found")
            return self._answer(request, api, path, body)
        except ConnectionError:
            request.end = "gone"
            self.close_connection = True

    def _answer(self, request: Request, api: ModuleType, path: str, body: dict[str, Any]) -> None:
        asked: Asked = api.read(body)
        request.api = api.__name__.rpartition(".")[2]
        request.history = tuple(turn.who for turn in asked.turns)
        request.refused = asked.refused
        request.side = not asked.tools
        step, number, request.prompts = due(asked.turns)
        if asked.refused:
            return self._error(request, api, 400, asked.refused)
        if request.side:
            text = gemini.side_text(body) if api is gemini else None
            made = side_reply(text) if text else side_reply()
        else:
            request.step = number
            if step.status is not None:
                return self._error(request, api, step.status, step.message)
            made = reply(step, asked.tools)
        if asked.stream or ":stream" in path:
            self._stream(request, api.stream(made, body))
        else:
            self.server.closing.wait(made.hang)
            self._whole(api.whole(made, body))
            request.end = "sent"
        return None

    def _stream(self, request: Request, pieces: Iterable[Piece]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if isinstance(piece, Pause):
                self.wfile.flush()
                self.server.closing.wait(piece.seconds)
            elif isinstance(piece, Drop):
                request.end = "dropped"
                self.close_connection = True
                return
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        request.end = "sent"

    def _error(self, request: Request, api: ModuleType, status: int, message: str) -> None:
        request.end = "error"
        self._whole(api.error(status, message), status)

    def _whole(self, answer: Any, status: int = 200) -> None:
        self._bytes(json.dumps(answer).encode(), status)

    def _bytes(self, answer: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        if status >= 400:
            self.send_header("x-should-retry", "false")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        raw = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw


def _api(path: str) -> ModuleType | None:
    if path.endswith("/v1/messages"):
        return anthropic
    if path.endswith("/responses"):
        return responses
    if path.endswith("/chat/completions"):
        return chat
    return gemini if path.endswith("enerateContent") else None
