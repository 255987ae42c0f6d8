"""The web UI's list of its sessions, made anew where it does not tell what is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.peers.hermes import values
from holdfast.peers.hermes.messages import read_message
from holdfast.peers.hermes.sidecar import Sidecar

# In the order in which the web UI writes them, with what it takes where a file is silent.
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
    """What the index should say of a session."""
    head = side.head
    told = [read_message(one, "sidecar", "") for one in side.messages if isinstance(one, dict)]
    times = [message.at for message in told if message.at]
    made: dict[str, Any] = {"session_id": native_id}
    made |= {name: head.get(name, default) for name, default in _COPIED.items()}
    made["created_workspace"] = head.get("created_workspace") or made["workspace"]
    made["message_count"] = len(side.messages)
    made["last_message_at"] = max(times, default=None) or made["updated_at"]
    made["user_message_count"] = sum(message.role == "user" for message in told)
    made["has_pending_user_message"] = bool(head.get("pending_user_message"))
    made["is_streaming"] = False
    if head.get("parent_session_id"):
        made["parent_session_id"] = head["parent_session_id"]
    if head.get("worktree_path"):
        made |= {name: head.get(name) for name in _WORKTREE}
    return made


def rebuild_index(
    listed: list[Any],
    gone: Iterable[str],
    fresh: Iterable[str],
    entry_of: Callable[[str], dict[str, Any] | None],
) -> bytes:
    """The index without the one and with the other; entries that say more than we know keep it."""
    dropped, wanted = set(gone), dict.fromkeys(fresh)
    kept: list[Any] = []
    for old in listed:
        own = values.identifier(old.get("session_id")) if isinstance(old, dict) else ""
        if own in dropped:
            continue
        if own in wanted:
            del wanted[own]
            old = {**old, **(entry_of(own) or {})}
        kept.append(old)
    added = [one for own in wanted if (one := entry_of(own)) is not None]
    made = [*kept, *added]
    if not kept:
        made.sort(key=lambda one: values.seconds(one.get("updated_at")) or 0.0, reverse=True)
    return encode(made, indent=2)


def encode(value: Any, indent: int | None = None) -> bytes:
    """JSON as the web UI writes it; halves of characters become marks."""
    return values.replace_lone_surrogates(json.dumps(value, ensure_ascii=False, indent=indent)).encode()
