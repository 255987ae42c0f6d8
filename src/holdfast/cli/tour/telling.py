"""What the tour says, and the claims that it makes: each was checked, or the tour ends there."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

from holdfast.cli import output
from holdfast.errors import HoldfastError

WIDTH = 88


class Telling:
    """Speaks to a person, or keeps the claims for a program."""

    def __init__(self, aloud: bool):
        self._aloud = aloud
        self._coloured = aloud and sys.stdout.isatty()
        self.claims: list[dict[str, Any]] = []
        self._act = ""

    def act(self, title: str) -> None:
        """A new part begins."""
        self._act = title
        self._print(f"\n{self._paint('1', title)}")

    def say(self, text: str) -> None:
        """A paragraph."""
        self._print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  "))

    def point(self, address: str) -> None:
        """An address, whole on a line of its own."""
        self._print(f"  {address}")

    def command(self, line: str) -> None:
        """What anybody could have typed."""
        self._print(self._paint("36", f"  $ {line}"))

    def quote(self, text: str, lines: int = 8) -> None:
        """Some lines of what Holdfast said."""
        given = [output.plain(line) for line in text.strip().splitlines()]
        told = [
            part for line in given for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ") or [""]
        ]
        for line in told[:lines]:
            self._print(self._paint("2", f"    {line}"))
        if len(told) > lines:
            self._print(self._paint("2", f"    … {len(told) - lines} lines more"))

    def claim(self, text: str, holds: bool, **evidence: Any) -> None:
        """Something that must be so; the tour fails where it is not."""
        self.claims.append({"act": self._act, "claim": text, "holds": holds, "evidence": evidence})
        if not holds:
            raise HoldfastError(f"the tour found this not to hold: {text}", evidence=evidence)
        self._print(f"  {self._paint('32', '✓')} {text}")

    def _paint(self, colour: str, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._coloured else text

    def _print(self, line: str) -> None:
        if self._aloud:
            output.text(line)
            sys.stdout.flush()
