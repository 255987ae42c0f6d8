"""The gate before every handler: refuses who is not let in, and sends every answer with strict headers."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qs, unquote

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from holdfast import errors
from holdfast.hub import pages, problem
from holdfast.hub.access import HEADERS, Access, Asked
from holdfast.hub.hub import SLASH

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
            await _answer(send, 401, b"text/html; charset=utf-8", pages.login() or ASKING)
            return
        found = problem.document(refused)
        await _answer(send, found["status"], problem.MEDIA_TYPE.encode(), problem.encoded(found))

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
