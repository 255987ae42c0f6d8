"""A stranger at the hub's port: odd requests, byte by byte as no well-behaved program sends them."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn

from holdfast.cli.commands import up
from holdfast.hub.auth import HEADERS
from holdfast.hub.http_protocol import HubHttpProtocol
from holdfast.hub.visitors import Visitors
from holdfast.settings import HubSettings
from tests.hub.asking import ask, get, raw
from tests.hub.running_hub import RunningHub, running_in
from tests.hub.test_sessions import done


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """One hub for all attacks; in the end it has neither failed nor told its token."""
    with running_in(tmp_path_factory.mktemp("attacks")) as found:
        done(found, key="k")
        yield found
        assert get(found, "/healthz")["status"] == "ok"
        assert "Traceback" not in found.log()
        assert found.token not in found.log()


def port(hub: RunningHub) -> int:
    return int(hub.url.rpartition(":")[2])


def spoken(hub: RunningHub, said: bytes) -> tuple[int, bytes]:
    """What is answered to these bytes: the status, 0 for none, and all of it."""
    with socket.create_connection(("127.0.0.1", port(hub)), timeout=60) as line:
        try:
            line.sendall(said)
            line.shutdown(socket.SHUT_WR)
            heard = b"".join(iter(lambda: line.recv(65536), b""))
        except OSError:  # it has gone before all was said
            return 0, b""
    return (int(heard.split(b" ", 2)[1]) if heard.startswith(b"HTTP/1.1 ") else 0), heard


def request(hub: RunningHub, target: str, *lines: str, method: str = "GET", body: bytes = b"") -> int:
    """The status of a request with just these lines, and the token."""
    head = [f"{method} {target} HTTP/1.1", *lines, f"Authorization: Bearer {hub.token}", "Connection: close"]
    status, heard = spoken(hub, "\r\n".join([*head, "", ""]).encode("latin-1") + body)
    assert hub.token.encode() not in heard
    return status


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("Host:",),
        ("Host: evil.example",),
        ("Host: localhost.evil.com",),
        ("Host: 127.0.0.1.evil.com",),
        ("Host: evil.com:80@127.0.0.1",),
        ("Host: 127.0.0.1", "Host: evil.example"),
        ("Host: evil.example", "Host: 127.0.0.1"),
        ("Host: evil.example", "X-Forwarded-Host: 127.0.0.1"),
        ("Host: evil.example", "Forwarded: host=127.0.0.1"),
        ("Host: [::1", "X-A: b"),
        ("Host: [::1].evil.example",),
        ("Host: 2130706433",),
        ("Host: 0x7f.0.0.1",),
        ("Host: 0.0.0.0",),
        ("Host: [::ffff:10.0.0.1]",),
        ("Host: localhost.",),
        ("Host: l\xf6calhost",),
    ],
)
def test_a_name_that_is_not_the_hubs_is_not_let_in(attacked: RunningHub, lines: tuple[str, ...]) -> None:
    for target in ("/api/sessions", "/healthz", "/", f"/?token={attacked.token}", "/page/app.js"):
        assert request(attacked, target, *lines) in (400, 403), target


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "[::1]:8420", "127.0.0.1:1"])
def test_names_of_loopback_are_the_hubs(attacked: RunningHub, name: str) -> None:
    assert request(attacked, "/api/sessions", f"Host: {name}") == 200


def test_a_target_with_a_host_in_it_is_judged_by_the_host_header(attacked: RunningHub) -> None:
    assert request(attacked, "http://127.0.0.1/api/sessions", "Host: evil.example") == 403
    assert request(attacked, "http://evil.example/api/sessions") == 403
    assert request(attacked, "http://evil.example/api/sessions", "Host: 127.0.0.1") in (200, 400, 403, 404)
    for target in ("*", "127.0.0.1:80", "api/sessions", "//evil.example/api/sessions", "http:///api"):
        assert request(attacked, target, "Host: 127.0.0.1", method="OPTIONS") in (400, 404), target
        assert request(attacked, target, "Host: 127.0.0.1") in (400, 404), target


@pytest.mark.parametrize(
    "line",
    [
        "Origin: null",
        "Origin: http://evil.example",
        "Origin: http://127.0.0.1:1",
        "Origin: http://[",
        "Origin: http://[::1",
        "Origin: file://",
        "Origin: \xff\xfe",
        "Origin: http://127.0.0.1\r\nOrigin: http://evil.example",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: whatever",
    ],
)
def test_a_foreign_page_neither_changes_nor_asks_anything(attacked: RunningHub, line: str) -> None:
    here = f"Host: 127.0.0.1:{port(attacked)}"
    for method in ("GET", "POST", "PATCH", "DELETE", "PUT", "TRACE"):
        assert request(attacked, "/api/sessions/k", here, line, method=method) == 403, method
    assert request(attacked, "/api/stream", here, line) == 403
    assert get(attacked, "/api/sessions/k")["session"]["state"] == "live"


def test_a_link_on_a_foreign_page_may_lead_to_the_page(attacked: RunningHub) -> None:
    here = f"Host: 127.0.0.1:{port(attacked)}"
    assert request(attacked, "/", here, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate") == 200
    assert request(attacked, "/api/sessions", here, "Sec-Fetch-Site: same-origin") == 200


def test_no_header_makes_one_method_another(attacked: RunningHub) -> None:
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        answer = ask(attacked, "GET", "/api/sessions/k?_method=DELETE", **{name: "DELETE"})
        assert answer.status == 200
        assert ask(attacked, "POST", "/api/sessions/k", **{name: "DELETE"}).status == 405
    assert get(attacked, "/api/sessions/k")["session"]["state"] == "live"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "CONNECT", "PROPFIND", "BREW"])
def test_other_methods_are_refused_and_need_the_token_too(attacked: RunningHub, method: str) -> None:
    target = f"127.0.0.1:{port(attacked)}" if method == "CONNECT" else "/api/sessions"
    allowed = (204,) if method == "OPTIONS" else (400, 404, 405)
    assert request(attacked, target, "Host: 127.0.0.1", method=method) in allowed
    status, heard = spoken(attacked, f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert status in (400, 401) and b"access-control" not in heard.lower()


@pytest.mark.parametrize(
    "path",
    [
        "/page/..%2fhub.py",
        "/page/..%2f..%2fclient%2fhub.py",
        "/page/%2e%2e%2fhub.py",
        "/page/..%5chub.py",
        "/page/....//hub.py",
        "/page/%252e%252e%252fhub.py",
        "/page/..%c0%afhub.py",
        "/page/.%00./hub.py",
        "/page/index.html%00.js",
        "/page/" + "a" * 5000,
        "/page",
        "/page/",
    ],
)
def test_only_files_of_the_page_are_served(attacked: RunningHub, path: str) -> None:
    assert request(attacked, path, "Host: 127.0.0.1") == 404


HARD = {
    "nul": "%00",
    "bad utf-8": "%ff%fe%80",
    "surrogate": "%ed%a0%80",
    "long": "s" * 9000,
    "slashes": "..%2F..%2Fhub.token",
    "number": "9" * 400,
    "pattern": "s%25%5F",
    "newline": "k%0d%0aSet-Cookie:%20a=b",
    "quote": "k'%20or%20'1'='1",
}


@pytest.mark.parametrize("name", HARD)
def test_no_id_makes_the_hub_fail(attacked: RunningHub, name: str) -> None:
    odd = HARD[name]
    for method, path in (
        ("GET", "/api/sessions/{}"),
        ("GET", "/api/sessions/{}/events"),
        ("GET", "/api/sessions/{}/verdict"),
        ("GET", "/api/sessions/{}/stream"),
        ("GET", "/api/tasks/{}"),
        ("GET", "/api/tasks?session={}"),
        ("GET", "/api/verdicts?session={}"),
        ("GET", "/api/sessions?before={}"),
        ("GET", "/api/sessions?key={}&text={}&agent={}"),
        ("GET", "/api/tasks?day={}"),
        ("GET", "/api/sessions/k/events?after={}"),
        ("GET", "/api/sessions?limit={}"),
        ("GET", "/api/lives?since={}"),
        ("GET", "/api/overview?days={}"),
        ("GET", "/api/doctor?target={}&path={}"),
        ("POST", "/hooks/{}"),
        ("POST", "/api/tasks/{}/cancel"),
        ("DELETE", "/api/sessions/{}"),
        ("POST", "/api/sessions/{}/archive"),
        ("GET", "/{}"),
    ):
        status = request(attacked, path.replace("{}", odd), "Host: 127.0.0.1", method=method)
        assert status in (200, 400, 404, 409), (method, path)
        if "sessions?key" not in path and "verdicts" not in path:
            assert status != 200, (method, path)


def test_what_is_not_asked_for_by_name_is_passed_over(attacked: RunningHub) -> None:
    assert len(get(attacked, "/api/sessions?colour=red&limit=5&Limit=x")["sessions"]) == 1
    assert ask(attacked, "GET", "/api/sessions?limit=1&limit=2").status in (200, 400)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b""),
        ("application/json", b"null"),
        ("application/json", b"[]"),
        ("application/json", b'"prompt"'),
        ("application/json", b"{"),
        ("application/json", b'{"prompt": "\xff\xfe", "agent": "demo"}'),
        ("application/json", b'{"prompt": "x", "agent": "demo", "cwd": "\\u0000"}'),
        ("application/json", b'{"prompt": 1}'),
        ("application/json", b'{"prompt": "x", "agent": {}}'),
        ("application/json", b'{"prompt": "x", "agent": "demo", "more": 1}'),
        ("application/json", b'{"prompt": "x", "time_limit_s": 1e999}'),
        ("application/json", b'{"prompt": "x", "time_limit_s": NaN}'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a":' * 100_000),
        ("application/json; charset=utf-16", '{"prompt": "x"}'.encode("utf-16")),
        ("application/x-www-form-urlencoded", b"prompt=x&agent=demo"),
        ("text/plain", b'{"prompt": ""}'),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n"),
        ("multipart/form-data", b"--x--"),
        ("application/msgpack", b"\x81\xa6prompt\xa1x"),
        ("", b"{}"),
        ("/;;=", b"{}"),
    ],
)
def test_no_body_makes_the_hub_fail(attacked: RunningHub, kind: str, body: bytes) -> None:
    before = len(get(attacked, "/api/tasks")["tasks"])
    headers = {"Authorization": f"Bearer {attacked.token}", "Content-Type": kind}
    for method, path in (
        ("POST", "/api/dispatch"),
        ("POST", "/api/sessions/k/resume"),
        ("PATCH", "/api/sessions/k"),
        ("POST", "/api/sessions/k/trust"),
        ("POST", "/api/sessions/k/tokens"),
        ("POST", "/api/adopt"),
        ("POST", "/api/doctor/apply"),
        ("POST", "/api/doctor/undo"),
        ("POST", "/hooks/github"),
    ):
        answer = raw(attacked, method, path, headers, body)
        assert answer.status in (400, 404, 409, 415), (path, answer)
        assert HEADERS.items() <= answer.headers.items()
        assert answer.json["code"] and answer.headers["content-type"] == "application/problem+json"
    assert len(get(attacked, "/api/tasks")["tasks"]) == before


def test_a_chunked_body_is_counted_as_it_comes(attacked: RunningHub) -> None:
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    for path, size in (("/api/dispatch", 20), ("/hooks/github", 80)):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {attacked.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
        status, heard = spoken(attacked, head.encode() + piece * size + b"0\r\n\r\n")
        # 0: it has answered and gone before all was sent.
        assert status in (0, 413) or (path == "/hooks/github" and status == 404), heard


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x00" * 100_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\n\r\n",
        b"POST /api/dispatch HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/dispatch HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /api/dispatch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/sessions HTTP/1.1\r\n\r\n",
        b"POST /api/dispatch HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /?" + b"a=b&" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    ],
)
def test_what_is_no_request_is_refused(attacked: RunningHub, said: bytes) -> None:
    status, heard = spoken(attacked, said)
    assert status in (0, 400, 401, 403, 413, 414, 431), heard[:200]


def test_the_token_is_in_no_log_and_no_referrer(attacked: RunningHub) -> None:
    let_in = raw(attacked, "GET", f"/?token={attacked.token}", {"Referer": "http://elsewhere.example/"})
    assert let_in.status == 303 and let_in.headers["location"] == "/"
    assert let_in.headers["referrer-policy"] == "no-referrer"
    assert let_in.headers["cache-control"] == "no-store"
    kept = let_in.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(kept)
    assert not [part for part in kept if part.lower().startswith("domain")]
    for path in (f"/nowhere?token={attacked.token}", f"/api/sessions?limit=x&token={attacked.token}"):
        assert attacked.token.encode() not in raw(attacked, "GET", path).body
    twice = f"/?token={attacked.token}&token={quote(attacked.token)}"
    assert raw(attacked, "GET", twice).status == 401
    assert attacked.token not in attacked.log()
    found = Path(attacked.terminal.home.path, "hub.token")
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    command = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(attacked.pid)], capture_output=True)
    assert attacked.token.encode() not in command.stdout


def test_beyond_loopback_it_says_who_can_come_and_that_they_need_the_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    door: Any = SimpleNamespace(url="http://127.0.0.1:8420", token="t" * 43)
    hub: Any = SimpleNamespace(healed=None)
    for host, is_said in (("0.0.0.0", True), ("::", True), ("192.168.0.7", True), ("127.0.0.1", False)):
        up._tell(argparse.Namespace(json=False, qr=False), HubSettings(host=host), door, hub)
        said = capsys.readouterr()
        address = r"http://[0-9a-f.:\[\]]+:8420" if host in ("0.0.0.0", "::") else r"http://127\.0\.0\.1:8420"
        assert re.fullmatch(rf"{address}/\?token={'t' * 43}\n", said.out)
        assert ("other machines can reach" in said.err and "they need the token" in said.err) == is_said


class Hasty(HubHttpProtocol):
    """Waits less long."""

    visitors = Visitors(1024)
    COME_S = 1.0


async def _slowly(said: list[bytes], *, half_close: bool = False) -> bytes:
    """What is heard from a server that is told something, and then nothing more."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        if half_close:
            await asyncio.sleep(2 * Hasty.COME_S)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if not half_close:
            await asyncio.sleep(2 * Hasty.COME_S)  # an answer may take its time
        await send({"type": "http.response.body", "body": json.dumps(scope["path"]).encode()})

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=Hasty, ws="none", lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        for piece in said:
            writer.write(piece)
            await asyncio.sleep(0.1)
        if half_close:
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), 60)
        except ConnectionError:
            return b""
        finally:
            writer.close()
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    "said",
    [
        [],
        [b"GET / HT"],
        [b"GET / HTTP/1.1\r\n", b"Host: localhost\r\n", b"X: "],
        [b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", b"a"],
        [b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"],
    ],
)
async def test_a_request_that_does_not_come_to_its_end_is_cut_off(said: list[bytes]) -> None:
    assert await _slowly(said) == b""


async def test_a_whole_request_is_answered_however_long_that_takes() -> None:
    heard = await _slowly([b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
    assert heard.startswith(b"HTTP/1.1 200") and b"/slow" in heard


@pytest.mark.parametrize("last", ["Connection: close\r\n", ""])
async def test_a_client_that_sends_nothing_more_still_gets_its_answer(last: str) -> None:
    said = f"GET /slow HTTP/1.1\r\nHost: localhost\r\n{last}\r\n"
    heard = await _slowly([said.encode()], half_close=True)
    assert heard.startswith(b"HTTP/1.1 200") and b"/slow" in heard


async def test_pipelined_requests_are_all_answered_after_the_client_stops_sending() -> None:
    said = b"".join(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number for number in range(2))
    heard = await _slowly([said], half_close=True)
    assert heard.count(b"HTTP/1.1 200") == 2 and b"/0" in heard and b"/1" in heard


async def test_half_a_request_gets_no_answer_when_the_client_stops_sending() -> None:
    said = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\na"
    assert await _slowly([said], half_close=True) == b""
