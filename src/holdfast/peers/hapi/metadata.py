"""A session's metadata as it lies in the database: read as raw JSON, changed key by key, nothing lost."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from holdfast.peers.hapi.database import FLAVORS

SHOWN = 60  # characters of a value that a sentence may quote


class HapiMetadata:
    """The value of one row's `metadata`."""

    def __init__(self, text: bytes | None):
        self.text = text
        self.problem = ""  # why it is no object
        self.is_nothing = text is None or not text.strip()  # whether a new object in its place loses nothing
        self.fields: dict[str, Any] = {}
        if text is None:
            self.problem = "there is none"
            return
        try:
            value = json.loads(text.decode(), parse_constant=_refuse)
        except RecursionError:
            self.problem = "it is nested too deep to be read"
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
        """Whether it can hold anything."""
        return not self.problem

    def string(self, key: str) -> str | None:
        """A key's value, if it is text and not empty."""
        value = self.fields.get(key)
        return value if isinstance(value, str) and value else None

    def tokens(self) -> dict[str, str]:
        """Flavor: token, for all that are there."""
        found = {}
        for flavor in FLAVORS.values():
            if flavor.token and (token := self.string(flavor.token)):
                found[flavor.name] = token
        return found

    @property
    def agent(self) -> str | None:
        """Whose session it is: as it says, else that of the only token that it has."""
        tokens = self.tokens()
        return self.string("flavor") or (next(iter(tokens)) if len(tokens) == 1 else None)

    def with_keys(self, keys: dict[str, str]) -> str | None:
        """The JSON text with these keys set and every other value as it was; None if that cannot be made."""
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
    """Each key of an object that is known to be sound, and the text that it and its value have."""
    found = {}
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, end = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        _, after = _DECODER.raw_decode(text, value)
        found[key] = f"{text[at:end]}:{text[value:after]}"
        at = _skip(text, after)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


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
    shown = json.dumps(value, ensure_ascii=False)
    return f"{kind}, {shown}" if len(shown) <= SHOWN else kind


def _is_nothing(value: Any) -> bool:
    """Whether there is nothing in a value that a session's metadata could have been."""
    if isinstance(value, list):
        return not value
    if not isinstance(value, str):
        return True
    try:
        return not isinstance(json.loads(value), dict | list)
    except (ValueError, RecursionError):
        return "{" not in value  # else it may be a torn object
