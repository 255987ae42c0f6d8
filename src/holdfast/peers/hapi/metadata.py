"""A session's metadata in the database: read as raw JSON, and changed key by key so that nothing is lost."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from holdfast.peers.hapi.flavors import FLAVORS

MAX_QUOTED = 60  # characters of a value that a text may quote


class HapiMetadata:
    """The value of one row's `metadata` column."""

    def __init__(self, text: bytes | None):
        self.text = text
        self.problem = ""  # why it is not an object
        self.is_nothing = text is None or not text.strip()  # a new object in its place would lose nothing
        self.fields: dict[str, Any] = {}
        if text is None:
            self.problem = "there is none"
            return
        try:
            value = json.loads(text.decode(), parse_constant=_refuse)
        except RecursionError:
            self.problem = "it is nested too deep"
            return
        except ValueError as problem:
            self.problem = f"it is not JSON: {problem}"
            return
        if isinstance(value, dict):
            self.fields = value
        else:
            self.problem = f"it is {_called(value)}"
            self.is_nothing = _is_nothing(value)

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return not self.problem

    def string(self, key: str) -> str | None:
        """The value of a key, if it is a non-empty string."""
        value = self.fields.get(key)
        return value if isinstance(value, str) and value else None

    def tokens(self) -> dict[str, str]:
        """All tokens by flavor."""
        tokens = {}
        for flavor in FLAVORS.values():
            if flavor.token and (token := self.string(flavor.token)):
                tokens[flavor.name] = token
        return tokens

    @property
    def agent(self) -> str | None:
        """The session's agent: the named one, otherwise that of its only token."""
        tokens = self.tokens()
        return self.string("flavor") or (next(iter(tokens)) if len(tokens) == 1 else None)

    def with_keys(self, keys: dict[str, str]) -> str | None:
        """The JSON text with these keys set and all other values unchanged; None if that is impossible."""
        if self.is_nothing:
            return json.dumps(keys, ensure_ascii=False, separators=(",", ":"))
        try:
            members = _members((self.text or b"").decode())
            now = {**members, **{key: f"{_json(key)}:{_json(value)}" for key, value in keys.items()}}
            text = "{" + ",".join(now.values()) + "}"
            same = json.loads(text, parse_constant=_refuse) == {**self.fields, **keys}
        except (ValueError, RecursionError):
            return None
        return text if same else None


def _members(text: str) -> dict[str, str]:
    """The JSON text of each member of a valid object, by key."""
    members = {}
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        _, after = _DECODER.raw_decode(text, value)
        members[key] = f"{text[at:end]}:{text[value:after]}"
        at = _skip(text, after)
        at = _skip(text, at + 1) if text[at] == "," else at
    return members


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\n\r":
        at += 1
    return at


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _called(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kind = "a string" if isinstance(value, str) else "an array" if isinstance(value, list) else "a number"
    quoted = json.dumps(value, ensure_ascii=False)
    return f"{kind}, {quoted}" if len(quoted) <= MAX_QUOTED else kind


def _is_nothing(value: Any) -> bool:
    """Whether a value contains nothing of a session's metadata."""
    if isinstance(value, list):
        return not value
    if not isinstance(value, str):
        return True
    try:
        return not isinstance(json.loads(value), dict | list)
    except (ValueError, RecursionError):
        return "{" not in value  # otherwise it may be a damaged object
