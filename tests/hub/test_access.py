"""Who is let in, and who is not."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

import pytest

from holdfast import errors
from holdfast.home import Home
from holdfast.hub.auth import HEADERS, AccessRules, RequestFacts
from holdfast.hub.logins import Logins
from tests.hub.asking import ask, get, raw
from tests.hub.running_hub import RunningHub

TOKEN = "k" * 43
HERE = {"host": "127.0.0.1:8420", "authorization": f"Bearer {TOKEN}"}


def check(access: AccessRules, method: str = "GET", path: str = "/api/sessions", **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    access.check(RequestFacts(method, path, {**HERE, **named}, None))


@pytest.mark.parametrize("name", ["127.0.0.1:8420", "localhost:8420", "LOCALHOST", "[::1]:8420", "127.9.9.9"])
def test_a_hub_on_loopback_is_known_by_loopback_names(name: str) -> None:
    check(AccessRules(TOKEN, "127.0.0.1", 8420), host=name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "evil.example",
        "evil.example:8420",
        "localhost.evil.example",
        "127.0.0.1.nip.example",
        "192.168.0.1",
        "localhost@evil.example",
        "evil.example/localhost",
        "localhost:port",
        "localhost, evil.example",
        "localhost#",
        "[::1",
        "0x7f.1.example",
    ],
)
def test_any_other_name_could_be_a_strangers(name: str) -> None:
    with pytest.raises(errors.BadHost):
        check(AccessRules(TOKEN, "127.0.0.1", 8420), host=name)


def test_beyond_loopback_it_is_known_by_addresses_and_by_the_names_in_the_config() -> None:
    access = AccessRules(TOKEN, "0.0.0.0", 8420, ("hub.example", "other.example:9000"))
    for name in (
        "192.168.0.1:8420",
        "hub.example",
        "hub.example:8443",
        "other.example:9000",
        "[fd00::1]:8420",
    ):
        check(access, host=name)
    for name in ("evil.example", "other.example:9001"):
        with pytest.raises(errors.BadHost):
            check(access, host=name)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": ""},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    access = AccessRules(TOKEN, "127.0.0.1", 8420)
    for method in ("POST", "PATCH", "DELETE", "PUT"):
        with pytest.raises(errors.BadOrigin):
            check(access, method, **headers)
    check(access, "POST", origin="http://127.0.0.1:8420", sec_fetch_site="same-origin")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN}ÿ"},
        {"cookie": f"holdfast_8421={TOKEN}"},
        {"cookie": f"holdfast_8420={TOKEN}x"},
        {"cookie": "\x00;;==;"},
    ],
)
def test_without_the_token_nobody_reads_anything(headers: dict[str, str]) -> None:
    access = AccessRules(TOKEN, "127.0.0.1", 8420)
    with pytest.raises(errors.Unauthorized):
        access.check(RequestFacts("GET", "/api/sessions", {"host": "localhost", **headers}, None))
    access.check(RequestFacts("GET", "/healthz", {"host": "localhost", **headers}, None))
    access.check(RequestFacts("GET", "/schema/openapi.json", {"host": "localhost", **headers}, None))
    for path in ("/healthzz", "/schemata", "/", "/hook", "//healthz", "/api/healthz"):
        with pytest.raises(errors.Unauthorized):
            access.check(RequestFacts("GET", path, {"host": "localhost", **headers}, None))


@pytest.mark.parametrize(
    "cookie",
    [
        "holdfast_8420={}",
        'other={"a": 1, "b": [2]}; holdfast_8420={}',
        "a b=c d; =; ;;\x00\xff; holdfast_8420={};x",
        "holdfast_8420=old; holdfast_8420={}",
    ],
)
def test_the_cookie_counts_whatever_cookies_other_programs_have_set(home: Home, cookie: str) -> None:
    logins = Logins(home, TOKEN)
    made = logins.create("a browser", "localhost", keyed=False)
    headers = {"host": "localhost", "cookie": cookie.replace("{}", made.cookie)}
    access = AccessRules(TOKEN, "127.0.0.1", 8420, (), logins)
    access.check(RequestFacts("GET", "/api/sessions", headers, None))
    headers = {"host": "localhost", "cookie": cookie.replace("{}", TOKEN)}
    with pytest.raises(errors.Unauthorized):  # the token itself is no login
        access.check(RequestFacts("GET", "/api/sessions", headers, None))


def test_metrics_are_open_on_loopback_only() -> None:
    AccessRules(TOKEN, "::1", 8420).check(RequestFacts("GET", "/metrics", {"host": "localhost"}, None))
    with pytest.raises(errors.Unauthorized):
        AccessRules(TOKEN, "0.0.0.0", 8420).check(RequestFacts("GET", "/metrics", {"host": "10.0.0.1"}, None))


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "hub.example"},
        {"host": "127.0.0.1:8420", "x-forwarded-for": "10.0.0.1"},
        {"host": "127.0.0.1:8420", "forwarded": "for=10.0.0.1"},
        {"host": "127.0.0.1:8420", "x-real-ip": "10.0.0.1"},
        {"host": "127.0.0.1:8420", "via": "1.1 proxy"},
    ],
)
def test_metrics_are_not_open_behind_a_proxy(headers: dict[str, str]) -> None:
    access = AccessRules(TOKEN, "127.0.0.1", 8420, ("hub.example",))
    with pytest.raises(errors.Unauthorized):
        access.check(RequestFacts("GET", "/metrics", headers, None))
    access.check(RequestFacts("GET", "/metrics", {**headers, "authorization": f"Bearer {TOKEN}"}, None))


@pytest.mark.parametrize("path", ["//api/sessions", "///api/stream", "/api//sessions", "/metrics", "/other"])
def test_no_spelling_of_an_address_skips_the_origin_check(path: str) -> None:
    headers = {**HERE, "sec-fetch-site": "cross-site"}
    with pytest.raises(errors.BadOrigin):
        AccessRules(TOKEN, "127.0.0.1", 8420, ("hub.example",)).check(
            RequestFacts("GET", path, {**headers, "via": "x"}, None)
        )


def test_an_address_with_an_empty_part_is_nowhere(hub: RunningHub) -> None:
    for path in ("//api/sessions", "/api//sessions", "//healthz", "//"):
        assert ask(hub, "GET", path).status == 404, path


def test_the_token_moves_from_the_address_into_a_cookie(hub: RunningHub) -> None:
    asked = raw(hub, "GET", "/", {"Accept": "text/html"})
    assert (asked.status, asked.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b'name="token"' in asked.body

    wrong = raw(hub, "GET", "/?token=wrong", {"Cookie": f"{_cookie(hub)}={hub.token}"})
    assert wrong.status == 401 and "set-cookie" not in wrong.headers

    let_in = raw(hub, "GET", f"/?token={hub.token}")
    assert (let_in.status, let_in.headers["location"]) == (303, "/")
    cookie = let_in.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))

    page = raw(hub, "GET", "/", {"Cookie": cookie.split(";")[0]})
    assert page.status == 200 and hub.token.encode() not in page.body


def test_every_answer_has_strict_headers(hub: RunningHub) -> None:
    answers = [
        raw(hub, "GET", "/healthz"),
        raw(hub, "GET", "/api/sessions"),
        raw(hub, "GET", "/", {"Host": "evil.example"}),
        ask(hub, "GET", "/nowhere"),
        ask(hub, "GET", "/"),
        ask(hub, "GET", "/page/nothing.js"),
        raw(hub, "GET", f"/?token={hub.token}"),
    ]
    assert [answer.status for answer in answers] == [200, 401, 403, 404, 200, 404, 303]
    for answer in answers:
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in answer.headers


def test_a_refusal_is_a_problem_and_gives_nothing_away(hub: RunningHub) -> None:
    for headers, status, code in (
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({"Host": "evil.example"}, 403, "bad_host"),
    ):
        answer = raw(hub, "GET", "/api/sessions", headers)
        assert (answer.status, answer.json["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert hub.token.encode() not in answer.body
    crossed = ask(hub, "POST", "/api/redispatch", Origin="http://evil.example")
    assert (crossed.status, crossed.json["code"]) == (403, "bad_origin")


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/..%2fapp.py",
        "/page//etc/passwd",
        "/page/%00",
        "/page/.",
        "/page/..",
        "/page/a%00.js",
        "/page/%ff%fe",
    ],
)
def test_no_file_but_the_pages_own_is_served(hub: RunningHub, path: str) -> None:
    assert ask(hub, "GET", path).status == 404


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fhub.token", "s" * 5000, "%00", "a%2fb", "s%25"])
def test_no_id_is_taken_for_a_path(hub: RunningHub, name: str) -> None:
    for path in (f"/api/sessions/{name}", f"/api/sessions/{name}/events", f"/api/tasks/{name}"):
        assert ask(hub, "GET", path).status in (404, 409)


def test_what_is_too_large_is_refused_whether_or_not_it_says_its_size(hub: RunningHub) -> None:
    body = b'{"prompt": "' + b"x" * 2_000_000 + b'"}'
    headers = {"Authorization": f"Bearer {hub.token}", "Content-Type": "application/json"}
    assert raw(hub, "POST", "/api/dispatch", headers, body).status == 413
    lying = raw(hub, "POST", "/api/dispatch", {**headers, "Content-Length": "9999999999"}, b"")
    assert (lying.status, lying.json["code"]) == (413, "too_large")
    assert get(hub, "/api/sessions")["sessions"] == []


def test_a_head_that_does_not_end_is_cut_off(hub: RunningHub) -> None:
    with socket.create_connection(("127.0.0.1", int(hub.url.rpartition(":")[2])), timeout=60) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionError):
            for number in range(1000):
                line.sendall(b"X-%d: " % number + b"a" * 60_000 + b"\r\n")
            pytest.fail("60 MB of headers were taken")
    for size, status in ((30_000, 200), (200_000, 400)):
        with suppress(ConnectionError):
            assert raw(hub, "GET", "/healthz", {"X-Long": "a" * size}).status == status


def test_the_files_that_let_in_are_for_their_user_alone(hub: RunningHub) -> None:
    for name in ("hub.token", "hub.json", "hub.lives"):
        mode = os.stat(os.path.join(hub.terminal.home.path, name)).st_mode
        assert stat.S_IMODE(mode) == 0o600, name


def _cookie(hub: RunningHub) -> str:
    return f"holdfast_{hub.url.rpartition(':')[2]}"
