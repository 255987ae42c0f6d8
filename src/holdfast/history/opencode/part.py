"""Parts of a message as events, as the ACP driver names the same things."""

from __future__ import annotations

from typing import Any

from holdfast.drive import line as wire
from holdfast.drive.acp import content
from holdfast.drive.acp.naming import Origins
from holdfast.history import when
from holdfast.history.opencode.row import Row
from holdfast.model.event import NewEvent, Origin

# What only structures a message, or names a state of the files that OpenCode keeps elsewhere.
QUIET = frozenset({"step-start", "step-finish", "snapshot"})
_OUTCOMES = {"completed": "ok", "error": "error"}


def origin(
    agent: str, native_id: str, kind: str, told: str, part: Row, number: int | None = None
) -> Origin | None:
    """The origin that the live driver would give; an id that may be a counter counts for its part only."""
    origins = Origins(agent, part.id or "part")
    origins.native_id = native_id
    return origins.of(kind, told, number)


def moment(data: dict[str, Any], key: str) -> str | None:
    """A time that a record tells of itself."""
    time = data.get("time")
    return when.of_millis(time.get(key)) if isinstance(time, dict) else None


def state(data: dict[str, Any]) -> dict[str, Any]:
    """How a tool part stands."""
    told = data.get("state")
    return told if isinstance(told, dict) else {}


def outcome(told: dict[str, Any]) -> str | None:
    """How a call ended; None if it has not."""
    metadata = told.get("metadata")
    if told.get("status") == "error" and isinstance(metadata, dict) and metadata.get("interrupted") is True:
        return "interrupted"
    return _OUTCOMES.get(wire.word(told, "status"))


def output(told: dict[str, Any], how: str) -> str:
    """The text of a result."""
    metadata = told.get("metadata")
    if how == "interrupted" and isinstance(metadata, dict) and wire.word(metadata, "output"):
        return wire.word(metadata, "output")
    return content.raw_text(told.get("output") if told.get("status") == "completed" else told.get("error"))


def summary(call: str, name: str, told: dict[str, Any], how: str) -> dict[str, Any]:
    """The body of a call's end."""
    body: dict[str, Any] = {"call": call, "name": name, "outcome": how, "output": output(told, how)}
    metadata = told.get("metadata")
    if isinstance(metadata, dict) and type(metadata.get("exit")) is int:
        body["exit"] = metadata["exit"]
    given = told.get("input")
    if how == "ok" and isinstance(given, dict) and isinstance(given.get("oldString"), str):
        new = given.get("newString")
        if isinstance(new, str):
            body["diff"] = [{"path": wire.word(given, "filePath"), "old": given["oldString"], "new": new}]
    return body


def note(data: dict[str, Any]) -> NewEvent:
    """What is neither said nor done."""
    kind = wire.word(data, "type")
    if kind == "file":
        what = [wire.word(data, "filename"), wire.word(data, "mime")]
        url = wire.word(data, "url")
        facts = {} if url.startswith("data:") else {"url": url}
        return wire.notice("attachment", f"[file {' '.join(filter(None, what))}]", **facts)
    if kind == "agent":
        return wire.notice("agent", f"@{wire.word(data, 'name')}")
    if kind == "compaction":
        why = "by itself" if data.get("auto") is True else "as the user asked"
        return wire.notice("compaction", f"the conversation was compacted {why}")
    if kind == "patch":
        files = data.get("files")
        names = [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
        return wire.notice("patch", "files were changed: " + ", ".join(names[:100]))
    if kind == "retry":
        return wire.error("retry", failure(data.get("error"))[1], attempt=data.get("attempt"))
    return wire.unknown(data)


def failure(error: Any) -> tuple[str, str]:
    """The name and the words of an error that a message holds."""
    if not isinstance(error, dict):
        return "", content.raw_text(error)
    data = error.get("data")
    words = wire.word(data, "message") if isinstance(data, dict) else wire.word(error, "message")
    return wire.word(error, "name"), words or wire.word(error, "name") or content.raw_text(error)
