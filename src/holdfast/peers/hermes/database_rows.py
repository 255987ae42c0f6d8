"""Rows of the agent's database in the form of a sidecar."""

from __future__ import annotations

from typing import Any

from holdfast.peers.hermes import values, worktree
from holdfast.peers.hermes.database import HermesSessionRow
from holdfast.peers.hermes.messages import STRUCTURED, HermesMessage, strip_wrappers

UNTITLED = "Recovered session"

_CARRIED = (
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "effect_disposition",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
    "platform_message_id",
    "api_content",
)
_COUNTED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
# The fields that a rebuilt session takes from its index entry.
LISTED = (
    "title",
    "workspace",
    "created_workspace",
    "model",
    "model_provider",
    "created_at",
    "updated_at",
    "pinned",
    "archived",
    "project_id",
    "profile",
    "personality",
    "manual_title",
    "parent_session_id",
    "worktree_path",
    "worktree_branch",
    "worktree_repo_root",
    "worktree_created_at",
    "enabled_toolsets",
)


def message(row: HermesMessage) -> dict[str, Any]:
    """A row as a message of a sidecar, with everything that the row or the agent's transcript has."""
    raw = row.raw
    message: dict[str, Any] = {"role": row.role, "content": content(raw.get("content"), row.role)}
    if not row.place.isdigit():
        return {**raw, **message}
    if row.at is not None:
        message["timestamp"] = row.at
    for name in _CARRIED:
        if raw.get(name) not in (None, "", []):
            message[name] = raw[name]
    message["_state_db_row_id"] = int(row.place)  # the web UI identifies it by this
    return message


def completed(raw: Any, row: HermesMessage) -> Any:
    """A sidecar's message, completed with what only its row has; existing values stay."""
    if not isinstance(raw, dict):
        return raw
    message = dict(raw)
    if isinstance(text := raw.get("content"), str) and text.startswith(STRUCTURED):
        message["content"] = content(text, row.role)
    elif text in (None, "") and row.text:
        message["content"] = content(row.raw.get("content"), row.role)
    for name in ("tool_calls", "tool_call_id", "reasoning", "reasoning_content"):
        if raw.get(name) in (None, "", []) and row.raw.get(name) not in (None, "", []):
            message[name] = row.raw[name]
    if row.tool and not raw.get("tool_name") and not raw.get("name"):
        message["tool_name"] = row.tool
    return message


def content(stored: Any, role: str) -> Any:
    """A row's content as it was before it was stored."""
    if isinstance(stored, str) and stored.startswith(STRUCTURED):
        try:
            return values.parse(stored[len(STRUCTURED) :])
        except ValueError:
            return stored[len(STRUCTURED) :]
    if stored is None:
        return ""
    return strip_wrappers(stored) if role == "user" and isinstance(stored, str) else stored


def head(native_id: str, header: HermesSessionRow | None, entry: dict[str, Any]) -> dict[str, Any]:
    """A sidecar's fields from a session's row; missing ones come from the index entry."""
    head: dict[str, Any] = {"session_id": native_id}
    if header is not None:
        columns = header.values
        title, folder, model = header.text("title"), worktree.folder_of_row(header), header.text("model")
        head |= {"title": title} if title else {}
        head |= {"workspace": folder, "created_workspace": folder} if folder else {}
        head |= {"model": model} if model else {}
        head |= worktree.worktree_fields(header)
        if (started := values.seconds(columns.get("started_at"))) is not None:
            head["created_at"] = started
        for name in _COUNTED:
            if type(columns.get(name)) is int:
                head[name] = columns[name]
        cost = columns.get("actual_cost_usd") or columns.get("estimated_cost_usd")
        head |= {"estimated_cost": cost} if cost is not None else {}
        head |= {"archived": True} if columns.get("archived") else {}
        head |= {"pinned": True} if columns.get("pinned") else {}
        head |= {"profile": profile} if (profile := header.text("profile_name")) else {}
        head |= {"parent_session_id": parent} if (parent := header.text("parent_session_id")) else {}
        head |= _source(header.text("source") or "webui")
    for name in LISTED:
        if entry.get(name) not in (None, "") and name not in head:
            head[name] = entry[name]
    return head


def _source(source: str) -> dict[str, Any]:
    label = "WebUI" if source == "webui" else source
    return {"source_tag": source, "raw_source": source, "session_source": source, "source_label": label}
