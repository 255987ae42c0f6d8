"""What an agent asks for: which permissions have no answer yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def unanswered(records: Iterable[tuple[T, dict[str, Any]]]) -> list[T]:
    """Of one task's permissions, each with its body, those that wait for an answer, oldest first."""
    asked: dict[str, T] = {}
    for record, body in records:
        ask = str(body.get("ask"))
        if body.get("answer") is None:
            asked[ask] = record
        else:
            asked.pop(ask, None)
    return list(asked.values())
