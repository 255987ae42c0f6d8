"""The client: finding a hub, its words, its streams; against a small server that misbehaves on purpose."""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors, ids
from holdfast.client import HubClient, discovery
from holdfast.client.http import error_from_response
from holdfast.client.stream import SseParser, StreamMessage
from holdfast.home import Home
from holdfast.process import identity
from holdfast.store.location import Location

# --- frames


STREAM = (
    b": hello\nretry: 1000\nid: c0\n\n"
    b'id: c1\nevent: event\ndata: {"session":"s","event":{"seq":1}}\n\n'
    b": beat\n\n"
    b'event: partial\r\ndata: {"text":\r\ndata: "a\\nb"}\r\n\r\n'
    b"event: nothing\n\n"
)
TOLD = [
    StreamMessage("", "c0", {}),
    StreamMessage("event", "c1", {"session": "s", "event": {"seq": 1}}),
    StreamMessage("partial", None, {"text": "a\nb"}),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    frames = SseParser()
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(places)]
    assert [message for piece in pieces for message in frames.feed(piece)] == TOLD


# --- refusals


def test_a_problem_is_the_error_that_the_hub_had() -> None:
    body = {"code": "session_running", "detail": "it runs", "hint": "wait", "status": 409, "task": "t1"}
    problem = error_from_response(409, json.dumps(body).encode())
    assert isinstance(problem, errors.SessionRunning) and problem.exit_status == 4
    assert problem.as_json() == {
        "code": "session_running",
        "message": "it runs",
        "hint": "wait",
        "task": "t1",
    }
    newer = error_from_response(409, b'{"code":"of_tomorrow","detail":"no"}')
    assert (newer.code, newer.message) == ("of_tomorrow", "no")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b'{"code":1}', b"\xff"])
def test_what_is_no_problem_is_still_an_error(body: bytes) -> None:
    assert "502" in error_from_response(502, body).message


# --- finding it


def note(home: Home, **more: Any) -> None:
    me = identity.me("here")
    told = {"pid": me.pid, "started": me.started, "boot": me.boot, "url": "http://127.0.0.1:1", **more}
    with open(discovery.hub_file_path(home), "w") as file:
        json.dump(told, file)
    with open(discovery.token_path(home), "w") as file:
        file.write("secret\n")


def test_a_hub_is_found_while_it_lives(home: Home) -> None:
    here = Location("sqlite", home.database)
    assert discovery.find_hub(home, here) is None
    note(home, store=discovery.store_fingerprint(here))
    assert discovery.find_hub(home, here) == discovery.HubAddress("http://127.0.0.1:1", "secret")
    assert discovery.find_hub(home, Location("postgres", "postgresql://x")) is None
    note(home, started=1.0)  # another process has its pid by now
    assert discovery.find_hub(home, here) is None
    note(home, boot="another")
    assert discovery.find_hub(home, here) is None
    for odd in ("", "[]", "{", '{"pid": 1}'):
        with open(discovery.hub_file_path(home), "w") as file:
            file.write(odd)
        assert discovery.find_hub(home, here) is None


def test_a_store_is_told_without_its_password() -> None:
    assert "pw" not in discovery.store_fingerprint(Location("postgres", "postgresql://me:pw@host/db"))


# --- a server that misbehaves


Script = Callable[[BaseHTTPRequestHandler, bytes], None]


class Server:
    """Answers each request by the next script; keeps what it was asked."""

    def __init__(self, *scripts: Script):
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        left = iter(scripts)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                told = json.loads(body) if body else None
                asked.append((self.command, self.path, dict(self.headers), told))
                next(left)(self, body)

            do_GET = do_POST = do_DELETE = do_PATCH = _any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(*scripts: Script) -> Server:
        made.append(Server(*scripts))
        return made[-1]

    yield start
    for server in made:
        server.close()


def answer(value: Any, status: int = 200) -> Script:
    def script(request: BaseHTTPRequestHandler, _: bytes) -> None:
        request.send_response(status)
        request.end_headers()
        request.wfile.write(json.dumps(value).encode())

    return script


def hang_up(request: BaseHTTPRequestHandler, _: bytes) -> None:
    """As a hub that is killed after it heard a request, and before it answered."""
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)


def tell(*frames: bytes) -> Script:
    def script(request: BaseHTTPRequestHandler, _: bytes) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        for frame in frames:
            request.wfile.write(frame)

    return script


def event(number: int) -> bytes:
    return b'id: c%d\nevent: event\ndata: {"session":"s","event":{"seq":%d}}\n\n' % (number, number)


def hub(server: Server, by: str = "") -> HubClient:
    return HubClient(discovery.HubAddress(server.url, "secret"), by)


def test_a_call_brings_token_and_name(serving: Callable[..., Server]) -> None:
    server = serving(answer({"session": {"id": "s1"}, "tokens": []}))
    assert hub(server, "Ann Ä").session("forgejo:dev:acme/rocket:1")["id"] == "s1"
    ((method, path, headers, _),) = server.asked
    assert (method, path) == ("GET", "/api/sessions/forgejo%3Adev%3Aacme%2Frocket%3A1")
    assert headers["Authorization"] == "Bearer secret" and headers["X-Holdfast-By"] == "Ann%20%C3%84"


def test_a_prompt_that_may_have_been_heard_is_sent_again_under_the_same_id(
    serving: Callable[..., Server],
) -> None:
    server = serving(hang_up, answer({"task": "t1", "session": "s1"}, 201))
    assert hub(server).dispatch("go", agent="demo") == {"task": "t1", "session": "s1"}
    first, second = [body for *_, body in server.asked]
    assert first == second and ids.is_id(first["task"], ids.TASK)
    assert "permissions" not in first  # what is not said is not sent


def test_a_hub_that_is_gone_is_told(serving: Callable[..., Server]) -> None:
    server = serving(hang_up, hang_up)
    with pytest.raises(errors.HubGone):
        hub(server).resume("s1", "go")
    assert len(server.asked) == 2


def test_a_refusal_is_raised_and_not_sent_again(serving: Callable[..., Server]) -> None:
    server = serving(answer({"code": "resume_unsafe", "detail": "no", "hint": "", "reasons": [1]}, 409))
    with pytest.raises(errors.ResumeUnsafe) as refused:
        hub(server).resume("s1", "go")
    assert refused.value.facts == {"reasons": [1]} and len(server.asked) == 1


def test_all_events_are_read_page_by_page(serving: Callable[..., Server]) -> None:
    server = serving(
        answer({"events": [{"seq": 1}, {"seq": 2}], "next": 2}),
        answer({"events": [{"seq": 3}], "next": None}),
    )
    assert [e["seq"] for e in hub(server).events("s1")] == [1, 2, 3]
    assert "after=2" in server.asked[1][1]


def test_why_a_worktree_stays_is_told(serving: Callable[..., Server]) -> None:
    server = serving(answer({"id": "s1", "worktree_stays": "it has changes"}))
    assert hub(server).delete("s1", "old") == ({"id": "s1"}, "it has changes")
    assert server.asked[0][:2] == ("DELETE", "/api/sessions/s1?reason=old")


def test_a_stream_goes_on_where_it_broke(serving: Callable[..., Server]) -> None:
    server = serving(
        tell(b": hello\n\n", event(1), event(2)[:-9]),  # it dies within an event
        hang_up,
        answer({"code": "store_busy", "detail": "not yet"}, 503),
        tell(event(2), b'event: closing\ndata: {"why":"slow"}\n\n', event(9)),
        tell(event(3)),
    )
    stream = hub(server).stream("s1", after=0)
    assert [next(stream).cursor for _ in range(3)] == ["c1", "c2", "c3"]
    stream.close()  # type: ignore[attr-defined]
    assert [headers.get("Last-Event-ID") for *_, headers, _ in server.asked] == [None, "c1", "c1", "c1", "c2"]
    assert server.asked[0][1].endswith("?after=0") and "after" not in server.asked[1][1]


def test_a_stream_of_all_goes_on_from_where_now_was(serving: Callable[..., Server]) -> None:
    server = serving(tell(b": hello\nid: c7\n\n"), tell(event(8)))
    stream = hub(server).stream()
    assert next(stream).cursor == "c8"
    stream.close()  # type: ignore[attr-defined]
    assert server.asked[1][2]["Last-Event-ID"] == "c7"


def test_a_stream_ends_when_no_hub_comes_back(home: Home) -> None:
    note(home, pid=os.getpid())
    gone = HubClient.of(home)
    assert gone is not None
    os.unlink(discovery.hub_file_path(home))
    with pytest.raises(errors.HubGone, match="no hub for 0 s"):
        next(gone.stream("s1", patience_s=0.3))
