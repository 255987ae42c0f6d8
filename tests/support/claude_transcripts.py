"""Claude Code's transcripts for tests: recorded ones put where the CLI keeps them, and made-up ones."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from holdfast.agents.claude.reader import ClaudeReader
from holdfast.transcripts.reader import SessionRef
from tests.support.transcript_cases import FIXTURES

READER = ClaudeReader()
FOLDER = os.path.join(FIXTURES, "claude")
SLUG = "-home-dev-proj"
ID = "11111111-1111-4111-8111-111111111111"
VERSIONS = ("2.1.197", "2.1.325")
GROUPS = ("1.0.72", "corrupt-2.1.197", "split_brain")  # many transcripts, one expected.json


def load(*names: str) -> Any:
    with open(os.path.join(FOLDER, *names), encoding="utf-8") as file:
        return json.load(file)


def cases() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """By name: the transcript, the session's id, what is true."""
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for version in VERSIONS:
        for case in sorted(os.listdir(os.path.join(FOLDER, version))):
            truth = load(version, case, "expected.json")
            path = os.path.join(FOLDER, version, case, "transcript.jsonl")
            if os.path.exists(path):  # else the session was never there
                found[f"{version}/{case}"] = (path, truth["session_id"] or truth["session_ids"][0], truth)
    for group in GROUPS:
        about = load(group, "expected.json")
        for name, truth in about["files"].items():
            id = about.get("session_id") or name.removesuffix(".jsonl")
            found[f"{group}/{name}"] = (os.path.join(FOLDER, group, name), id, truth)
    return found


def put(root: Path, transcript: str, id: str) -> SessionRef:
    """A recorded transcript where the CLI would have it."""
    folder = root / "projects" / SLUG
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(transcript, folder / f"{id}.jsonl")
    beside = os.path.join(os.path.dirname(transcript), "session_dir")
    if os.path.isdir(beside):
        shutil.copytree(beside, folder / id)
    (place,) = READER.find(str(root), id)
    return place


class Made:
    """A transcript that is written record by record; each hangs off the one before unless told otherwise."""

    def __init__(self, folder: Path, id: str = ID):
        self.path = folder / f"{id}.jsonl"
        self.id = id
        self.lines: list[bytes] = []
        self.last: str | None = None

    def add(self, type: str, *, uuid: str | None = None, parent: Any = ..., **fields: Any) -> str:
        uuid = uuid or f"u{len(self.lines)}"
        record = {
            "parentUuid": self.last if parent is ... else parent,
            "isSidechain": False,
            "type": type,
            "uuid": uuid,
            "timestamp": f"2026-11-15T22:00:{len(self.lines) % 60:02d}.500Z",
            "sessionId": self.id,
            "cwd": "/home/dev/proj",
            **fields,
        }
        self.raw(record)
        self.last = uuid
        return uuid

    def raw(self, record: Any) -> None:
        line = record if isinstance(record, bytes) else json.dumps(record, separators=(",", ":")).encode()
        self.lines.append(line + b"\n")

    def user(self, content: Any, **fields: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def says(
        self, content: Any, message: str | None = None, stop: str | None = "end_turn", **fields: Any
    ) -> str:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        id = message or f"msg_{len(self.lines)}"
        body = {"id": id, "role": "assistant", "model": "m", "content": blocks, "stop_reason": stop}
        return self.add("assistant", message=body, **fields)

    def calls(self, call: str, name: str = "Bash", given: Any = None, **fields: Any) -> str:
        block = {"type": "tool_use", "id": call, "name": name, "input": given or {"command": call}}
        return self.says([block], stop="tool_use", **fields)

    def returns(self, call: str, output: Any = "ok", error: bool = False, **fields: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": error}
        return self.user([block], **fields)

    def place(self) -> SessionRef:
        self.path.write_bytes(b"".join(self.lines))
        (place,) = READER.find("", str(self.path))
        return place


def told(place: SessionRef) -> list[str]:
    """The events in short: who said what."""
    found = []
    for event in READER.events(place):
        body = event.body
        what = body.get("text") or body.get("call") or ""
        extra = f" {body['outcome']}" if "outcome" in body else f" {body['code']}" if "code" in body else ""
        below = f" <{body['parent']}" if "parent" in body else ""
        found.append(f"{event.kind} {what[:60]}{extra}{below}")
    return found


def codes(place: SessionRef) -> list[str]:
    return sorted(problem.code for problem in READER.inspect(place).problems)
