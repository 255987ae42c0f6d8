"""Logins of the page: each has a secret of its own, stored as a hash, that expires and can be revoked.

One file a login, so that `holdfast logins` lists and revokes them whether or not a hub runs, and a hub that
runs notices at once.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast import durable_io, errors, timestamps

if TYPE_CHECKING:
    from holdfast.home import Home

LIFETIME_S = 90 * 86400.0
USED_EVERY_S = 60.0  # how often the time of the last use is written
CODE_S = 60.0  # how long the address that leads from one host to the other is valid
MOST = 500  # logins that are kept; a script that opens the address in a loop ends its own oldest ones
_ID = re.compile(r"[0-9a-f]{12}\Z")


class Login(NamedTuple):
    """One login, without its secret."""

    id: str
    created_at: str
    used_at: str
    expires_at: str
    client: str  # what the browser called itself
    host: str  # the name it was opened under


class NewLogin(NamedTuple):
    """A login at the one moment when its secrets are known."""

    cookie: str  # the value of the cookie
    key: str | None  # what the page must send beside the cookie; None: the cookie alone is enough


class Logins:
    """The logins of one home."""

    def __init__(self, home: Home, token: str = ""):
        """`token`: the hub's. A login that was made with another one has ended."""
        self._folder = os.path.join(home.path, "logins")
        self._token = _hash(token)[:16]
        self._codes: dict[str, float] = {}  # one-time codes, by hash: when they expire

    # --- making

    def create(self, client: str, host: str, *, keyed: bool) -> NewLogin:
        """A new login. With `keyed`, the cookie counts only together with a key that a browser keeps apart.

        A browser sends the cookies of a host to every port of it, so any local web server may get ours. The
        key is kept in the page's local storage, which belongs to one port.
        """
        self._sweep()
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        key = secrets.token_urlsafe(32) if keyed else None
        now = time.time()
        record = {
            "id": id,
            "secret_sha256": _hash(secret),
            "key_sha256": None if key is None else _hash(key),
            "token": self._token,
            "created_at": timestamps.stamp(now),
            "expires_at": timestamps.stamp(now + LIFETIME_S),
            "client": client[:200],
            "host": host[:200],
        }
        durable_io.make_folder(self._folder)
        durable_io.create(self._path(id), [json.dumps(record).encode() + b"\n"])
        return NewLogin(f"{id}.{secret}", key)

    def new_code(self) -> str:
        """A code that makes one login, once and soon: the token itself is not put into a second address."""
        now = time.monotonic()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = now + CODE_S
        return code

    def use_code(self, code: str) -> bool:
        """Whether a code is valid; from now on it is not."""
        until = self._codes.pop(_hash(code), None)
        return until is not None and until > time.monotonic()

    # --- asking

    def login_of(self, cookie: str, key: str | None) -> str | None:
        """The id of the login that a cookie and a key belong to; None if it is not valid."""
        id, _, secret = cookie.partition(".")
        record = self._read(id)
        if record is None or not hmac.compare_digest(_hash(secret), str(record.get("secret_sha256"))):
            return None
        wanted = record.get("key_sha256")
        if wanted is not None and not hmac.compare_digest(_hash(key or ""), str(wanted)):
            return None
        self._note_use(id)
        return id

    def is_cookie(self, cookie: str) -> bool:
        """Whether the cookie belongs to a login, whatever its key: enough for the empty page."""
        id, _, secret = cookie.partition(".")
        record = self._read(id)
        return record is not None and hmac.compare_digest(_hash(secret), str(record.get("secret_sha256")))

    def is_valid(self, id: str) -> bool:
        """Whether a login has neither expired nor been revoked."""
        return self._read(id) is not None

    def all(self) -> list[Login]:
        """The logins that are valid, the latest first."""
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        found = []
        for id in [name.removesuffix(".json") for name in names]:
            if (record := self._read(id, any_token=not self._token_known)) is not None:
                used = timestamps.stamp(os.stat(self._path(id)).st_mtime)
                found.append(
                    Login(
                        id,
                        str(record["created_at"]),
                        used,
                        str(record["expires_at"]),
                        str(record.get("client", "")),
                        str(record.get("host", "")),
                    )
                )
        return sorted(found, key=lambda login: login.created_at, reverse=True)

    # --- ending

    def revoke(self, id: str) -> None:
        """End a login; NotFound if there is none."""
        if not _ID.match(id) or not os.path.lexists(self._path(id)):
            raise errors.NotFound(f"there is no login {id!r}", hint="`holdfast logins` lists them")
        with suppress(FileNotFoundError):
            os.unlink(self._path(id))

    def revoke_all(self) -> int:
        """End every login; how many there were."""
        ended = [login.id for login in self.all()]
        for id in ended:
            with suppress(errors.NotFound):
                self.revoke(id)
        return len(ended)

    # ---

    @property
    def _token_known(self) -> bool:
        return self._token != _hash("")[:16]

    def _path(self, id: str) -> str:
        return os.path.join(self._folder, f"{id}.json")

    def _read(self, id: str, *, any_token: bool = False) -> dict[str, Any] | None:
        if not _ID.match(id):
            return None
        try:
            with open(self._path(id), "rb") as file:
                record = json.loads(file.read(10_000))
            expired = timestamps.parse(record["expires_at"]) <= time.time()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if expired or not (any_token or record.get("token") == self._token):
            return None
        return dict(record)

    def _note_use(self, id: str) -> None:
        with suppress(OSError):
            if time.time() - os.stat(self._path(id)).st_mtime > USED_EVERY_S:
                os.utime(self._path(id))

    def _sweep(self) -> None:
        """Remove what has expired, and the oldest where there are too many."""
        if not os.path.isdir(self._folder):
            return
        kept = self.all()[: MOST - 1]
        valid = {login.id for login in kept}
        for name in os.listdir(self._folder):
            id = name.removesuffix(".json")
            if _ID.match(id) and id not in valid:
                with suppress(FileNotFoundError):
                    os.unlink(self._path(id))


def _hash(value: str) -> str:
    return sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
