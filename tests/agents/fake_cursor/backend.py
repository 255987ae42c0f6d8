"""The HTTP that the SDK speaks: Connect over HTTP/1.1, a server stream down and unary appends up."""

from __future__ import annotations

import gzip
import hashlib
import json
import queue
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.agents.fake_cursor import script
from tests.agents.fake_cursor.wire import END, all_of, data, frame, inside, message, number, read, unframed

PATIENCE_S = 60.0
PROTO, STREAM, JSON = "application/proto", "application/connect+proto", "application/json"
# AgentServerMessage
UPDATE, EXEC, CHECKPOINT, BLOB = 1, 2, 3, 4
# its interaction_update
TEXT, CALL_STARTED, CALL_ENDED, THINKING, THOUGHT, USER, TURN_ENDED = 1, 2, 3, 4, 5, 6, 14
# AgentClientMessage
RUN_REQUEST, EXEC_REPLY, BLOB_REPLY = 1, 2, 3
STEP_SAID, STEP_CALL, STEP_THOUGHT = 1, 2, 3
THOUGHT_MS = 42
WAIT_FOR_CALL_MS = 60_000


class Backend(ThreadingHTTPServer):
    """The server and what clients have sent up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: defaultdict[str, queue.Queue[bytes]] = defaultdict(queue.Queue)
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving() -> Iterator[Backend]:
    """A backend while the context lives."""
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        models = {"items": [{"id": "composer-2", "displayName": "Composer 2"}]}
        self._reply(json.dumps(models if self.path.startswith("/v1/models") else {}).encode(), JSON)

    def do_POST(self) -> None:
        body, kind = self._body(), self.headers.get("content-type", "")
        self.server.paths.append(self.path)
        if self.path.endswith("/RunSSE"):
            _Run(self, inside(unframed(body), 1).decode()).go()
        elif self.path.endswith("/BidiAppend"):
            told = inside(body, 4) or bytes.fromhex(inside(body, 1).decode())
            self.server.sent[inside(body, 2, 1).decode()].put(told)
            self._reply(b"", PROTO)
        elif self.path == "/auth/exchange_user_api_key":
            self._reply(b'{"accessToken":"fake-token"}', JSON)
        elif kind.startswith(STREAM):
            self._reply(frame(b"{}", END), STREAM)
        elif kind.startswith(PROTO):
            self._reply(b"", PROTO)
        else:
            self._reply(b"{}", JSON)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", STREAM)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def _reply(self, raw: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw


class _Run:
    """One run, from its request to the end of its stream."""

    def __init__(self, http: _Handler, request: str):
        self._http = http
        self._request = request
        self._blobs = 0

    def go(self) -> None:
        self._http.begin_stream()
        try:
            asked = self._wait(RUN_REQUEST)
            self._play(asked)
        except (queue.Empty, BrokenPipeError, ConnectionResetError):
            self._http.close_connection = True  # the client is gone, and nobody is left to tell
            return
        self._http.chunk(b"")

    def _play(self, asked: bytes) -> None:
        state, user = inside(asked, 1), inside(asked, 2, 1, 1)
        text = inside(user, 1).decode()
        told = script.of(text)
        words = data(1, text) + data(2, inside(user, 2))
        if told.tell_user:
            self._update(message(USER, message(1, words)))
        prompt, steps = self._keep(words), []
        for piece in script.halves(told.think):
            self._update(message(THINKING, data(1, piece)))
        if told.think:
            self._update(message(THOUGHT, number(1, THOUGHT_MS)))
            steps.append(message(STEP_THOUGHT, data(1, told.think), number(2, THOUGHT_MS)))
        steps += self._say(told.say)
        if told.cmd:
            steps.append(self._call(told))
        steps += self._say(told.final)
        if told.error:
            failed = {"error": {"code": "invalid_argument", "message": told.error}}
            self._http.chunk(frame(json.dumps(failed).encode(), END))
            return
        self._checkpoint(state, prompt, steps, text, told.final)
        self._update(message(TURN_ENDED, number(1, 1200), number(2, 34), number(3, 0), number(4, 0)))
        self._http.chunk(frame(b"{}", END))

    def _say(self, text: str) -> list[bytes]:
        for piece in script.halves(text):
            self._update(message(TEXT, data(1, piece)))
        return [message(STEP_SAID, data(1, text))] if text else []

    def _call(self, told: script.Script) -> bytes:
        """One command, which the SDK really runs; the step that a checkpoint keeps of it."""
        program = told.cmd.split()[0]
        parsed = message(8, message(2, data(1, program), data(3, told.cmd)))
        args = (
            data(1, told.cmd)
            + data(2, told.cwd)
            + number(3, WAIT_FOR_CALL_MS)
            + data(4, told.call)
            + data(5, program)
        )
        args += parsed + data(15, "Run a command")
        model_call = data(3, "model_call_1")
        self._update(
            message(CALL_STARTED, data(1, told.call), message(2, message(1, message(1, args))), model_call)
        )
        self._send(message(EXEC, number(1, 1), data(15, "exec-1"), message(2, args)))
        result = inside(self._wait(EXEC_REPLY), 2)
        tool = message(1, message(1, args), message(2, result))
        self._update(message(CALL_ENDED, data(1, told.call), data(2, tool), model_call))
        return data(STEP_CALL, tool + data(57, told.call))

    def _checkpoint(self, state: bytes, prompt: bytes, steps: list[bytes], text: str, final: str) -> None:
        kept = [self._keep(step) for step in steps]
        turn = self._keep(
            message(1, data(1, prompt), *[data(2, step) for step in kept], data(3, self._request))
        )
        said = [
            {"role": "user", "content": [{"type": "text", "text": text}]},
            {"role": "assistant", "content": [{"type": "text", "text": final}]},
        ]
        prompts = [*all_of(state, 1), *[self._keep(json.dumps(one).encode()) for one in said]]
        turns = [*all_of(state, 8), turn]
        self._send(
            message(
                CHECKPOINT,
                *[data(1, one) for one in prompts],
                *[data(8, one) for one in turns],
                message(5, number(1, 100), number(2, 200_000)),
                number(10, 1),
            )
        )

    def _keep(self, raw: bytes) -> bytes:
        """Have the client keep a blob; its id."""
        found = hashlib.sha256(raw).digest()
        self._blobs += 1
        self._send(message(BLOB, number(1, self._blobs), message(3, data(1, found), data(2, raw))))
        self._wait(BLOB_REPLY)
        return found

    def _update(self, *parts: bytes) -> None:
        self._send(message(UPDATE, *parts))

    def _send(self, raw: bytes) -> None:
        self._http.chunk(frame(raw))

    def _wait(self, wanted: int) -> bytes:
        while True:
            told = self._http.server.sent[self._request].get(timeout=PATIENCE_S)
            for field, value in read(told):
                if field == wanted and isinstance(value, bytes):
                    return value
