"""Logins of the page: a secret of their own, listed, revoked, expired, and worth nothing to others."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest

from holdfast import errors, timestamps
from holdfast.home import Home
from holdfast.hub import logins as module
from holdfast.hub.logins import Logins
from tests.hub.asking import Answer, ask, get, raw
from tests.hub.running_hub import RunningHub

BROWSER = {"Accept": "text/html,*/*", "User-Agent": "Mozilla/5.0 Chrome/140.0"}


def port(hub: RunningHub) -> str:
    return hub.url.rpartition(":")[2]


def page_host(hub: RunningHub) -> dict[str, str]:
    return {"Host": f"holdfast.localhost:{port(hub)}"}


def log_in(hub: RunningHub) -> tuple[dict[str, str], str]:
    """As a browser: the headers of its cookie, and the key of its page."""
    first = raw(hub, "GET", f"/?token={hub.token}", BROWSER)
    assert first.status == 303 and "set-cookie" not in first.headers
    target = first.headers["location"]
    assert target.startswith(f"http://holdfast.localhost:{port(hub)}/?code=") and hub.token not in target
    path = target.partition(port(hub))[2]
    second = raw(hub, "GET", path, {**BROWSER, **page_host(hub)})
    assert second.status == 303 and second.headers["location"].startswith("/#key=")
    cookie = second.headers["set-cookie"]
    assert hub.token not in cookie and "domain" not in cookie.lower()
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    again = raw(hub, "GET", path, {**BROWSER, **page_host(hub)})
    assert "set-cookie" not in again.headers  # a code is good for once
    return {"Cookie": cookie.split(";")[0]}, second.headers["location"].removeprefix("/#key=")


def sessions(hub: RunningHub, headers: dict[str, str], path: str = "/api/sessions") -> Answer:
    return raw(hub, "GET", path, {**page_host(hub), **headers})


def test_a_browser_is_led_to_a_host_of_its_own_and_gets_a_secret_of_its_own(hub: RunningHub) -> None:
    cookie, key = log_in(hub)
    assert sessions(hub, {**cookie, "X-Holdfast-Key": key}).status == 200
    assert sessions(hub, cookie, f"/api/sessions?key={key}").status == 200
    led = raw(hub, "GET", "/", BROWSER)
    assert (led.status, led.headers["location"]) == (303, f"http://holdfast.localhost:{port(hub)}/")
    assert raw(hub, "GET", "/", {**BROWSER, **page_host(hub), **cookie}).status == 200
    assert raw(hub, "GET", "/?login=1", {**BROWSER, **page_host(hub), **cookie}).status == 401
    wrong = raw(hub, "GET", "/?token=wrong", BROWSER)
    assert wrong.status == 401 and b'name="token"' in wrong.body
    nowhere = raw(hub, "GET", f"/?token={hub.token}", {**BROWSER, "Host": "evil.example"})
    assert nowhere.status == 403 and "location" not in nowhere.headers


def test_a_cookie_that_another_port_was_sent_is_worth_nothing(hub: RunningHub) -> None:
    cookie, key = log_in(hub)
    assert sessions(hub, cookie).status == 401
    assert sessions(hub, {**cookie, "X-Holdfast-Key": key[:-1]}).status == 401
    for forged in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": f"http://holdfast.localhost:{port(hub)}"}):
        assert raw(hub, "POST", "/api/redispatch", {**page_host(hub), **cookie, **forged}).status == 401


def test_a_browser_that_does_not_know_localhost_names_stays_where_it_is(hub: RunningHub) -> None:
    safari = {"Accept": "text/html", "User-Agent": "Mozilla/5.0 Version/26.0 Safari/605.1.15"}
    let_in = raw(hub, "GET", f"/?token={hub.token}", safari)
    assert let_in.status == 303 and let_in.headers["location"].startswith("/#key=")
    assert hub.token not in let_in.headers["set-cookie"]


def test_a_cookie_of_an_earlier_version_that_holds_the_token_is_taken_away(hub: RunningHub) -> None:
    old = {"Cookie": f"holdfast_{port(hub)}={hub.token}"}
    assert raw(hub, "GET", "/api/sessions", old).status == 401
    assert "Max-Age=0" in raw(hub, "GET", "/", {**BROWSER, **old}).headers["set-cookie"]


def test_logins_are_listed_and_revoked_over_http(hub: RunningHub) -> None:
    first, second = log_in(hub), log_in(hub)
    listed = get(hub, "/api/logins")["logins"]
    assert len(listed) == 2 and {one["client"] for one in listed} == {BROWSER["User-Agent"]}
    for secret in (first[0]["Cookie"].partition(".")[2], first[1]):
        assert secret not in json.dumps(listed)
    mine = first[0]["Cookie"].partition("=")[2].partition(".")[0]
    assert ask(hub, "DELETE", f"/api/logins/{mine}").json == {"revoked": 1}
    assert ask(hub, "DELETE", f"/api/logins/{mine}").status == 404
    assert ask(hub, "DELETE", "/api/logins/..%2Fhub.token").status == 404
    assert sessions(hub, {**first[0], "X-Holdfast-Key": first[1]}).status == 401
    assert sessions(hub, {**second[0], "X-Holdfast-Key": second[1]}).status == 200
    assert ask(hub, "DELETE", "/api/logins").json == {"revoked": 1}
    assert sessions(hub, {**second[0], "X-Holdfast-Key": second[1]}).status == 401
    assert get(hub, "/api/sessions") is not None  # the token still lets in


def test_logins_are_listed_and_revoked_at_a_terminal_and_survive_a_restart(hub: RunningHub) -> None:
    cookie, key = log_in(hub)
    was = port(hub)
    hub.kill()
    terminal = hub.terminal
    (listed,) = terminal.asked("logins")
    assert set(listed) == {"id", "created_at", "used_at", "expires_at", "client", "host"}
    assert "holdfast.localhost" in terminal.give("logins").stdout
    hub.start()
    again = {"Cookie": cookie["Cookie"].replace(f"holdfast_{was}", f"holdfast_{port(hub)}")}
    assert sessions(hub, {**again, "X-Holdfast-Key": key}).status == 200
    assert terminal.asked("logins", "revoke", listed["id"]) == {"revoked": 1}
    assert sessions(hub, {**again, "X-Holdfast-Key": key}).status == 401
    log_in(hub)
    assert terminal.asked("logins", "revoke", "--all") == {"revoked": 1}
    assert terminal.give("logins").stdout == "no logins\n"
    assert "no login" in terminal.give("logins", "revoke", "0123456789ab", status=3).stderr
    terminal.give("logins", "revoke", status=2)


def test_a_stream_ends_with_its_login(hub: RunningHub) -> None:
    import http.client

    cookie, key = log_in(hub)
    connection = http.client.HTTPConnection("127.0.0.1", int(port(hub)), timeout=60)
    connection.request("GET", "/api/stream", headers={**page_host(hub), **cookie, "X-Holdfast-Key": key})
    answer = connection.getresponse()
    assert answer.status == 200
    ask(hub, "DELETE", "/api/logins")
    hub.terminal.give("run", "-a", "demo", "say something")  # so that there is something to tell
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        while answer.read1(65536):
            pass
        raise http.client.HTTPException("it ended")
    connection.close()


# --- the records


def test_a_secret_is_stored_as_a_hash_in_a_file_for_its_user_alone(home: Home) -> None:
    logins = Logins(home, "token")
    made = logins.create("x", "h", keyed=True)
    folder = os.path.join(home.path, "logins")
    (name,) = os.listdir(folder)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600
    with open(os.path.join(folder, name)) as file:
        text = file.read()
    assert made.key is not None and made.key not in text and made.cookie.partition(".")[2] not in text


def test_a_login_expires(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins(home, "token")
    made = logins.create("x", "h", keyed=False)
    assert logins.login_of(made.cookie, None) is not None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + module.LIFETIME_S + 1)
    assert logins.login_of(made.cookie, None) is None and logins.all() == []
    logins.create("y", "h", keyed=False)
    assert len(os.listdir(os.path.join(home.path, "logins"))) == 1  # what has expired is swept


def test_another_token_ends_all_logins(home: Home) -> None:
    made = Logins(home, "old").create("x", "h", keyed=False)
    assert Logins(home, "old").login_of(made.cookie, None) is not None
    assert Logins(home, "new").login_of(made.cookie, None) is None


@pytest.mark.parametrize(
    "cookie", ["", ".", "a.b", "../../hub.token.x", "0" * 12 + ".", "\udcff.x", "é" * 12]
)
def test_what_is_no_cookie_of_ours_lets_nobody_in(home: Home, cookie: str) -> None:
    logins = Logins(home, "token")
    made = logins.create("x", "h", keyed=False)
    assert logins.login_of(cookie, None) is None
    assert logins.login_of(made.cookie + "x", None) is None
    with pytest.raises(errors.NotFound):
        logins.revoke(cookie.partition(".")[0])


def test_a_record_that_cannot_be_read_is_no_login(home: Home) -> None:
    logins = Logins(home, "token")
    made = logins.create("x", "h", keyed=False)
    id = made.cookie.partition(".")[0]
    with open(os.path.join(home.path, "logins", f"{id}.json"), "w") as file:
        file.write('{"expires_at": 7}')
    assert logins.login_of(made.cookie, None) is None and logins.all() == []


def test_a_code_is_good_for_once_and_not_for_long(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins(home, "token")
    code = logins.new_code()
    assert logins.use_code(code) and not logins.use_code(code) and not logins.use_code("")
    late = logins.new_code()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + module.CODE_S + 1)
    assert not logins.use_code(late)


def test_the_last_use_is_noted(home: Home) -> None:
    logins = Logins(home, "token")
    made = logins.create("x", "h", keyed=False)
    path = os.path.join(home.path, "logins", f"{made.cookie.partition('.')[0]}.json")
    os.utime(path, (0, 0))
    logins.login_of(made.cookie, None)
    (found,) = logins.all()
    assert timestamps.parse(found.used_at) > 1e9
