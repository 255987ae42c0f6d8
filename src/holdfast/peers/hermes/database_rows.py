"""What the agent's database has, in the form of a sidecar."""

from __future__ import annotations

from typing import Any

from holdfast.peers.hermes import transcript, values
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
# Of an index entry: what its session would have in its file.
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
    """A message of a sidecar, with everything that its row has, or the agent's own transcript."""
    told = row.raw
    made: dict[str, Any] = {"role": row.role, "content": content(told.get("content"), row.role)}
    if not row.place.isdigit():
        return {**told, **made}
    if row.at is not None:
        made["timestamp"] = row.at
    for name in _CARRIED:
        if told.get(name) not in (None, "", []):
            made[name] = told[name]
    made["_state_db_row_id"] = int(row.place)  # by this the web UI knows it again
    return made


def completed(told: Any, row: HermesMessage) -> Any:
    """A sidecar's copy, with what only its row has; what is there stays as it is."""
    if not isinstance(told, dict):
        return told
    made = dict(told)
    if isinstance(said := told.get("content"), str) and said.startswith(STRUCTURED):
        made["content"] = content(said, row.role)
    elif said in (None, "") and row.text:
        made["content"] = content(row.raw.get("content"), row.role)
    for name in ("tool_calls", "tool_call_id", "reasoning", "reasoning_content"):
        if told.get(name) in (None, "", []) and row.raw.get(name) not in (None, "", []):
            made[name] = row.raw[name]
    if row.tool and not told.get("tool_name") and not told.get("name"):
        made["tool_name"] = row.tool
    return made


def content(told: Any, role: str) -> Any:
    """A row's content as it was before it was stored."""
    if isinstance(told, str) and told.startswith(STRUCTURED):
        try:
            return values.parse(told[len(STRUCTURED) :])
        except ValueError:
            return told[len(STRUCTURED) :]
    if told is None:
        return ""
    return strip_wrappers(told) if role == "user" and isinstance(told, str) else told


def head(native_id: str, header: HermesSessionRow | None, entry: dict[str, Any]) -> dict[str, Any]:
    """A sidecar's fields out of a session's row, and where that is silent out of the index."""
    made: dict[str, Any] = {"session_id": native_id}
    if header is not None:
        told = header.values
        title, folder, model = header.word("title"), transcript.folder_of_row(header), header.word("model")
        made |= {"title": title} if title else {}
        made |= {"workspace": folder, "created_workspace": folder} if folder else {}
        made |= {"model": model} if model else {}
        made |= transcript.worktree_fields(header)
        if (started := values.seconds(told.get("started_at"))) is not None:
            made["created_at"] = started
        for name in _COUNTED:
            if type(told.get(name)) is int:
                made[name] = told[name]
        cost = told.get("actual_cost_usd") or told.get("estimated_cost_usd")
        made |= {"estimated_cost": cost} if cost is not None else {}
        made |= {"archived": True} if told.get("archived") else {}
        made |= {"pinned": True} if told.get("pinned") else {}
        made |= {"profile": profile} if (profile := header.word("profile_name")) else {}
        made |= {"parent_session_id": parent} if (parent := header.word("parent_session_id")) else {}
        made |= _source(header.word("source") or "webui")
    for name in LISTED:
        if entry.get(name) not in (None, "") and name not in made:
            made[name] = entry[name]
    return made


def _source(source: str) -> dict[str, Any]:
    label = "WebUI" if source == "webui" else source
    return {"source_tag": source, "raw_source": source, "session_source": source, "source_label": label}
