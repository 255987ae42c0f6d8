"""The agent's side of ACP: how each request is answered."""

from __future__ import annotations

import json
import os
import select
import signal

from holdfast import __version__
from holdfast.demo import script, sessions, turn

TYPE_CHECKING = False  # `typing` would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

PIECE = 1 << 16

_encode = json.JSONEncoder(separators=(",", ":")).encode


class NotJson(Exception):
    """A line that is not a JSON object."""


class StdioConnection:
    """Reads requests from stdin and writes messages to stdout; `open` until stdin ends."""

    def __init__(self, stdin: int = 0, stdout: int = 1):
        self.open = True
        self._stdin = stdin
        self._stdout = stdout
        self._rest = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; it is written completely before this returns."""
        self.write(_encode({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Write raw bytes."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdout, view) :]

    def wait(self, others: Iterable[int], seconds: float | None) -> tuple[list[bytes], set[int]]:
        """The lines that arrived, and which of `others` can be read; both empty after a timeout."""
        watched = [*others]
        if self.open:
            watched.append(self._stdin)
        ready = set(select.select(watched, [], [], seconds)[0])
        if not self.open or self._stdin not in ready:
            return [], ready
        ready.discard(self._stdin)
        return self._read(), ready

    def _read(self) -> list[bytes]:
        got = os.read(self._stdin, PIECE)
        if not got:
            self.open = False
            return []
        searched = len(self._rest)
        self._rest += got
        end = self._rest.rfind(b"\n", searched) + 1
        if not end:
            return []
        lines = bytes(self._rest[:end]).split(b"\n")[:-1]
        del self._rest[:end]
        return lines


def parse(line: bytes) -> dict[str, Any]:
    """The message in a line; NotJson if there is none."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if type(message) is not dict:
        raise NotJson
    return message


PROTOCOL_VERSION = 1
NOT_JSON, BAD_REQUEST, NO_METHOD, BAD_PARAMS, INTERNAL, NOT_FOUND = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32002,
)


class RequestError(Exception):
    """A request that is answered with an error: its code and text."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


class DemoServer:
    """The state of one demo agent process; it runs one turn at a time, and other prompts wait."""

    def __init__(self, connection: StdioConnection):
        self.connection = connection
        self.cancelled = False  # whether the running turn should stop
        self.answers: dict[int, dict[str, Any]] = {}  # replies to our requests, by their ids
        self._sessions: dict[str, sessions.DemoSession] = {}
        self._prompts: list[dict[str, Any]] = []  # requests that wait for their turn
        self._running: str | None = None  # the session of the running turn
        self._asked = 0
        self._children, woken = os.pipe()  # readable when a child exits
        for fd in (self._children, woken):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._answer: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/fork": self._fork,
        }

    def serve(self) -> None:
        """Answer requests until stdin ends and every request is done."""
        while True:
            if self._prompts:
                self._prompt(self._prompts.pop(0))
            elif not self.connection.open:
                return
            else:
                self.listen((), None)

    def listen(self, others: Iterable[int], seconds: float | None) -> None:
        """Handle input until some arrives, one of `others` can be read, or the time is up."""
        lines, ready = self.connection.wait((self._children, *others), seconds)
        if self._children in ready:
            os.read(self._children, 4096)
        for line in lines:
            if line.strip():
                self._on_line(line)

    def update(self, session: str, update: dict[str, Any]) -> None:
        """Send an update about a session."""
        self.connection.send({"method": "session/update", "params": {"sessionId": session, "update": update}})

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; the result is its id, and `answers` gets the reply."""
        id = self._asked
        self._asked += 1
        self.connection.send({"id": id, "method": method, "params": params})
        return id

    def _on_line(self, line: bytes) -> None:
        try:
            message = parse(line)
        except NotJson:
            self._refuse(None, NOT_JSON, "the line is not a JSON object")
            return
        method, id = message.get("method"), message.get("id")
        if method is None:
            if type(id) is int:
                self.answers[id] = message
        elif method == "session/cancel":
            self._cancel(message)
        elif "id" not in message:
            return  # an unknown notification
        elif method == "session/prompt":
            self._prompts.append(message)
        elif type(method) is str and method in self._answer:
            self._reply(id, self._answer[method], message)
        else:
            self._refuse(id, NO_METHOD, f"there is no method {method}")

    def _reply(
        self, id: Any, answer: Callable[[dict[str, Any]], dict[str, Any]], message: dict[str, Any]
    ) -> None:
        params = message.get("params")
        try:
            result = answer(params if type(params) is dict else {})
        except RequestError as problem:
            self._refuse(id, problem.code, str(problem))
        except sessions.UnknownSession as problem:
            self._refuse(id, NOT_FOUND, f"there is no session {problem}")
        except sessions.SessionInUse as problem:
            self._refuse(id, INTERNAL, f"another process has session {problem} open")
        except BrokenPipeError:
            raise
        except OSError as problem:
            self._refuse(id, INTERNAL, str(problem))
        else:
            self.connection.send({"id": id, "result": result})

    def _refuse(self, id: Any, code: int, text: str) -> None:
        self.connection.send({"id": id, "error": {"code": code, "message": text}})

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"embeddedContext": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}},
            },
            "authMethods": [],
            "agentInfo": {"name": "holdfast-demo", "title": "Holdfast demo agent", "version": __version__},
        }

    def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"sessionId": self._keep(sessions.create(_cwd(params)))}

    def _fork(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"sessionId": self._keep(sessions.fork(_text(params, "sessionId"), _cwd(params)))}

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        id = _text(params, "sessionId")
        for update in replay(self._reopen(id, params)):
            self.update(id, update)
        return {}

    def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        self._reopen(_text(params, "sessionId"), params)
        return {}

    def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        cursor = params.get("cursor")
        start = int(cursor) if type(cursor) is str and cursor.isdecimal() else 0
        listed, after = sessions.page(params.get("cwd"), start)
        return {"sessions": listed, **({} if after is None else {"nextCursor": str(after)})}

    def _keep(self, session: sessions.DemoSession) -> str:
        self._sessions[session.id] = session
        return session.id

    def _reopen(self, id: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        cwd = _cwd(params)
        if self._running == id:
            raise RequestError(INTERNAL, f"a turn of session {id} is running")
        if id in self._sessions:
            self._sessions.pop(id).close()
        session, records = sessions.reopen(id, cwd)
        self._keep(session)
        return records

    def _cancel(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        id = params.get("sessionId") if type(params) is dict else None
        self.cancelled = self.cancelled or (id is not None and id == self._running)
        for waiting in [m for m in self._prompts if _session(m) == id]:
            self._prompts.remove(waiting)
            self.connection.send({"id": waiting["id"], "result": {"stopReason": "cancelled"}})

    def _prompt(self, message: dict[str, Any]) -> None:
        self._reply(message["id"], self._take_turn, message)

    def _take_turn(self, params: dict[str, Any]) -> dict[str, Any]:
        id = _text(params, "sessionId")
        session = self._sessions.get(id)
        if session is None:
            raise sessions.UnknownSession(id)
        prompt = prompt_text(params.get("prompt"))
        try:
            steps = script.steps(prompt)
        except script.BadScript as problem:
            raise RequestError(BAD_PARAMS, str(problem)) from None
        self._running, self.cancelled = id, False
        try:
            return turn.DemoTurn(self, session).run(prompt, steps)
        except turn.TurnFailed as problem:
            raise RequestError(INTERNAL, str(problem)) from None
        finally:
            self._running = None


def prompt_text(blocks: Any) -> str:
    """The text of a prompt's content blocks; for other content, its address."""
    parts = []
    for block in blocks if type(blocks) is list else []:
        if type(block) is dict:
            resource = block.get("resource")
            inner = resource if type(resource) is dict else {}
            parts.append(block.get("text") or inner.get("text") or block.get("uri") or inner.get("uri"))
    return "\n".join([part for part in parts if type(part) is str])


def replay(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A session's history as updates; a call without a recorded result becomes failed."""
    results = {record["call"]: record for record in records if record["type"] == "result"}
    updates: list[dict[str, Any]] = []
    for record in records:
        if record["type"] == "prompt":
            content = {"type": "text", "text": record["text"]}
            updates.append(
                {"sessionUpdate": "user_message_chunk", "messageId": record["id"], "content": content}
            )
        elif record["type"] in ("message", "thought"):
            updates.append(turn.chunk(record["type"] == "message", record["id"], record["text"]))
        elif record["type"] == "call":
            id, result = record["id"], results.get(record["id"])
            updates.append(turn.tool_call(id, record["name"], record["input"], "in_progress"))
            if result is None:
                text = "interrupted: what it did before the agent died is unknown"
                updates.append(turn.tool_result(id, "failed", None, text))
            else:
                updates.append(turn.tool_result(id, result["status"], result["exit"], result["output"]))
    return updates


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if type(value) is not str:
        raise RequestError(BAD_PARAMS, f"{name} is missing")
    return value


def _cwd(params: dict[str, Any]) -> str:
    cwd = _text(params, "cwd")
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise RequestError(BAD_PARAMS, f"cwd is not a folder: {cwd}")
    return cwd


def _session(message: dict[str, Any]) -> Any:
    params = message.get("params")
    return params.get("sessionId") if type(params) is dict else None


def main(args: list[str]) -> NoReturn:
    """Run the demo agent on this process's stdin and stdout."""
    if args == ["--version"]:
        os.write(1, f"holdfast-demo {__version__}\n".encode())
        os._exit(0)
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        signal.signal(number, lambda *_, status=status: os._exit(status))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        DemoServer(StdioConnection()).serve()
    except BrokenPipeError:  # the client is gone
        os._exit(1)
    os._exit(0)
