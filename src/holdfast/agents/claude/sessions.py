"""Where does Claude Code keep its sessions, and what do the first and last lines of a transcript say?"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.agents.claude import records
from holdfast.agents.claude.events import AGENT
from holdfast.agents.claude.records import lenient, parse_raw
from holdfast.agents.claude.subagents import is_subagent
from holdfast.process import identity
from holdfast.process import table as process_table
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import SessionRef

LONGEST = 200  # characters of a cwd's slug; a longer one gets a hash

_HEAD = 1 << 16
_TITLE = 200
_SUFFIX = ".jsonl"
# Record type with a title -> its field and its priority.
_RANKS = {"summary": ("summary", 1), "ai-title": ("aiTitle", 2), "custom-title": ("customTitle", 3)}
_TITLED = tuple(f'"{kind}"'.encode() for kind in _RANKS)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def root(env: Mapping[str, str]) -> str:
    """The config folder of a user with this environment."""
    return env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".claude")


def slug(cwd: str) -> str:
    """The folder name for sessions of a cwd; other folders can map to the same name.

    2.0.29, 2.1.197 and 2.1.325 use the name as it is; the SDK normalizes it first (NFC).
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
    """The folders with transcripts in a config folder or in `projects`, or the folder itself."""
    base = os.path.join(root, "projects")
    base = base if os.path.isdir(base) else root
    try:
        with os.scandir(base) as entries:
            return [*sorted(entry.path for entry in entries if entry.is_dir()), base]
    except OSError:
        return []


def find(root: str, name: str) -> list[SessionRef]:
    """The sessions with this id or at this path."""
    if os.path.isfile(name):
        return [session_ref(name)]
    if os.sep in name or not name or "\0" in name:
        return []
    paths = [os.path.join(folder, name + _SUFFIX) for folder in folders(root)]
    return [session_ref(path) for path in paths if os.path.isfile(path)]


def sessions(root: str, cwd: str | None) -> Iterator[SessionRef]:
    """All sessions, or those that began in this folder."""
    chosen = folders(root)
    names = slugs(cwd) if cwd is not None else set()
    if cwd is not None:
        chosen = [folder for folder in chosen if os.path.basename(folder) in names] or chosen
    for folder in chosen:
        for path in _transcripts(folder):
            ref = session_ref(path)
            named = ref.cwd is None and os.path.basename(folder) in names
            if cwd is None or named or _same_folder(ref.cwd, cwd):
                yield ref


def session_ref(path: str) -> SessionRef:
    """A reference to one transcript, from its first and last lines."""
    path = os.path.abspath(path)
    head, tail = _ends(path)
    header = _HeaderFields()
    for line in head:
        header.take(line, True)
    for line in tail:
        header.take(line, False)
    stamps = (timestamps.when_stamp(_object(line).get("timestamp")) for line in reversed([*head, *tail]))
    return SessionRef(
        agent=AGENT,
        native_id=id_of(path) or header.session or os.path.basename(path).removesuffix(_SUFFIX),
        path=path,
        cwd=header.cwd,
        title=header.title or header.prompt,
        updated_at=next(filter(None, stamps), None) or _changed(path),
        form="subagent" if is_subagent(path) else "",
    )


def id_of(path: str) -> str | None:
    """The session id in a file's name."""
    name = os.path.basename(path).removesuffix(_SUFFIX)
    return name if _UUID.fullmatch(name) else None


class _HeaderFields:
    """Header fields collected so far."""

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.session: str | None = None
        self.title: str | None = None
        self.prompt: str | None = None
        self._rank = 0

    def take(self, line: bytes, first: bool) -> None:
        complete = (
            self.cwd is not None and self.session is not None and (self.prompt is not None or not first)
        )
        if complete and not any([mark in line for mark in _TITLED]):
            return
        value = _object(line)
        if self.cwd is None:
            self.cwd = jsonl.storable_id(value.get("cwd"))
        if self.session is None:
            self.session = jsonl.storable_id(value.get("sessionId"))
        self._titled(value)
        if first and self.prompt is None and value.get("type") == "user":
            record = lenient(value)
            content = record.message.content if record.message is not None else None
            if records.user_speaker(record) == "prompt" and not record.is_sidechain:
                self.prompt = _short(records.first_text(content))

    def _titled(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        key, rank = _RANKS.get(kind, ("", 0)) if isinstance(kind, str) else ("", 0)
        if rank and rank >= self._rank and (title := _short(value.get(key))):
            self.title, self._rank = title, rank


def _object(line: bytes) -> dict[str, Any]:
    value = jsonl.parse(line) if line[:1] == b"{" else None
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str | None:
    words = " ".join(value.split()) if isinstance(value, str) else ""
    short = words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"
    return jsonl.storable_id(short.replace("\0", "")[:_TITLE])


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


# --- Living processes: Claude Code's own registry, and the tools that it started

MARK = "CLAUDE_CODE_SESSION_ID"  # set in the environment of its tools

_LIMIT = 1 << 20
_NEAR_S = 60.0


def owners(root: str, native_id: str) -> list[int]:
    """The living processes that the registry lists for a session."""
    folder = os.path.join(root, "sessions")
    if not os.path.isdir(folder) and os.path.basename(root) == "projects":
        folder = os.path.join(os.path.dirname(root), "sessions")
    pids = []
    for entry in _entries(folder):
        if entry.get("sessionId") == native_id and _is_here(entry.get("pidDomain")) and _lives(entry):
            pids.append(entry["pid"])
    return sorted(pids)


def tools(native_id: str) -> list[int]:
    """The living processes that a session's agent started, without this process and its ancestors."""
    table = process_table.table()
    ours = {os.getpid()}
    pid = os.getpid()
    while pid in table and table[pid].ppid not in ours:
        pid = table[pid].ppid
        ours.add(pid)
    return sorted(
        pid
        for pid, marked_id in process_table.marks(table, MARK).items()
        if marked_id == native_id and pid not in ours
    )


def _entries(folder: str) -> list[dict[str, Any]]:
    """The registry's entries; other files in the folder hold secrets and are not opened."""
    entries = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        if not name.endswith(".json") or not name[: -len(".json")].isdecimal():
            continue
        try:
            with open(os.path.join(folder, name), "rb") as file:
                entry = parse_raw(msgspec.Raw(file.read(_LIMIT)))
        except OSError:
            continue
        if type(entry.get("pid")) is int and 0 < entry["pid"] < 1 << 31:
            entries.append(entry)
    return entries


def _lives(entry: dict[str, Any]) -> bool:
    started = identity.started(entry["pid"])
    if started is None:
        return False
    noted = entry.get("procStart")
    if identity.HAS_PROC and isinstance(noted, (str, int, float)):
        return _number(noted) == started
    at = entry.get("startedAt")
    # Without /proc a process's start is a time of day; the CLI records its own slightly later.
    return isinstance(at, (int, float)) and 0 <= at / 1000 - started < _NEAR_S


def _number(value: str | int | float) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _is_here(domain: Any) -> bool:
    """Whether a pid of that domain is a process on this machine; older versions do not say."""
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
