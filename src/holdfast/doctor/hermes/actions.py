"""What the plan does about a finding, in words."""

from __future__ import annotations

_TOGETHER = "the sidecar is written anew with every message that any copy has"

ACTIONS = {
    "shrunken_live": "what only the backup has is put back beside what is newer",
    "live_behind_db": "what only the agent's database has is put back",
    "content_diverged": "what was said before is put back in front of what was said since",
    "torn_live": f"{_TOGETHER}; the torn bytes are kept",
    "empty_live": _TOGETHER,
    "malformed_session": _TOGETHER,
    "orphan_backup": "the sidecar is made again from its backup and the agent's database",
    "missing_sidecar": "the sidecar is made again from the agent's database",
    "session_id_mismatch": "the sidecar is given the id that its name, and its row or backup, tell",
    "count_mismatch": "the number is set to what is there",
    "duplicate_partials": "one of each stays",
    "lone_surrogate": "the half character becomes a mark, so that the session can be saved again",
    "orphan_tool_row": "the model is told no longer of results without calls; the messages stay",
    "stale_stream": "the prompt and what its run had told become messages, and the turn is marked as cut off",
    "journal_pending_turn": "the prompt and what its run had told become messages",
    "index_missing": "the index is made anew",
    "index_corrupt": "the index is made anew",
    "index_stale": "what is missing is listed, and what is gone no longer",
    "tmp_litter": "those are removed that hold nothing that is not elsewhere",
}
