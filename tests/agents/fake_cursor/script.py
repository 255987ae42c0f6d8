"""What one run is to do."""

from __future__ import annotations

import re

import msgspec

_IN_PROMPT = re.compile(r"<<(\{.*\})>>", re.DOTALL)


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A thought, some words, one command, more words."""

    think: str = ""
    say: str = ""
    cmd: str = ""  # none: no call
    cwd: str = ""  # where it runs
    call: str = "toolu_01FakeCursorCall"
    final: str = "Done."
    error: str = ""  # the run ends in this error instead of well
    tell_user: bool = True  # the server sends the prompt back


def of(prompt: str) -> Script:
    """The script that a prompt carries."""
    found = _IN_PROMPT.search(prompt)
    return msgspec.json.decode(found[1], type=Script) if found else Script()


def prompt(words: str, script: Script) -> str:
    """A prompt that carries a script."""
    return f"{words} <<{msgspec.json.encode(script).decode()}>>"


def halves(text: str) -> list[str]:
    """A text as the two deltas in which it is streamed."""
    middle = (len(text) + 1) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
