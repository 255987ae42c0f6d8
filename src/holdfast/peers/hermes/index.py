"""The web UI's index of its sessions: what its entries contain, and how it is rebuilt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.peers.hermes import values
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.sidecar import Sidecar

# In the order in which the web UI writes them, with its defaults.
_COPIED: dict[str, Any] = {
    "title": "Untitled",
    "workspace": "",
    "model": "",
    "model_provider": None,
    "created_at": 0.0,
    "updated_at": 0.0,
    "pinned": False,
    "archived": False,
    "project_id": None,
    "profile": None,
    "input_tokens": 0,
    "output_tokens": 0,
    "estimated_cost": None,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "personality": None,
    "compression_anchor_visible_idx": None,
    "compression_anchor_message_key": None,
    "compression_anchor_summary": None,
    "pre_compression_snapshot": False,
    "context_engine": None,
    "compression_anchor_engine": None,
    "compression_anchor_mode": None,
    "compression_anchor_details": {},
    "context_engine_state": {},
    "context_length": None,
    "threshold_tokens": None,
    "last_prompt_tokens": None,
    "post_compression_context_tokens_estimate": None,
    "compression_recovery": {},
    "recommended_recovery_action": None,
    "gateway_routing": None,
    "gateway_routing_history": [],
    "manual_title": False,
    "active_stream_id": None,
    "pending_user_message": None,
    "is_cli_session": False,
    "source_tag": None,
    "raw_source": None,
    "session_source": None,
    "source_label": None,
    "read_only": False,
    "enabled_toolsets": None,
    "composer_draft": {},
    "process_wakeup_pause": {},
    "share_token": None,
    "share_created_at": None,
}
_WORKTREE = ("worktree_path", "worktree_branch", "worktree_repo_root", "worktree_created_at")


def index_entry(native_id: str, side: Sidecar) -> dict[str, Any]:
    """The index entry of a session."""
    head = side.head
    messages = [read_message(raw, "sidecar", "") for raw in side.messages if isinstance(raw, dict)]
    times = [message.at for message in messages if message.at]
    entry: dict[str, Any] = {"session_id": native_id}
    entry |= {name: head.get(name, default) for name, default in _COPIED.items()}
    entry["created_workspace"] = head.get("created_workspace") or entry["workspace"]
    entry["message_count"] = len(side.messages)
    entry["last_message_at"] = max(times, default=None) or entry["updated_at"]
    entry["user_message_count"] = sum(message.role == "user" for message in messages)
    entry["has_pending_user_message"] = bool(head.get("pending_user_message"))
    entry["is_streaming"] = False
    if head.get("parent_session_id"):
        entry["parent_session_id"] = head["parent_session_id"]
    if head.get("worktree_path"):
        entry |= {name: head.get(name) for name in _WORKTREE}
    return entry


def rebuild_index(
    listed: list[Any],
    gone: Iterable[str],
    fresh: Iterable[str],
    entry_of: Callable[[str], dict[str, Any] | None],
) -> bytes:
    """The index without the `gone` sessions and with new entries for the `fresh` ones.

    Fields of an entry that we do not know stay.
    """
    dropped, pending = set(gone), dict.fromkeys(fresh)
    kept: list[Any] = []
    for old in listed:
        own = values.identifier(old.get("session_id")) if isinstance(old, dict) else ""
        if own in dropped:
            continue
        if own in pending:
            del pending[own]
            old = {**old, **(entry_of(own) or {})}
        kept.append(old)
    added = [entry for own in pending if (entry := entry_of(own)) is not None]
    entries = [*kept, *added]
    if not kept:
        entries.sort(key=lambda entry: values.seconds(entry.get("updated_at")) or 0.0, reverse=True)
    return encode(entries, indent=2)


def encode(value: Any, indent: int | None = None) -> bytes:
    """JSON as the web UI writes it; half characters become replacement marks."""
    return values.replace_lone_surrogates(json.dumps(value, ensure_ascii=False, indent=indent)).encode()
