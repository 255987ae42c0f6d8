"""Where does Gemini keep its chats, and which file belongs to a session?"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast import timestamps
from holdfast.agents.gemini.log import STARTS, MutationLog, is_record
from holdfast.transcripts import jsonl
from holdfast.transcripts.jsonl import LONGEST, parse, storable_id
from holdfast.transcripts.reader import SessionRef

FOLDER = ".gemini"

_NAMED = re.compile(r"session-(\d{4}-\d\d-\d\dT\d\d-\d\d)-([0-9A-Za-z_-]{8})\.jsonl?")
_SMALL = 1 << 16
_UPDATED = re.compile(rb'"lastUpdated":"([^"]{1,40})"')


def root(env: Mapping[str, str]) -> str:
    """Gemini's folder for a user with this environment."""
    home = env.get("GEMINI_CLI_HOME") or env.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, FOLDER)


def chats(folder: str) -> Iterator[str]:
    """The folders with chats in Gemini's folder, or any folder that holds some."""
    inner = os.path.join(folder, FOLDER)
    top = os.path.join(inner if os.path.isdir(inner) else folder, "tmp")
    projects = _listed(top)
    folders = [os.path.join(top, name, "chats") for name in projects]
    below = [path for path in folders if os.path.isdir(path)]
    if not below:
        own = os.path.join(folder, "chats")
        below = [own] if os.path.isdir(own) else [folder]
    yield from below


def files(chats: str) -> list[str]:
    """The session files in a folder, oldest first; subagents have folders of their own."""
    names = [name for name in _listed(chats) if name.startswith("session") and _is_log(name)]
    return [os.path.join(chats, name) for name in names if os.path.isfile(os.path.join(chats, name))]


def short(path: str) -> str | None:
    """The 8 digits in a file's name."""
    match = _NAMED.fullmatch(os.path.basename(path))
    return match[2] if match else None


def minute(path: str) -> str | None:
    """The minute in a file's name, in the format of `timestamps`."""
    match = _NAMED.fullmatch(os.path.basename(path))
    return f"{match[1][:13]}:{match[1][14:]}" if match else None


def twins(path: str) -> list[str]:
    """The other files with the same 8 digits, which Gemini reads and deletes together."""
    digits = short(path)
    if digits is None:
        return []
    return [other for other in files(os.path.dirname(path)) if short(other) == digits and other != path]


def subagents(path: str, native_id: str) -> list[str]:
    """The files of a session's subagents."""
    folder = os.path.join(os.path.dirname(path), native_id)
    return [os.path.join(folder, name) for name in _listed(folder) if _is_log(name)]


def head(path: str) -> MutationLog:
    """Read a file up to its first message, or all of it if there is none."""
    log = MutationLog()
    with suppress(OSError), open_log(path) as lines:
        for line in lines:
            log.on_line(line)
            if log.has_messages and log.header_ids:
                break
    return log


@contextmanager
def open_log(path: str) -> Iterator[Iterator[jsonl.JsonlLine]]:
    """The lines of a log; for a file from before the log format, its one object."""
    with open(path, "rb") as file:
        if path.endswith(".json"):
            raw = file.read(LONGEST + 1)
            value = parse(raw)
            if isinstance(value, dict):
                yield iter([jsonl.JsonlLine(number=0, offset=0, size=len(raw), value=value)])
                return
            file.seek(0)
        yield jsonl.read(file, STARTS, accepts=is_record)


def session_ref(path: str) -> SessionRef:
    """A reference to a session, without reading all of it."""
    path = os.path.abspath(path)
    log = head(path)
    native_id = next(iter(log.header_ids), None) or short(path) or os.path.basename(path).split(".")[0]
    return SessionRef(
        agent="gemini",
        native_id=native_id,
        path=path,
        cwd=cwd(path, log),
        title=log.title,
        updated_at=_updated(path) or log.updated_at,
        form="subagent" if log.kind == "subagent" else ("json" if path.endswith(".json") else "jsonl"),
    )


def cwd(path: str, log: MutationLog) -> str | None:
    """The project's folder: from Gemini's note beside the chats, its list, or the session itself."""
    project = os.path.dirname(os.path.dirname(path))
    root_file = os.path.join(project, ".project_root")
    with suppress(OSError, ValueError), open(root_file, encoding="utf-8") as file:
        if noted := storable_id(file.read(_SMALL).strip()):
            return noted
    listed = _projects(os.path.dirname(os.path.dirname(project)))
    for folder, slug in listed.items():
        if slug == os.path.basename(project) and _is_project(folder, log.project):
            return storable_id(folder)
    return log.cwd if log.cwd is not None and _is_project(log.cwd, log.project) else None


def home_of(path: str) -> str | None:
    """Gemini's own folder above a chat file, if the file is in its usual place."""
    project = os.path.dirname(os.path.dirname(path))
    top = os.path.dirname(project)
    return os.path.dirname(top) if os.path.basename(top) == "tmp" else None


def by_id(folder: str, name: str) -> list[str]:
    """The files of a session, by its whole id or its first 8 digits."""
    paths = []
    for where in chats(folder):
        for path in files(where):
            if short(path) not in (None, name[:8]):
                continue
            ids = head(path).header_ids
            if name in ids or (len(name) == 8 and (short(path) == name or any(id[:8] == name for id in ids))):
                paths.append(path)
    return paths


def main_files(paths: list[str]) -> list[str]:
    """For each session the file with its messages; several if several have some; else the newest."""
    sessions: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for path in paths:
        log = head(path)
        id = next(iter(log.header_ids), None) or short(path) or path
        sessions.setdefault((os.path.dirname(path), id), []).append((path, log.has_messages))
    chosen = []
    for files in sessions.values():
        chosen += [path for path, full in files if full] or [files[-1][0]]
    return chosen


def _projects(home: str) -> dict[str, str]:
    with suppress(OSError, ValueError), open(os.path.join(home, "projects.json"), "rb") as file:
        value = parse(file.read(1 << 24))
        listed = value.get("projects") if isinstance(value, dict) else None
        if isinstance(listed, dict):
            return {key: slug for key, slug in listed.items() if isinstance(slug, str)}
    return {}


def _is_project(folder: str, project: str | None) -> bool:
    digest = hashlib.sha256(folder.encode(errors="surrogatepass")).hexdigest()
    return project is None or project == digest


def _updated(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SMALL))
            stamps = _UPDATED.findall(file.read(_SMALL))
        stamp = timestamps.when_stamp(stamps[-1].decode(errors="replace")) if stamps else None
        return stamp or timestamps.of_seconds(os.path.getmtime(path))
    except OSError:
        return None


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def _is_log(name: str) -> bool:
    return name.endswith((".jsonl", ".json"))
