"""Where Claude Code keeps its sessions, and what the beginning and the end of a transcript tell of it."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast import timestamps as when
from holdfast.agents.claude import records
from holdfast.agents.claude.events import AGENT
from holdfast.agents.claude.records import inside, lenient
from holdfast.agents.claude.subagents import is_subagent
from holdfast.process import identity
from holdfast.process import table as tree
from holdfast.transcripts import jsonl as wire
from holdfast.transcripts.reader import SessionRef

LONGEST = 200  # characters of a cwd's slug; what is longer gets a hash

_HEAD = 1 << 16
_TITLE = 200
_SUFFIX = ".jsonl"
# By the type of a record that has a title: where it is, and which is to be preferred.
_RANKS = {"summary": ("summary", 1), "ai-title": ("aiTitle", 2), "custom-title": ("customTitle", 3)}
_TITLED = tuple(f'"{kind}"'.encode() for kind in _RANKS)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def root(env: Mapping[str, str]) -> str:
    """The config folder of a user with that environment."""
    return env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".claude")


def slug(cwd: str) -> str:
    """The name of the folder for sessions of a cwd; others may have the same.

    2.0.29, 2.1.197 and 2.1.325 take the name as it is; the SDK composes it first (NFC).
    """
    units = _units(os.path.realpath(cwd))
    name = _dashed(units)
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{_hash(units)}"


def slugs(cwd: str) -> set[str]:
    """All names that the folder may have: 2.0.29 does not shorten it."""
    real = os.path.realpath(cwd)
    return {slug(cwd), slug(unicodedata.normalize("NFC", real)), _dashed(_units(real))}


def _units(path: str) -> list[int]:
    """The characters as JavaScript counts them."""
    raw = path.encode("utf-16-le", "surrogatepass")
    return [raw[i] | raw[i + 1] << 8 for i in range(0, len(raw), 2)]


def _dashed(units: list[int]) -> str:
    return "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)


def _hash(units: list[int]) -> str:
    number = 0
    for unit in units:
        number = (number * 31 + unit) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >= 1 << 31 else number)
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


def folders(root: str) -> list[str]:
    """The folders that hold transcripts: of a config folder, of `projects`, or one of those itself."""
    base = os.path.join(root, "projects")
    base = base if os.path.isdir(base) else root
    try:
        with os.scandir(base) as entries:
            return [*sorted(entry.path for entry in entries if entry.is_dir()), base]
    except OSError:
        return []


def find(root: str, name: str) -> list[SessionRef]:
    """The sessions meant by an id or a path."""
    if os.path.isfile(name):
        return [place(name)]
    if os.sep in name or not name or "\0" in name:
        return []
    paths = [os.path.join(folder, name + _SUFFIX) for folder in folders(root)]
    return [place(path) for path in paths if os.path.isfile(path)]


def sessions(root: str, cwd: str | None) -> Iterator[SessionRef]:
    """All of them, or those that began in that folder."""
    chosen = folders(root)
    names = slugs(cwd) if cwd is not None else set()
    if cwd is not None:
        chosen = [folder for folder in chosen if os.path.basename(folder) in names] or chosen
    for folder in chosen:
        for path in _transcripts(folder):
            found = place(path)
            named = found.cwd is None and os.path.basename(folder) in names
            if cwd is None or named or _same_folder(found.cwd, cwd):
                yield found


def place(path: str) -> SessionRef:
    """What one transcript is, as far as its beginning and its end tell."""
    path = os.path.abspath(path)
    head, tail = _ends(path)
    seen = _HeaderFields()
    for line in head:
        seen.take(line, True)
    for line in tail:
        seen.take(line, False)
    stamps = (when.when_stamp(_object(line).get("timestamp")) for line in reversed([*head, *tail]))
    return SessionRef(
        agent=AGENT,
        native_id=id_of(path) or seen.session or os.path.basename(path).removesuffix(_SUFFIX),
        path=path,
        cwd=seen.cwd,
        title=seen.title or seen.prompt,
        updated_at=next(filter(None, stamps), None) or _changed(path),
        form="subagent" if is_subagent(path) else "",
    )


def id_of(path: str) -> str | None:
    """The session id that a file has for a name."""
    name = os.path.basename(path).removesuffix(_SUFFIX)
    return name if _UUID.fullmatch(name) else None


class _HeaderFields:
    """What lines told so far."""

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.session: str | None = None
        self.title: str | None = None
        self.prompt: str | None = None
        self._rank = 0

    def take(self, line: bytes, first: bool) -> None:
        told = self.cwd is not None and self.session is not None and (self.prompt is not None or not first)
        if told and not any([mark in line for mark in _TITLED]):
            return
        value = _object(line)
        if self.cwd is None:
            self.cwd = wire.plain(value.get("cwd"))
        if self.session is None:
            self.session = wire.plain(value.get("sessionId"))
        self._titled(value)
        if first and self.prompt is None and value.get("type") == "user":
            record = lenient(value)
            content = record.message.content if record.message is not None else None
            if records.of_user(record) == "prompt" and not record.is_sidechain:
                self.prompt = _short(records.first(content))

    def _titled(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        key, rank = _RANKS.get(kind, ("", 0)) if isinstance(kind, str) else ("", 0)
        if rank and rank >= self._rank and (title := _short(value.get(key))):
            self.title, self._rank = title, rank


def _object(line: bytes) -> dict[str, Any]:
    value = wire.parse(line) if line[:1] == b"{" else None
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str | None:
    words = " ".join(value.split()) if isinstance(value, str) else ""
    short = words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"
    return wire.plain(short.replace("\0", "")[:_TITLE])


def _ends(path: str) -> tuple[list[bytes], list[bytes]]:
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            size = os.fstat(file.fileno()).st_size
            if size <= _HEAD:
                return head.split(b"\n"), []
            file.seek(max(_HEAD, size - _HEAD))
            return head.split(b"\n"), file.read(_HEAD).split(b"\n")
    except OSError:
        return [], []


def _transcripts(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            named = (entry for entry in entries if entry.name.endswith(_SUFFIX) and entry.is_file())
            return sorted(entry.path for entry in named if not is_subagent(entry.name))
    except OSError:
        return []


def _same_folder(one: str | None, other: str) -> bool:
    if one is None:
        return False
    real = unicodedata.normalize("NFC", os.path.realpath(other))
    return unicodedata.normalize("NFC", one) in (real, unicodedata.normalize("NFC", other))


def _changed(path: str) -> str | None:
    try:
        return timestamps.stamp(os.stat(path).st_mtime)
    except (OSError, ValueError, OverflowError):
        return None


# --- The processes that hold a session: Claude Code's registry of itself, and the tools that it started.

MARK = "CLAUDE_CODE_SESSION_ID"  # in the environment of its tools

_LIMIT = 1 << 20
_NEAR_S = 60.0


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that the registry names for a session."""
    folder = os.path.join(root, "sessions")
    if not os.path.isdir(folder) and os.path.basename(root) == "projects":
        folder = os.path.join(os.path.dirname(root), "sessions")
    found = []
    for entry in _entries(folder):
        if entry.get("sessionId") == native_id and _is_here(entry.get("pidDomain")) and _lives(entry):
            found.append(entry["pid"])
    return sorted(found)


def tools(native_id: str) -> list[int]:
    """The living processes that a session's agent started; not this one, nor what started it."""
    table = tree.table()
    ours = {os.getpid()}
    pid = os.getpid()
    while pid in table and table[pid].ppid not in ours:
        pid = table[pid].ppid
        ours.add(pid)
    return sorted(
        pid for pid, told in tree.marks(table, MARK).items() if told == native_id and pid not in ours
    )


def _entries(folder: str) -> list[dict[str, Any]]:
    """What the registry's files say; what else lies there holds secrets, and is not opened."""
    found = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        if not name.endswith(".json") or not name[: -len(".json")].isdecimal():
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                entry = inside(msgspec.Raw(file.read(_LIMIT)))
        except OSError:
            continue
        if type(entry.get("pid")) is int and 0 < entry["pid"] < 1 << 31:
            found.append(entry)
    return found


def _lives(entry: dict[str, Any]) -> bool:
    started = identity.started(entry["pid"])
    if started is None:
        return False
    told = entry.get("procStart")
    if identity.HAS_PROC and isinstance(told, (str, int, float)):
        return _number(told) == started
    at = entry.get("startedAt")
    # Without /proc a process's start is a time of day; the CLI notes its own a little later.
    return isinstance(at, (int, float)) and 0 <= at / 1000 - started < _NEAR_S


def _number(told: str | int | float) -> float | None:
    try:
        return float(told)
    except (ValueError, OverflowError):
        return None


def _is_here(domain: Any) -> bool:
    """Whether a pid of that domain means a process of ours; older versions do not tell."""
    if not isinstance(domain, str) or not identity.HAS_PROC:
        return True
    machine, space = _domain()
    parts = domain.split(":", 2)  # linux:<machine id>:pid:[4026531836]
    if len(parts) != 3:
        return True
    return parts[1] in ("", machine) and parts[2] in ("", space) if machine else parts[2] in ("", space)


@lru_cache(maxsize=1)
def _domain() -> tuple[str, str]:
    machine = ""
    try:
        with open("/etc/machine-id") as file:
            machine = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        pass
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return machine, space
