"""What to do next after each reason of a verdict."""

from __future__ import annotations

_NEW = "The next prompt starts a new conversation."
_BRIEFED = "The next prompt starts a new conversation with a brief of what happened."
_ANYWAY = "`holdfast resume {session} --anyway` continues this one all the same."
_TRUST = "If its work is sound, run `holdfast trust {session}`; if not, just send the next prompt."
_RESTORE = "`holdfast restore {session} --native` puts back the copy that Holdfast kept."
_RESUME = "Continue with `holdfast resume {session}`."

# By the code of the rule; {names} are of the evidence, and the session.
NEXT_STEPS: dict[str, str] = {
    "task_running": "Wait for it, add `--queue` to run the prompt after it, or run `holdfast cancel TASK`.",
    "live_owner": "Close that program, or add `--queue` to wait for it.",
    "tools_running": "Wait for them, or end them with `holdfast cancel {task}`.",
    "other_host": "Run the command on that node.",
    "too_soon": "Then try again.",
    "no_token": _NEW,
    "token_revoked": f"`holdfast token {{session}} reinstate` takes that back. {_NEW}",
    "last_interrupted": f"{_BRIEFED} {_ANYWAY}",
    "last_cancelled": _TRUST,
    "last_failed": _TRUST,
    "interrupted_on_purpose": f"{_BRIEFED} {_ANYWAY}",
    "crashed_elsewhere": f"{_BRIEFED} {_ANYWAY}",
    "last_unrecorded": f"{_BRIEFED} {_ANYWAY}",
    "never_begun": _NEW,
    "other_protocol": f"Continue it in the agent's own program. {_NEW}",
    "store_unknown": f"{_NEW} {_ANYWAY}",
    "store_missing": f"{_RESTORE} {_NEW}",
    "store_shrunk": f"{_RESTORE} {_NEW}",
    "store_torn": f"{_RESTORE} {_NEW}",
    "store_forked": f"{_NEW} {_ANYWAY}",
    "store_broken": f"{_NEW} {_ANYWAY}",
    "store_ambiguous": f"Remove all but one of them. {_NEW}",
    "store_destroyed": _NEW,
    "store_unfinished": f"{_BRIEFED} {_ANYWAY}",
    "store_unsound": f"{_NEW} {_ANYWAY}",
    "dangling_call": f"{_BRIEFED} {_ANYWAY}",
    "memory_gap": f"{_BRIEFED} {_ANYWAY}",
    "cut_gap": f"{_BRIEFED} {_ANYWAY}",
    "folder_gone": f"Put the folder back to continue. {_NEW}",
    "worktree_gone": _NEW,
    "other_branch": f"Switch {{path}} to the branch {{was}} to continue. {_NEW}",
    "other_folder": f"Run the command in {{path}} to continue. {_NEW}",
    "resume_failed": f"{_NEW} {_ANYWAY}",
    "sound": _RESUME,
    "failed_with_answer": _RESUME,
    "trusted": _RESUME,
    "adopted_sound": _RESUME,
    "ended_in_api_error": _RESUME,
    "last_not_started": _RESUME,
}
