"""The messages that a checkpoint gives to the model: JSON blobs with a role and content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.drive import line as lines
from holdfast.drive.acp.content import block_text, mended, raw_text

Blobs = Callable[[str], bytes | None]  # a blob by the hex of its sha256

_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_AROUND = re.compile(r"<(user_info|system_reminder|additional_data|timestamp)>.*?</\1>", re.DOTALL)


class Prompts:
    """Where each call and each result is; only their blobs' ids are kept."""

    def __init__(self, ids: Iterable[bytes], blob: Blobs):
        self.ids = [found.hex() for found in ids]
        self.missing: list[str] = []
        self.last_role = ""
        self._blob = blob
        self._calls: dict[str, str] = {}
        self._results: dict[str, str] = {}
        for found in self.ids:
            message = read(blob(found))
            if message is None:
                self.missing.append(found)
                continue
            self.last_role = lines.word(message, "role")
            for part in parts(message):
                if call := lines.word(part, "toolCallId"):
                    into = self._results if part.get("type") == "tool-result" else self._calls
                    into.setdefault(call, found)

    def call(self, call: str) -> dict[str, Any] | None:
        """The part that made a call."""
        return self._part(self._calls.get(call), call, "tool-call")

    def result(self, call: str) -> str | None:
        """What the model was told of a call's end."""
        part = self._part(self._results.get(call), call, "tool-result")
        return None if part is None else result_text(part)

    def _part(self, found: str | None, call: str, kind: str) -> dict[str, Any] | None:
        message = None if found is None else read(self._blob(found))
        of_call = (p for p in parts(message or {}) if p.get("toolCallId") == call and p.get("type") == kind)
        return next(of_call, None)


def read(data: bytes | None) -> dict[str, Any] | None:
    """The message in a blob; None if there is none."""
    value = lines.parse(data) if data is not None else None
    return value if isinstance(value, dict) else None


def parts(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a message's content, however it was given."""
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (part for part in content if isinstance(part, dict))


def result_text(part: dict[str, Any]) -> str:
    """A tool-result part as text."""
    for key in ("result", "output"):
        value = part.get(key)
        if isinstance(value, dict) and "value" in value and "type" in value:
            value = value["value"]
        if isinstance(value, list):
            return mended("\n".join(block_text(item) for item in value))
        if value is not None:
            return raw_text(value)
    return ""


def said(text: str) -> str:
    """What a user said, without what the CLI wraps around it for the model."""
    if queries := _QUERY.findall(text):
        return "\n".join(queries)
    return _AROUND.sub("", text).strip()
