"""One request to a hub and its answer, over the standard library's HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from holdfast import errors
from holdfast.client.discovery import HubAddress

TIMEOUT_S = 60.0

Query = Mapping[str, Any]


class HubConnection:
    """The connection to one hub."""

    def __init__(self, door: HubAddress, by: str = ""):
        self.door = door
        self._by = by

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Query | None = None
    ) -> Any:
        """The answer of the hub; raises the error that it reports."""
        sent = None if body is None else json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        with self._opened(method, path, query, {"Content-Type": "application/json"}, sent) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    @contextmanager
    def listening(
        self, path: str, query: Query, last: str | None, timeout_s: float
    ) -> Iterator[HTTPResponse]:
        """A stream, from after the event of that id."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last is not None else {})}
        with self._opened("GET", path, query, headers, None, timeout_s) as answer:
            yield answer

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        query: Query | None,
        headers: dict[str, str],
        body: bytes | None,
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[HTTPResponse]:
        line = _connected(self.door.url, timeout_s)
        sent_headers = {
            **headers,
            "Authorization": f"Bearer {self.door.token}",
            **({"X-Holdfast-By": quote(self._by[:60])} if self._by else {}),
        }
        try:
            line.request(method, _address(path, query), body=body, headers=sent_headers)
            answer = line.getresponse()
            if answer.status >= 400:
                raise error_from_response(answer.status, answer.read())
            yield answer
        except (OSError, HTTPException) as problem:
            raise errors.HubGone(f"the hub at {self.door.url} does not answer: {problem!r}") from None
        finally:
            line.close()


def error_from_response(status: int, body: bytes) -> errors.HoldfastError:
    """The error that a problem document describes."""
    try:
        told = json.loads(body)
        code, message, hint = told["code"], told["detail"], told.get("hint", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return errors.HoldfastError(
            f"the hub answered with HTTP status {status}", hint="check that it is a Holdfast hub"
        )
    facts = {k: v for k, v in told.items() if k not in ("type", "title", "status", "detail", "code", "hint")}
    for known in _kinds(errors.HoldfastError):
        if known.code == code:
            problem = known(message, hint=hint)
            problem.facts = facts
            return problem
    return errors.HoldfastError.from_json({"code": code, "message": message, "hint": hint, **facts}, 1)


def path_segment(name: str) -> str:
    """A name as one segment of a URL path."""
    return quote(name, safe="")


def _kinds(of: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


def _address(path: str, query: Query | None) -> str:
    pairs = {k: _word(v) for k, v in (query or {}).items() if v is not None}
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _connected(url: str, timeout_s: float) -> HTTPConnection:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    if parts.hostname is None:
        raise errors.BadInput(f"{url!r} is not the address of a hub")
    return kind(parts.hostname, parts.port, timeout=timeout_s)
