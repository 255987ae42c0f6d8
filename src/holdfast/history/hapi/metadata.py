"""A session's metadata as it lies in the database: read as raw JSON, changed key by key, nothing lost."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from holdfast.history.hapi.flavor import FLAVORS

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Metadata:
    """The value of one row's `metadata`."""

    def __init__(self, text: bytes | None):
        self.text = text
        self.problem = ""  # why it is no object
        self.fields: dict[str, Any] = {}
        if text is None:
            self.problem = "there is none"
            return
        try:
            value = json.loads(text.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as problem:
            self.problem = f"it is not JSON: {problem}"
            return
        if isinstance(value, dict):
            self.fields = value
        else:
            self.problem = "it is null" if value is None else f"it is a {type(value).__name__}"

    @property
    def is_object(self) -> bool:
        """Whether it can hold anything."""
        return not self.problem

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing in it that a new object would lose."""
        return self.text is None or self.text.strip() in (b"null", b"")

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

    def with_keys(self, keys: dict[str, str]) -> str | None:
        """The JSON text with these keys set and every other value as it was; None if that cannot be made."""
        if self.is_nothing:
            return json.dumps(keys, ensure_ascii=False, separators=(",", ":"))
        try:
            values = _decode(self.text or b"")
            for key, value in keys.items():
                values[key] = msgspec.Raw(msgspec.json.encode(value))
            text = msgspec.json.encode(values).decode()
            now = json.loads(text, parse_constant=_refuse)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return text if now == {**self.fields, **keys} else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
