"""The types of records that a transcript may have (names as in 2.1.325 and before)."""

from __future__ import annotations

# The conversation: they have a uuid and a parent.
CHAIN = frozenset({"assistant", "attachment", "system", "user"})

# Bookkeeping of the CLI that says nothing about the work.
QUIET = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "cost-state",
        "custom-title",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "history-suppression",
        "isolation-latch",
        "last-prompt",
        "memory-mode",
        "mode",
        "observer-ref",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "relocated",
        "repl-mode",
        "resume-head-vouch",
        "session-owner",
        "summary",
        "tag",
        "tools-used",
        "worktree-state",
    }
)
QUIET_SYSTEM = frozenset(
    {
        "agents_killed",
        "away_summary",
        "bridge_state",
        "bridge_status",
        "file_snapshot",
        "memory_saved",
        "permission_retry",
        "stop_hook_summary",
        "thinking",
        "turn_duration",
        "turn_handoff_available",
        "vcs_state_changed",
    }
)
