"""Who is let in: by the name the hub is called, by where a request comes from, by the token."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast import errors
from holdfast.hub import secret

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
        return any([secret.is_same(each, self._token) for each in given if each])

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
