"""Where do both products keep their sessions, and what can a name mean?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast import timestamps
from holdfast.model.json_codec import decode
from holdfast.transcripts import jsonl
from holdfast.transcripts.reader import SessionRef

AGENT = "kimi"
CODE, CLI = "kimi-code", "kimi-cli"
INDEX = "session_index.jsonl"
_WIRE = os.path.join("agents", "main", "wire.jsonl")
_LARGEST_STATE = 4 * 1024 * 1024  # bytes
_LONGEST = 1000  # characters of a title or a path


class KimiSessionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A session's folder and its files."""

    folder: str
    form: str
    wire: str | None = None
    context: str | None = None  # kimi-cli only


def root(env: Mapping[str, str]) -> str:
    """`KIMI_CODE_HOME`, else the default; a user of only kimi-cli may have set `KIMI_SHARE_DIR`."""
    home = env.get("HOME") or os.path.expanduser("~")
    usual = os.path.join(home, ".kimi-code")
    if named := env.get("KIMI_CODE_HOME"):
        return named
    share = env.get("KIMI_SHARE_DIR")
    return share if share and not os.path.isdir(usual) else usual


def homes(root: str) -> list[str]:
    """The product folders that a root covers: itself, and the older product's folder beside it."""
    folders = [root]
    if os.path.basename(os.path.normpath(root)) == ".kimi-code":
        folders.append(os.path.join(os.path.dirname(os.path.normpath(root)), ".kimi"))
    if not os.path.isdir(os.path.join(root, "sessions")):
        folders += [os.path.join(root, name) for name in (".kimi-code", ".kimi", "kimi-home")]
    return [home for home in folders if os.path.isdir(os.path.join(home, "sessions"))]


def session_at(path: str) -> KimiSessionFiles | None:
    """The session at or around a file or folder."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    above = os.path.dirname(os.path.dirname(folder))
    if os.path.basename(os.path.dirname(folder)) == "agents" and not _is_session(folder, _WIRE):
        # A subagent's file means that subagent; the main file means the session.
        if os.path.basename(folder) == "main":
            return KimiSessionFiles(folder=above, form=CODE, wire=os.path.join(folder, "wire.jsonl"))
        return KimiSessionFiles(folder=folder, form=CODE, wire=os.path.join(folder, "wire.jsonl"))
    if _is_session(folder, _WIRE):
        return KimiSessionFiles(folder=folder, form=CODE, wire=os.path.join(folder, _WIRE))
    happened, context = os.path.join(folder, "wire.jsonl"), os.path.join(folder, "context.jsonl")
    if os.path.isfile(context):
        wire_path = happened if os.path.isfile(happened) else None
        return KimiSessionFiles(folder=folder, form=CLI, wire=wire_path, context=context)
    if os.path.isfile(happened):
        form = CLI if _is_cli(happened) else CODE
        return KimiSessionFiles(folder=folder, form=form, wire=happened)
    return None


def sessions(home: str, cwd: str | None = None) -> Iterator[KimiSessionFiles]:
    """All sessions in a product's folder, or those in the folders of a cwd."""
    above = os.path.join(home, "sessions")
    for name in _names(above):
        if cwd is not None and not _is_of(name, cwd):
            continue
        for session in _names(os.path.join(above, name)):
            folder = os.path.join(above, name, session)
            if os.path.isdir(folder) and (files := session_at(folder)) is not None:
                yield files


def by_id(home: str, id: str) -> Iterator[KimiSessionFiles]:
    """The sessions with this id; the common prefix of Kimi Code's ids may be omitted."""
    if not id or os.sep in id or id in (".", "..") or "\0" in id:
        return
    above = os.path.join(home, "sessions")
    names = (id,) if id.startswith("session_") else (id, f"session_{id}")
    for project in _names(above):
        for name in names:
            folder = os.path.join(above, project, name)
            if os.path.isdir(folder) and (files := session_at(folder)) is not None:
                yield files


def session_ref(files: KimiSessionFiles, home: str | None = None) -> SessionRef:
    """A reference to a session."""
    state = read_state(os.path.join(files.folder, "state.json"))
    path = files.wire or files.context or files.folder
    title = jsonl.text_field(state, "title") or jsonl.text_field(state, "custom_title")
    cwd = jsonl.text_field(state, "cwd") or jsonl.text_field(state, "workDir")
    if not cwd and files.form == CLI:
        cwd = _cwd_of(files.folder, home)
    updated = state.get("updatedAt")
    return SessionRef(
        agent=AGENT,
        native_id=jsonl.storable_id(jsonl.text_field(state, "id")) or os.path.basename(files.folder),
        path=path,
        cwd=_short(cwd),
        title=_short(title),
        updated_at=timestamps.of_millis(updated) or timestamps.when_stamp(updated) or _modified(path),
        form=files.form,
    )


def read_state(path: str) -> dict[str, Any]:
    """A small JSON file; empty if it is not one."""
    try:
        with open(path, "rb") as file:
            state = jsonl.parse(file.read(_LARGEST_STATE))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def files(session: KimiSessionFiles) -> list[str]:
    """All files in a session's folder; outside such a folder, only the known files."""
    if os.path.basename(session.folder).startswith("session_") or session.form == CLI:
        return [
            os.path.join(folder, name)
            for folder, _, names in sorted(os.walk(session.folder))
            for name in sorted(names)
            if os.path.isfile(os.path.join(folder, name)) and not os.path.islink(os.path.join(folder, name))
        ]
    known = (session.wire, session.context, os.path.join(session.folder, "state.json"))
    return [path for path in known if path is not None and os.path.isfile(path)]


def _is_session(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _is_cli(path: str) -> bool:
    """Whether a wire file is kimi-cli's: its records wrap their message, and its protocol is 1.6 or later."""
    try:
        with open(path, "rb") as file:
            for raw in (file.readline(1 << 16), file.readline(1 << 16)):
                try:
                    record = decode(raw)
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict) and "timestamp" in record and "message" in record:
                    return True
                if isinstance(record, dict) and record.get("type") != "metadata":
                    return False
    except OSError:
        pass
    return False


def _is_of(name: str, cwd: str) -> bool:
    for path in {os.path.normpath(cwd), os.path.realpath(cwd)}:
        raw = path.encode(errors="surrogateescape")
        if name.endswith("_" + hashlib.sha256(raw).hexdigest()[:12]):
            return True
        if name.split("_")[-1] == hashlib.md5(raw, usedforsecurity=False).hexdigest():
            return True
    return False


def _cwd_of(folder: str, home: str | None) -> str:
    """kimi-cli lists the folders that it was used in, and names their session folders by a hash."""
    project = os.path.basename(os.path.dirname(folder))
    home = home or os.path.dirname(os.path.dirname(os.path.dirname(folder)))
    listed = read_state(os.path.join(home, "kimi.json")).get("work_dirs")
    for entry in listed if isinstance(listed, list) else ():
        path = jsonl.text_field(entry, "path") if isinstance(entry, dict) else ""
        if path and _is_of(project, path):
            return path
    return ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _modified(path: str) -> str | None:
    try:
        return timestamps.of_seconds(os.stat(path).st_mtime)
    except OSError:
        return None


def _short(text: str) -> str | None:
    shortened = text.replace("\0", "").encode(errors="replace").decode()[:_LONGEST]
    return shortened or None
