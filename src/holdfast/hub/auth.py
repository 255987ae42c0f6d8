"""Who is let in: by the name the hub is called, by where a request comes from, by the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from holdfast import durable_io, errors
from holdfast.client.discovery import token_path
from holdfast.home import Home
from holdfast.hub.api import page, responses
from holdfast.hub.state import SLASH


def load(home: Home) -> str:
    """The token, made where there is none yet."""
    path = token_path(home)
    with suppress(FileExistsError):
        durable_io.create(path, [secrets.token_urlsafe(32).encode() + b"\n"])
    with open(path, encoding="ascii", errors="replace") as file:
        token = file.read().strip()
    if len(token) < 20:
        raise errors.BadInput(f"{path} holds no token", hint="delete it; `holdfast up` makes a new one")
    return token


def is_same(given: str, token: str) -> bool:
    """Whether it is the token; takes as long whichever letter is wrong."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


# --- Who is let in: by the name the hub is called, by where a request comes from, by the token.

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN = ("/healthz", "/schema", "/hooks/", "/page/")  # need no token; a hook brings a signature
HERE = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site: our own page, or a person's own doing

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?\Z")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Asked(NamedTuple):
    """A request, as far as it matters here."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    token: str | None  # of the query


class Access:
    """The rules of one hub."""

    def __init__(self, token: str, host: str, port: int, hosts: tuple[str, ...] = ()):
        self._token = token
        self._names = frozenset(name.lower() for name in hosts)
        self._host = host.strip("[]").lower()
        self.on_loopback = is_loopback(self._host)
        self.cookie = f"holdfast_{port}"

    def check(self, asked: Asked) -> None:
        """NotLetIn says what is wrong with a request."""
        host = asked.headers.get("host", "")
        if not self.is_known(host):
            raise errors.BadHost(f"this hub is not known as {host!r}")
        if asked.method not in SAFE or asked.path.startswith("/api/"):
            self._check_origin(asked, host)
        if not self._is_open(asked.path) and not self.has_token(asked):
            raise errors.Unauthorized()

    def is_known(self, host: str) -> bool:
        """Whether a Host header names us: a name that anybody could point at us is not ours."""
        name = _name(host)
        if name is None:
            return False
        if host.lower() in self._names or name in self._names or name == self._host:
            return True
        if self.on_loopback:
            return is_loopback(name)
        if _is_wildcard(self._host):  # no foreign page has an address, or our own name, as its name
            return _is_address(name) or name in ("localhost", socket.gethostname().lower())
        return False

    def has_token(self, asked: Asked) -> bool:
        """Whether the request brings the token: as bearer, as cookie, or in its address."""
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        given = [bearer.strip() if scheme.lower() == "bearer" else None, *self._baked(asked), asked.token]
        return any([is_same(each, self._token) for each in given if each])

    def baked(self) -> str:
        """The cookie that holds the token."""
        return f"{self.cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"

    def _baked(self, asked: Asked) -> list[str]:
        """The values of our cookie; whatever others of this machine have set beside it."""
        pairs = [pair.strip().partition("=") for pair in asked.headers.get("cookie", "").split(";")]
        return [value for name, _, value in pairs if name == self.cookie]

    def _is_open(self, path: str) -> bool:
        if path == "/metrics":
            return self.on_loopback
        return any(path == place or path.startswith(place.rstrip("/") + "/") for place in OPEN)

    def _check_origin(self, asked: Asked, host: str) -> None:
        site = asked.headers.get("sec-fetch-site")
        if site is not None and site not in HERE:
            raise errors.BadOrigin(f"the request came from a page that is {site}")
        origin = asked.headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            raise errors.BadOrigin(f"the request came from {origin!r}")


def _place(origin: str) -> str | None:
    """The host and port in an Origin header; None if there is none in it."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is none."""
    found = _HOST.match(host.lower())
    return None if found is None else (found["address"] or found["name"])


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    return _address(name) is not None


def is_loopback(name: str) -> bool:
    """Whether only this machine can reach an address."""
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


def _is_wildcard(name: str) -> bool:
    address = _address(name)
    return name == "" or (address is not None and address.is_unspecified)


# --- The gate before every handler: refuses who is not let in, and sends every answer with strict headers.

_STRICT = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

ASKING = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Holdfast</title></head>
<body><h1>Holdfast</h1>
<p>This hub asks for its token. It is in the address that <code>holdfast up</code> printed.</p>
<form action="/" method="get">
<label>Token <input name="token" type="password" autocomplete="off" autofocus></label>
<button>Open</button></form></body></html>
"""


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, access: Access, requests: Counter[int]):
        """`requests` counts the answers by status."""
        self._app = app
        self._requests = requests
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        asked, send = _asked(scope), self._strictly(send)
        try:
            self._access.check(asked)
        except errors.NotLetIn as refused:
            await self._refuse(asked, refused, send)
            return
        if b"%2f" in scope["raw_path"].lower():
            scope["path"] = _whole(scope["raw_path"])
        if asked.path == "/" and asked.method == "GET" and asked.token is not None:
            await self._let_in(asked, send)
            return
        await self._app(scope, receive, send)

    def _strictly(self, send: Send) -> Send:
        async def strict(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests[message["status"]] += 1
                headers = [*message.get("headers", []), *_STRICT]
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        return strict

    async def _refuse(self, asked: Asked, refused: errors.NotLetIn, send: Send) -> None:
        is_person = asked.path == "/" and "text/html" in asked.headers.get("accept", "")
        if isinstance(refused, errors.Unauthorized) and is_person:
            await _answer(send, 401, b"text/html; charset=utf-8", page.login() or ASKING)
            return
        found = responses.document(refused)
        await _answer(send, found["status"], responses.MEDIA_TYPE.encode(), responses.encoded(found))

    async def _let_in(self, asked: Asked, send: Send) -> None:
        """The token moves from the address, which is kept in histories, into a cookie."""
        if not self._access.has_token(asked._replace(headers={})):  # the address's, not a cookie's
            await self._refuse(asked, errors.Unauthorized("that is not this hub's token"), send)
            return
        more = [(b"location", b"/"), (b"set-cookie", self._access.baked().encode())]
        await _answer(send, 303, b"text/plain", b"", more)


def _whole(path: bytes) -> str:
    """A path whose names may have a slash in them: a session's key has."""
    names = path.decode("latin-1").split("/")
    return "/".join([unquote(name).replace("/", SLASH) for name in names])


def _asked(scope: HTTPScope) -> Asked:
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        # Two of one name: none of them can be trusted to be the one that others look at.
        headers[name] = value.decode("latin-1") if name not in headers else f"{headers[name]}, {value!r}"
    query = scope["query_string"]
    tokens = parse_qs(query.decode("latin-1")).get("token", []) if b"token=" in query else []
    return Asked(scope["method"], scope["path"], headers, tokens[0] if len(tokens) == 1 else None)


async def _answer(
    send: Send, status: int, kind: bytes, body: bytes, more: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
