"""Replays of recorded stdio through a driver: see tests/fixtures/streams/README.md."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

from holdfast.agents.driver import AgentJob, Driver, DriverOutput, Entry
from holdfast.agents.registry import AgentRegistry
from holdfast.model.event import NewEvent, check
from holdfast.model.json_codec import encode
from tests.support import paths

FOLDER = os.path.join(paths.FIXTURES, "streams")


class Recording:
    """One recorded process."""

    def __init__(self, version: str, name: str):
        with open(os.path.join(FOLDER, version, name + ".txt"), encoding="utf-8", newline="\n") as file:
            rows = file.read().split("\n")[:-1]
        self.rows = [(row[0], row[2:]) for row in rows]
        about = json.loads(self.rows.pop(0)[1])
        self.exit = next(int(text.split()[1]) for kind, text in self.rows if text.startswith("exit "))
        self.blocks = [text.split() for kind, text in self.rows if kind == "="]
        self.agent = about["agent"]
        self.job = AgentJob(
            agent=self.agent,
            session="s000000000000000",
            task=about["task"],
            prompt=about["prompt"],
            cwd="/home/dev/proj",
            program=(self.agent,),
            version=about["version"],
            permissions=about["permissions"],
            native_id=about["native_id"],
            resume=about["resume"],
        )

    @property
    def lines(self) -> list[bytes]:
        return [text.encode() for kind, text in self.rows if kind == "<"]


class Replay:
    """What a driver makes of a recording; every line it sends must be the one that was sent."""

    def __init__(self, recording: Recording):
        self.driver: Driver = AgentRegistry.from_config({recording.agent: {}}).make_driver(recording.job)
        self.entries: list[Entry] = []
        self.settled_at: int | None = None  # how many lines were heard when the final word was there
        unsent = self._take(self.driver.start_messages())
        heard = 0
        for kind, text in recording.rows:
            if kind == "<":
                assert not unsent, "it sent what was not sent then"
                unsent += self._take(self.driver.on_line(text.encode()))
                heard += 1
            elif kind == ">":
                assert unsent.pop(0) == text.encode() + b"\n"
            elif kind == "!" and text.startswith("answer "):
                _, ask, decision = text.split()
                assert decision in ("allow", "deny")
                unsent += self._take(self.driver.answer(ask, "allow" if decision == "allow" else "deny"))
            elif kind == "!" and text == "interrupt":
                out = self.driver.interrupt()
                assert out is not None
                unsent += self._take(out)
            if self.driver.final is not None and self.settled_at is None:
                self.settled_at = heard
        assert not unsent
        self._take(self.driver.on_eof())

    def _take(self, out: DriverOutput) -> list[bytes]:
        for entry in out.entries:
            if isinstance(entry, NewEvent):
                check(entry)
                encode(entry.body)
        self.entries += out.entries
        return list(out.sends)

    @property
    def events(self) -> list[NewEvent]:
        return [entry for entry in self.entries if isinstance(entry, NewEvent)]

    def told(self) -> list[str]:
        """The entries, one readable line each, calls numbered in the order they are first named."""
        numbers: dict[str, int] = {}
        return [_told(entry, numbers) for entry in self.entries]


def _told(entry: Entry, numbers: dict[str, int]) -> str:
    if not isinstance(entry, NewEvent):
        fields = msgspec.to_builtins(entry)
        return "token " + " ".join(str(fields[key]) for key in ("agent", "seen_in", "protocol"))
    body = dict(entry.body)

    def number(key: str) -> str:
        return f"#{numbers.setdefault(body.pop(key), len(numbers) + 1)}"

    within = f"in {number('parent')} " if "parent" in body else ""
    line = f"{within}{entry.kind} "
    if entry.kind in ("notice", "error"):
        line += f"{body.pop('code')}: {_short(body.pop('text'))}"
    elif entry.kind in ("user", "assistant", "thinking"):
        line += body.pop("text")
    elif entry.kind == "tool_progress":
        line += f"{number('call')} {body.pop('name')} {json.dumps(body.pop('input'))}"
    elif entry.kind == "tool_summary":
        code = body.pop("exit_code", None)
        ended = body.pop("outcome") + (f"({code})" if code is not None else "")
        line += f"{number('call')} {body.pop('name')} {ended} {_short(body.pop('output'))}"
    else:
        assert [option["id"] for option in body.pop("options")] == ["allow", "deny"]
        assert isinstance(body.pop("ask"), str) and "input" in body
        line += f"{number('call')} {body.pop('name')} {body.pop('answer')} by {body.pop('by')}"
        body = {key: value for key, value in body.items() if key not in ("input", *_ASK_MAY_SAY)}
    return line + (f" {json.dumps(body)}" if body and entry.kind not in ("notice", "error") else "")


_ASK_MAY_SAY = ("description", "blocked_path", "decision_reason")


def _short(text: Any) -> str:
    line = str(text).replace("\n", "\\n")
    return line if len(line) <= 34 else line[:33] + "…"
