"""The hub's token: a file of the home that only its user can read."""

from __future__ import annotations

import hmac
import secrets
from contextlib import suppress

from holdfast import errors, fsio
from holdfast.client.found import token_path
from holdfast.home import Home


def load(home: Home) -> str:
    """The token, made where there is none yet."""
    path = token_path(home)
    with suppress(FileExistsError):
        fsio.create(path, [secrets.token_urlsafe(32).encode() + b"\n"])
    with open(path, encoding="ascii", errors="replace") as file:
        token = file.read().strip()
    if len(token) < 20:
        raise errors.BadInput(f"{path} holds no token", hint="delete it; `holdfast up` makes a new one")
    return token


def is_same(given: str, token: str) -> bool:
    """Whether it is the token; takes as long whichever letter is wrong."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())
