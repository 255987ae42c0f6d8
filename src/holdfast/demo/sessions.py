"""The demo agent's sessions on disk; the package's docstring describes the file format."""

from __future__ import annotations

import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PAGE = 100  # sessions in one reply to session/list

HAS: dict[str, tuple[str, ...]] = {
    "session": ("id", "cwd", "at"),
    "prompt": ("n", "turn", "id", "text"),
    "message": ("n", "id", "text"),
    "thought": ("n", "id", "text"),
    "call": ("n", "id", "name", "input"),
    "ask": ("n", "call"),
    "answer": ("n", "call", "option"),
    "result": ("n", "call", "status", "exit", "output"),
    "end": ("n", "turn", "stop"),
}

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class UnknownSession(Exception):
    """There is no such session."""


class SessionInUse(Exception):
    """Another process has the session open."""


def home() -> str:
    """The folder of the sessions."""
    configured = os.environ.get("HOLDFAST_DEMO_HOME")
    if configured:
        return configured
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "holdfast-demo")


def stamp(seconds: float | None = None) -> str:
    """A time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class DemoSession:
    """A session that this process has open; only this process may append to its file."""

    def __init__(self, id: str, cwd: str, fd: int, records: int, turns: int, torn: bool):
        self.id = id
        self.cwd = cwd
        self.turns = turns
        self.always: set[str] = set()  # tools that are always allowed
        self._fd = fd
        self._records = records
        self._torn = torn

    def next_id(self, kind: str) -> str:
        """An id for the next record."""
        return f"{kind}-{self._records + 1}"

    def add(self, type: str, **fields: Any) -> None:
        """Append a record; the operating system has it when this returns."""
        line = _line({"type": type, "n": self._records + 1, **fields})
        if self._torn:
            line = b"\n" + line
        _write(self._fd, line)
        self._torn = False
        self._records += 1

    def close(self) -> None:
        """Release the session for other processes."""
        os.close(self._fd)


def create(cwd: str) -> DemoSession:
    """Create a session."""
    id = f"demo-{os.urandom(12).hex()}"
    fd = _create(id, [{"type": "session", "v": 1, "id": id, "cwd": cwd, "at": stamp()}])
    return DemoSession(id, cwd, fd, 0, 0, False)


def reopen(id: str, cwd: str) -> tuple[DemoSession, list[dict[str, Any]]]:
    """Open an existing session; also its records."""
    try:
        fd = os.open(_path(id), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnknownSession(id) from None
    try:
        _lock(fd, id)
        records, torn = _read(fd)
    except BaseException:
        os.close(fd)
        raise
    turns = sum(record["type"] == "prompt" for record in records)
    return DemoSession(id, cwd, fd, _count(records), turns, torn), records


def fork(id: str, cwd: str) -> DemoSession:
    """Create a session that starts with all complete turns of another one, which is only read."""
    try:
        fd = os.open(_path(id), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnknownSession(id) from None
    try:
        records, _ = _read(fd)
    finally:
        os.close(fd)
    ends = [position for position, record in enumerate(records) if record["type"] == "end"]
    kept = records[: ends[-1] + 1] if ends else []
    new = f"demo-{os.urandom(12).hex()}"
    head = {"type": "session", "v": 1, "id": new, "cwd": cwd, "at": stamp(), "from": id}
    opened = _create(new, [head, *kept])
    turns = sum(record["type"] == "prompt" for record in kept)
    return DemoSession(new, cwd, opened, _count(kept), turns, False)


def page(cwd: str | None, start: int) -> tuple[list[dict[str, Any]], int | None]:
    """Sessions for session/list, the latest first, and the start of the next page."""
    files = []
    try:
        with os.scandir(home()) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file():
                    files.append((-entry.stat().st_mtime, entry.name[: -len(".jsonl")], entry.path))
    except FileNotFoundError:
        return [], None
    sessions: list[dict[str, Any]] = []
    files.sort()
    for position in range(start, len(files)):
        if len(sessions) == PAGE:
            return sessions, position
        age, id, path = files[position]
        head = _head(path)
        if head is not None and cwd in (None, head["cwd"]):
            sessions.append({"sessionId": id, "updatedAt": stamp(-age), **head})
    return sessions, None


def _head(path: str) -> dict[str, Any] | None:
    """The cwd and title of a session file; None if it is not one."""
    with open(path, "rb") as file:
        first, second = _parsed(file.readline()), _parsed(file.readline())
    if first is None or first["type"] != "session" or type(first["cwd"]) is not str:
        return None
    head = {"cwd": first["cwd"]}
    if second is not None and second["type"] == "prompt":
        head["title"] = " ".join(str(second["text"]).split())[:80]
    return head


def _path(id: str) -> str:
    if not id.isascii() or not id.replace("-", "").isalnum():
        raise UnknownSession(id)
    return os.path.join(home(), f"{id}.jsonl")


def _create(id: str, records: list[dict[str, Any]]) -> int:
    """Create a locked file with these records; it gets its name only when it is complete."""
    path = _path(id)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    temp = f"{path}.{os.getpid()}"
    fd = os.open(temp, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _lock(fd, id)
    _write(fd, b"".join(map(_line, records)))
    os.rename(temp, path)
    return fd


def _lock(fd: int, id: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionInUse(id) from None


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _line(record: dict[str, Any]) -> bytes:
    return _encode(record).encode("utf-8", "replace") + b"\n"


def _read(fd: int) -> tuple[list[dict[str, Any]], bool]:
    """The complete records after the first line, and whether the last line is cut off."""
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    lines = b"".join(parts).split(b"\n")
    records = [record for record in map(_parsed, lines[1:-1]) if record is not None]
    return records, lines[-1] != b""


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if type(record) is not dict or type(record.get("type")) is not str:
        return None
    return record if all([field in record for field in HAS.get(record["type"], ("type",))]) else None


def _count(records: list[dict[str, Any]]) -> int:
    """The highest record number."""
    return max((record["n"] for record in records if type(record.get("n")) is int), default=0)
