"""docs/operations.md, done as it is written: proxies, the service, backup and restore, PostgreSQL."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from holdfast.home import Home
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, running, started
from tests.hub.test_sessions import begin, done
from tests.support import system_packages
from tests.support.postgres_server import Server
from tests.support.terminal import Terminal

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
NAME = "hub.example"
HOSTS = f"""[hub]
hosts = ["{NAME}"]
[forges.github]
secret = "s3"
users.dev-bot = {{agent = "demo"}}
"""

GLOBAL = """{
  admin off
  skip_install_trust
  local_certs
  auto_https disable_redirects
  storage file_system PLACE/caddy
  https_port PORT
}
"""
AROUND = """daemon off; master_process off; pid PLACE/pid; error_log PLACE/error.log;
events {}
http {
  access_log off;
  client_body_temp_path PLACE/body; proxy_temp_path PLACE/proxy; fastcgi_temp_path PLACE/fastcgi;
  uwsgi_temp_path PLACE/uwsgi; scgi_temp_path PLACE/scgi;
  SERVER
}
"""


@pytest.fixture(autouse=True)
def unpacked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find also the programs that `make test` unpacked."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{system_packages.FOLDER / 'bin'}")


def written(heading: str, language: str = "", number: int = 0) -> str:
    """A block of code below a heading of the document."""
    part = DOCS.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.finditer(r"^```(\w*)\n(.*?)^```", part, re.S | re.M)
    return [one[2] for one in found if one[1] == language][number]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
        return port


# --- behind a reverse proxy


class Proxy:
    """A proxy as a browser elsewhere sees it, by the name of the hub."""

    def __init__(self, port: int):
        self.port = port
        self.host = f"{NAME}:{port}"

    def connect(self) -> http.client.HTTPConnection:
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        line = http.client.HTTPConnection(NAME, self.port, timeout=60)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        try:
            line.sock = trusting.wrap_socket(plain, server_hostname=NAME)
        except OSError:
            plain.close()
            raise
        return line

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        line = self.connect()
        try:
            line.request(method, path, body, {"Host": self.host, **(headers or {})})
            answer = line.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            line.close()

    def is_there(self) -> bool:
        try:
            return self.ask("GET", "/healthz")[0] in (200, 404)
        except OSError:
            return False


@contextmanager
def nginx(hub: RunningHub, place: Path, location: str = "/") -> Iterator[Proxy]:
    port = free_port()
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    made += ["-keyout", f"{place}/{NAME}.key", "-out", f"{place}/{NAME}.pem"]
    subprocess.run(made, check=True, capture_output=True)
    server = written("Behind a reverse proxy", "nginx").replace(
        "listen 443 ssl", f"listen 127.0.0.1:{port} ssl"
    )
    server = server.replace("/etc/ssl/", f"{place}/").replace("location / {", f"location {location} {{")
    server = server.replace("127.0.0.1:8420", urlsplit(hub.url).netloc)
    (place / "nginx.conf").write_text(AROUND.replace("SERVER", server).replace("PLACE", str(place)))
    with _started(["nginx", "-p", str(place), "-c", f"{place}/nginx.conf"], place, port) as found:
        yield found


@contextmanager
def caddy(hub: RunningHub, place: Path, location: str = "") -> Iterator[Proxy]:
    port = free_port()
    site = written("Behind a reverse proxy", "", 0).replace("127.0.0.1:8420", urlsplit(hub.url).netloc)
    site = site.replace(f"{NAME} {{", f"{NAME} {{\n  bind 127.0.0.1")
    site = site.replace("reverse_proxy ", f"reverse_proxy {location} " if location else "reverse_proxy ")
    before = GLOBAL.replace("PLACE", str(place)).replace("PORT", str(port))
    (place / "Caddyfile").write_text(before + site)
    words = ["caddy", "run", "--adapter", "caddyfile", "--config", f"{place}/Caddyfile"]
    with _started(words, place, port) as found:
        yield found


@contextmanager
def _started(words: list[str], place: Path, port: int) -> Iterator[Proxy]:
    with open(place / "proxy.log", "wb") as log:
        env = {**os.environ, "HOME": str(place), "XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place)}
        running = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
    proxy, deadline = Proxy(port), time.monotonic() + 60
    try:
        while not proxy.is_there():
            assert running.poll() is None and time.monotonic() < deadline, (place / "proxy.log").read_text()
            time.sleep(0.05)
        yield proxy
    finally:
        running.kill()
        running.wait()


@pytest.fixture(params=[nginx, caddy])
def proxy(request: pytest.FixtureRequest) -> Any:
    """A way to start a proxy."""
    return request.param


@pytest.fixture
def hub(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    with running(home, str(tmp_path / "work"), HOSTS) as found:
        yield found


def test_the_page_the_api_and_its_guards_behind_a_proxy(hub: RunningHub, proxy: Any, tmp_path: Path) -> None:
    bearer = {"Authorization": f"Bearer {hub.token}"}
    with proxy(hub, tmp_path) as outside:
        assert outside.ask("GET", "/healthz")[0] == 200
        assert outside.ask("GET", "/api/sessions")[0] == 401
        assert outside.ask("GET", "/api/sessions", bearer)[0] == 200
        status, headers, _ = outside.ask("GET", f"/?token={hub.token}")
        assert (status, headers["location"]) == (303, "/")
        cookie = headers["set-cookie"]
        kept = {part.lower() for part in cookie.split("; ")}
        assert {"httponly", "samesite=strict", "secure"} <= kept
        inside = {"Cookie": cookie.split(";")[0]}
        assert outside.ask("GET", "/", inside)[0] == 200
        assert "default-src 'none'" in outside.ask("GET", "/", inside)[1]["content-security-policy"]
        own = {"Origin": f"https://{outside.host}", "Sec-Fetch-Site": "same-origin", **inside}
        assert outside.ask("POST", "/api/redispatch", own)[0] == 200
        for foreign in ("https://evil.example", f"https://{NAME}", "null"):
            told = outside.ask("POST", "/api/redispatch", {**own, "Origin": foreign})
            assert told[0] == 403 and json.loads(told[2])["code"] == "bad_origin"
        status, _, body = outside.ask("GET", "/api/sessions", {"Host": "evil.example", **bearer})
        assert status in (403, 404, 421) or body == b""
        big = b"x" * (3 * 1024 * 1024)
        assert outside.ask("POST", "/hooks/github", {}, big)[0] == 401, "it is read, and not signed"
        assert outside.ask("POST", "/hooks/github", {}, big + big)[0] == 413


def test_streams_come_through_a_proxy_as_they_are_sent(hub: RunningHub, proxy: Any, tmp_path: Path) -> None:
    with proxy(hub, tmp_path) as outside:
        line = outside.connect()
        line.request(
            "GET", "/api/stream", None, {"Host": outside.host, "Authorization": f"Bearer {hub.token}"}
        )
        answer = line.getresponse()
        assert answer.status == 200 and answer.readline() == b": hello\n"
        made = begin(hub, {"say": "one", "chunk": 1}, {"tool": "waits", "run": "sleep 600"})
        while b'"one"' not in answer.readline():  # the agent still runs: nothing was gathered
            pass
        assert get(hub, f"/api/tasks/{made['task']}")["status"] == "running"
        hub.kill(15)
        rest = answer.read()
        assert b"event: closing" in rest
        line.close()


def test_only_webhooks_may_be_let_through(hub: RunningHub, proxy: Any, tmp_path: Path) -> None:
    only = "/hooks/" if proxy is nginx else "/hooks/*"
    bearer = {"Authorization": f"Bearer {hub.token}"}
    with proxy(hub, tmp_path, only) as outside:
        assert json.loads(outside.ask("POST", "/hooks/github", {}, b"{}")[2])["code"] == "unauthorized"
        for path in ("/api/sessions", "/", "/healthz", "/hooks/../api/sessions", "/hooks/..%2fapi/sessions"):
            status, _, body = outside.ask("GET", path, bearer)
            assert status in (400, 403, 404, 405) or body == b"", (path, body)


# --- as a service


def test_the_unit_is_one(tmp_path: Path) -> None:
    unit = tmp_path / "holdfast.service"
    text = written("As a service", "ini")
    assert "\nKillMode=process\n" in text
    program = tmp_path / "holdfast"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit.write_text(text.replace("%h/.local/bin/holdfast", str(program)))
    env = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    said = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], env=env, capture_output=True, text=True
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


# --- backup


def commands(heading: str, number: int, **places: str) -> str:
    """What is written there, with the places of this test."""
    text = written(heading, "", number)
    for old, new in {"~/.local/share/holdfast": places["home"], "/backup": places["backup"]}.items():
        text = text.replace(old, new)
    return "\n".join(line for line in text.splitlines() if not line.startswith("holdfast up"))


def told(hub: RunningHub) -> dict[str, Any]:
    """Every session with its events and tokens."""
    listed = get(hub, "/api/sessions?state=all&limit=100")["sessions"]
    return {
        one["id"]: (
            get(hub, f"/api/sessions/{one['id']}")["tokens"],
            get(hub, f"/api/sessions/{one['id']}/events")["events"],
        )
        for one in listed
    }


def test_a_backup_that_was_made_while_a_hub_ran_is_restored(hub: RunningHub, tmp_path: Path) -> None:
    done(hub, key="first")
    done(hub, {"error": "no"})
    before = told(hub)
    busy = begin(hub, *[{"say": f"word {number}", "delay": 0.01} for number in range(5000)])
    hub.terminal.until(lambda: len(get(hub, f"/api/sessions/{busy['session']}/events")["events"]) > 20)
    places = {"home": hub.terminal.home.path, "backup": str(tmp_path / "backup")}
    (tmp_path / "backup").mkdir()
    subprocess.run(["bash", "-ec", commands("Backup", 0, **places)], check=True)
    later = done(hub)
    hub.kill()
    hub.terminal.end_all()
    subprocess.run(["bash", "-ec", commands("Backup", 1, **places)], check=True)
    hub.start()
    after = told(hub)
    assert {session: after[session] for session in before} == before
    assert len(after[busy["session"]][1]) > 20
    seqs = [event["seq"] for event in after[busy["session"]][1]]
    assert seqs == list(range(1, len(seqs) + 1))
    assert set(after) - {later} == {*before, busy["session"]}, "its mirror is there, or the whole session"
    hub.terminal.until(lambda: get(hub, "/api/doctor")["findings"] == [])
    assert done(hub, key="first") in after, "the thread goes on"


@pytest.mark.parametrize("lost", ["database", "mirrors"])
def test_either_half_of_a_backup_is_enough(hub: RunningHub, tmp_path: Path, lost: str) -> None:
    done(hub, key="first")
    before = told(hub)
    hub.terminal.until(lambda: get(hub, "/api/doctor")["findings"] == [])
    places = {"home": hub.terminal.home.path, "backup": str(tmp_path / "backup")}
    (tmp_path / "backup").mkdir()
    subprocess.run(["bash", "-ec", commands("Backup", 0, **places)], check=True)
    hub.kill()
    home = hub.terminal.home
    shutil.rmtree(home.path)
    home.make()
    if lost == "database":
        shutil.copytree(tmp_path / "backup" / "home" / "sessions", home.sessions, dirs_exist_ok=True)
    else:
        shutil.copy(tmp_path / "backup" / "state.db", home.database)
    hub.start()
    assert told(hub) == before


# --- PostgreSQL


def test_a_store_on_a_server_as_written(private_server: Server, home: Home, tmp_path: Path) -> None:
    """With a user of its own who owns the database; dumped, and restored into another."""
    note = (private_server.pgdata / "postmaster.pid").read_text().splitlines()
    programs = Path(os.readlink(f"/proc/{note[0]}/exe")).parent
    env = {**os.environ, "PGHOST": private_server.socket_folder, "PGUSER": "keeper"}

    def do(*words: str) -> None:
        subprocess.run([str(programs / words[0]), *words[1:]], check=True, env=env, capture_output=True)

    with private_server.admin() as admin:
        admin.execute("create role keeper login createdb")
    do("createdb", "kept")
    do("createdb", "again")
    place = f"host={quote(private_server.socket_folder, safe='')}"
    terminal = Terminal(home, str(tmp_path))
    terminal.env["HOLDFAST_STORE"] = f"postgresql://keeper@/kept?{place}"
    with started(terminal) as hub:
        assert get(hub, "/healthz")["store"] == "postgres"
        done(hub, key="first")
        before = told(hub)
        do("pg_dump", "-Fc", "-f", str(tmp_path / "dump"), "kept")
    do("pg_restore", "-d", "again", str(tmp_path / "dump"))
    terminal.env["HOLDFAST_STORE"] = f"postgresql://keeper@/again?{place}"
    with started(terminal) as hub:
        assert told(hub) == before
        assert done(hub, key="first") in before
