"""The page: the files in one folder of this package, and nothing else."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from functools import lru_cache
from typing import Any, NamedTuple

from litestar import Request, get
from litestar.params import FromPath
from litestar.response.base import ASGIResponse

from holdfast.errors import NotFound

FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "page")
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
SERVICE_WORKER = "/page/sw.js"
PLAIN = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Holdfast</title></head>
<body><h1>Holdfast</h1><p>This hub has no page. Its API: <a href="/schema">/schema</a>.</p></body></html>
"""


class StaticFile(NamedTuple):
    """A file as it is sent."""

    body: bytes
    kind: str
    etag: str


@get("/", include_in_schema=False)
async def index(request: Request[Any, Any, Any]) -> ASGIResponse:
    """The page itself."""
    found = _read(os.path.join(FOLDER, "index.html"))
    return _answer(request, found or StaticFile(PLAIN, KINDS[".html"], ""))


@get("/page/{name:path}", include_in_schema=False)
async def file(request: Request[Any, Any, Any], name: FromPath[str]) -> ASGIResponse:
    """A file of the page."""
    wanted = str(name).removeprefix("/")
    found = _read(os.path.join(FOLDER, wanted)) if wanted in os.listdir(FOLDER) else None
    if found is None or wanted.startswith("."):
        raise NotFound(f"there is no file {wanted!r}")
    return _answer(request, found)


def login() -> bytes | None:
    """The page that asks for the token."""
    found = _read(os.path.join(FOLDER, "login.html"))
    return None if found is None else found.body


def _read(path: str) -> StaticFile | None:
    try:
        at = os.stat(path)
    except OSError:
        return None
    return _loaded(path, at.st_mtime_ns, at.st_size) if os.path.isfile(path) else None


@lru_cache(maxsize=64)
def _loaded(path: str, _changed: int, _size: int) -> StaticFile:
    with open(path, "rb") as file:
        body = file.read()
    kind = KINDS.get(os.path.splitext(path)[1]) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    return StaticFile(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _answer(request: Request[Any, Any, Any], found: StaticFile) -> ASGIResponse:
    headers = {"cache-control": "no-cache", **({"etag": found.etag} if found.etag else {})}
    if request.url.path == SERVICE_WORKER:
        headers["service-worker-allowed"] = "/"  # it serves the whole page, not only this folder
    if found.etag and request.headers.get("if-none-match") == found.etag:
        return ASGIResponse(status_code=304, headers=headers, media_type=found.kind)
    return ASGIResponse(body=found.body, media_type=found.kind, headers=headers)


ROUTES = [index, file]
