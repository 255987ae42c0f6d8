"""Every request that the fake model got, and how its reply ended."""

from __future__ import annotations

import threading
import time
from typing import Literal

import msgspec

End = Literal["sent", "gone", "dropped", "error"]  # gone: the client went before the reply was all sent


class Request(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One request of an agent to its model."""

    n: int
    at: float
    method: str
    path: str
    api: str = ""
    side: bool = False  # without tools: a title, a summary
    step: int | None = None  # the step of the script that it got
    prompts: tuple[str, ...] = ()  # the prompts with a script in its history, in order
    history: tuple[str, ...] = ()  # who spoke, in order
    refused: str | None = None  # what the real API would not have taken
    end: End | None = None  # None: still under way


class Journal:
    """The requests so far; safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Request] = []

    def note(self, method: str, path: str) -> Request:
        """A request has come."""
        with self._lock:
            made = Request(n=len(self._requests) + 1, at=time.time(), method=method, path=path)
            self._requests.append(made)
        return made

    def requests(self) -> list[Request]:
        """All so far."""
        with self._lock:
            return list(self._requests)

    def scripted(self, word: str = "") -> list[Request]:
        """Those that got a step of a script, if their last prompt has that word."""
        return [
            request
            for request in self.requests()
            if request.step is not None and request.prompts and word in request.prompts[-1]
        ]

    def refusals(self, word: str) -> list[str]:
        """What the real API would not have taken, of requests with a prompt that has that word."""
        return [
            request.refused
            for request in self.requests()
            if request.refused and any(word in prompt for prompt in request.prompts)
        ]
