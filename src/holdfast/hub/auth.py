"""Which requests are accepted: by the host name they use, their origin, and the token or login they bring."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from holdfast import durable_io, errors
from holdfast.client.discovery import token_path
from holdfast.home import Home
from holdfast.hub.api import page, responses
from holdfast.hub.http_protocol import CUT, TRUST
from holdfast.hub.logins import LIFETIME_S, Logins
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
PAGE_HOST = "holdfast.localhost"  # the page's own host: no other program on this machine uses its cookies
KEY_HEADER, KEY_QUERY = "x-holdfast-key", "key"  # how the page sends the key of its login
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")  # a proxy's headers
HERE = frozenset({"same-origin", "none"})  # of Sec-Fetch-Site: our own page, or a person's own doing

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?\Z")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class RequestFacts(NamedTuple):
    """A request, as far as it matters here."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    token: str | None  # of the query
    key: str | None = None  # of the query
    code: str | None = None  # of the query
    wants_login: bool = False

    @property
    def is_person(self) -> bool:
        """Whether a browser asks for the page."""
        return self.path == "/" and self.method == "GET" and "text/html" in self.headers.get("accept", "")


class AccessRules:
    """The rules of one hub."""

    def __init__(
        self,
        token: str,
        host: str,
        port: int,
        hosts: tuple[str, ...] = (),
        logins: Logins | None = None,
    ):
        self._token = token
        self._names = frozenset(name.lower() for name in hosts)
        self._host = host.strip("[]").lower()
        self.logins = logins
        self.on_loopback = is_loopback(self._host)
        self.cookie = f"holdfast_{port}"

    def check(self, asked: RequestFacts) -> None:
        """AccessDenied says what is wrong with a request."""
        host = asked.headers.get("host", "")
        if not self.is_known(host):
            raise errors.BadHost(f"this hub is not known as {host!r}")
        # A link on another page may lead to the page and what it shows is only its own; all else is for us.
        if asked.method not in SAFE or not (asked.path == "/" or self._is_open(asked)):
            self._check_origin(asked, host)
        if not self._is_open(asked) and not self.is_let_in(asked):
            raise errors.Unauthorized()

    def is_known(self, host: str) -> bool:
        """Whether a Host header names us: a name that anybody could point at us is not ours."""
        name = _name(host)
        if name is None:
            return False
        if host.lower() in self._names or name in self._names or name == self._host:
            return True
        if self.on_loopback:
            return is_loopback(name) or name == PAGE_HOST
        if _is_wildcard(self._host):  # no foreign page has an address, or our own name, as its name
            return _is_address(name) or name in ("localhost", PAGE_HOST, socket.gethostname().lower())
        return False

    def is_let_in(self, asked: RequestFacts) -> bool:
        """Whether the request brings the token, or a login; for the page itself the cookie is enough."""
        return self.has_token(asked) or self.login_of(asked) is not None or self._shows_page(asked)

    def has_token(self, asked: RequestFacts) -> bool:
        """Whether the request brings the token: as bearer, or in its address."""
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        given = [bearer.strip() if scheme.lower() == "bearer" else None, asked.token]
        return any([is_same(each, self._token) for each in given if each])

    def login_of(self, asked: RequestFacts) -> str | None:
        """The id of the login that the request brings."""
        if self.logins is None:
            return None
        key = asked.headers.get(KEY_HEADER) or asked.key
        found = [self.logins.login_of(value, key) for value in self._cookies(asked)]
        return next((id for id in found if id is not None), None)

    def page_url(self, asked: RequestFacts) -> str | None:
        """The page's own address for a browser that came by an address which all local programs share."""
        name, _, port = asked.headers.get("host", "").rpartition(":")
        if not asked.is_person or not is_loopback(_name(asked.headers.get("host", "")) or ""):
            return None
        if not name or not port.isdigit() or not _finds_localhost(asked.headers.get("user-agent", "")):
            return None
        return f"http://{PAGE_HOST}:{port}/"

    def set_cookie(self, value: str) -> str:
        """The header that gives a browser the cookie of a login."""
        return f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={int(LIFETIME_S)}"

    def _shows_page(self, asked: RequestFacts) -> bool:
        if asked.path != "/" or asked.method not in SAFE or self.logins is None:
            return False
        return any([self.logins.is_cookie(value) for value in self._cookies(asked)])

    def _cookies(self, asked: RequestFacts) -> list[str]:
        """The values of our cookie; whatever others of this machine have set beside it."""
        pairs = [pair.strip().partition("=") for pair in asked.headers.get("cookie", "").split(";")]
        return [value for name, _, value in pairs if name == self.cookie]

    def _is_open(self, asked: RequestFacts) -> bool:
        if asked.path == "/metrics":
            direct = not any(name in asked.headers for name in FORWARDED)
            name = _name(asked.headers.get("host", ""))
            return self.on_loopback and direct and name is not None and is_loopback(name)
        return any(asked.path == place or asked.path.startswith(place.rstrip("/") + "/") for place in OPEN)

    def _check_origin(self, asked: RequestFacts, host: str) -> None:
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


def _finds_localhost(agent: str) -> bool:
    """Whether a browser knows where `.localhost` is; Safari asks the system, which may not know."""
    is_safari = "Safari/" in agent and "Chrome/" not in agent and "Chromium/" not in agent
    return agent.startswith("Mozilla/") and not is_safari


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


class AuthMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, access: AccessRules, requests: Counter[int]):
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
        if await self._led_on(asked, send):
            return
        try:
            if b"//" in scope["raw_path"]:  # a router may drop a slash, and rules by path would not hold
                raise errors.NotFound("no address here has an empty part")
            self._access.check(asked)
            if asked.is_person and asked.wants_login and asked.token is None:
                raise errors.Unauthorized("log in again")
        except (errors.AccessDenied, errors.NotFound) as refused:
            await self._refuse(asked, refused, send)
            return
        self._note_trust(asked, scope)
        if b"%2f" in scope["raw_path"].lower():
            scope["path"] = _whole(scope["raw_path"])
        if asked.path == "/" and asked.method == "GET" and asked.token is not None:
            await self._let_in(asked, send)
            return
        if (login := self._access.login_of(asked)) is not None:
            send = self._while_valid(login, scope, send)
        await self._app(scope, receive, send)

    def _note_trust(self, asked: RequestFacts, scope: HTTPScope) -> None:
        """A connection that presented a token, or a login, is not among the first to be closed."""
        extensions: dict[str, Any] = scope.get("extensions") or {}
        if TRUST in extensions and (self._access.has_token(asked) or self._access.login_of(asked)):
            extensions[TRUST]["trust"]()

    def _while_valid(self, login: str, scope: HTTPScope, send: Send) -> Send:
        """A stream that began with a login ends with it."""
        logins = self._access.logins
        assert logins is not None
        extensions: dict[str, Any] = scope.get("extensions") or {}
        cut = extensions.get(CUT, {}).get("cut")

        async def guarded(message: Message) -> None:
            is_part = message["type"] == "http.response.body" and message.get("more_body")
            if is_part and cut is not None and not logins.is_valid(login):
                cut()
                return
            await send(message)

        return guarded

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

    async def _led_on(self, asked: RequestFacts, send: Send) -> bool:
        """Lead a browser to the page's own host, and log it in there; whether that was all."""
        access, logins = self._access, self._access.logins
        if logins is None or not access.is_known(asked.headers.get("host", "")) or not asked.is_person:
            return False
        if asked.code is not None:
            if logins.use_code(asked.code):
                await self._log_in(asked, send)
            else:  # of a login that was made, or that took too long; a cookie may still be there
                await _answer(send, 303, b"text/plain", b"", [(b"location", b"/")])
            return True
        url = access.page_url(asked)
        if url is None or (asked.token is not None and not access.has_token(asked._replace(headers={}))):
            return False
        if asked.token is not None:
            url = f"{url}?code={logins.new_code()}"
        more = [(b"location", url.encode())]
        if access.cookie in asked.headers.get("cookie", ""):  # of an earlier version: it holds the token
            more.append((b"set-cookie", f"{access.cookie}=; Path=/; Max-Age=0".encode()))
        await _answer(send, 303, b"text/plain", b"", more)
        return True

    async def _refuse(self, asked: RequestFacts, refused: errors.HoldfastError, send: Send) -> None:
        if isinstance(refused, errors.Unauthorized) and asked.is_person:
            await _answer(send, 401, b"text/html; charset=utf-8", page.login() or ASKING)
            return
        found = responses.document(refused)
        await _answer(send, found["status"], responses.MEDIA_TYPE.encode(), responses.encoded(found))

    async def _let_in(self, asked: RequestFacts, send: Send) -> None:
        """The token in an address, which is kept in histories, becomes a login."""
        if not self._access.has_token(asked._replace(headers={})):  # the address's own token
            await self._refuse(asked, errors.Unauthorized("that is not this hub's token"), send)
            return
        await self._log_in(asked, send)

    async def _log_in(self, asked: RequestFacts, send: Send) -> None:
        """A new login: its secret in a cookie; for a browser also a key, behind the # that no server gets."""
        logins = self._access.logins
        assert logins is not None
        client, host = asked.headers.get("user-agent", ""), asked.headers.get("host", "")
        try:
            made = logins.create(client, host, keyed=asked.is_person)
        except errors.HoldfastError as problem:  # the disk may be full
            await self._refuse(asked, problem, send)
            return
        location = "/" if made.key is None else f"/#key={made.key}"
        more = [
            (b"location", location.encode()),
            (b"set-cookie", self._access.set_cookie(made.cookie).encode()),
        ]
        await _answer(send, 303, b"text/plain", b"", more)


def _whole(path: bytes) -> str:
    """A path whose names may have a slash in them: a session's key has."""
    names = path.decode("latin-1").split("/")
    return "/".join([unquote(name).replace("/", SLASH) for name in names])


def _asked(scope: HTTPScope) -> RequestFacts:
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        # Two of one name: none of them can be trusted to be the one that others look at.
        headers[name] = value.decode("latin-1") if name not in headers else f"{headers[name]}, {value!r}"
    query = scope["query_string"]
    given = parse_qs(query.decode("latin-1")) if b"=" in query else {}
    token, key, code = [_only(given.get(name, [])) for name in ("token", KEY_QUERY, "code")]
    return RequestFacts(scope["method"], scope["path"], headers, token, key, code, "login" in given)


def _only(values: list[str]) -> str | None:
    return values[0] if len(values) == 1 else None


async def _answer(
    send: Send, status: int, kind: bytes, body: bytes, more: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
