"""The codes of the notices and errors that Holdfast itself writes into a log, and what each means.

`docs/notices.md` is made from this table: `python -m holdfast.model.notices`. Notices that come from an
agent's own output or history have the codes of that agent's reader.
"""

from __future__ import annotations

NOTICES: dict[str, str] = {
    "bad_native_id": "the agent named a conversation id that it cannot have; it was not recorded",
    "cancel_requested": "somebody asked the task to stop",
    "copied_home": "the task ran when this home was copied; it runs on in the original home",
    "drained": "the log did not know a launch; the agent's output was read, and the prompt was not run again",
    "ended_elsewhere": "how the tool that the session was imported from recorded its end",
    "given_back": "the agent was gone before it took the prompt; the task is queued again",
    "input_lost": "the process that passes input to the agent was killed; the agent's input ended early",
    "internal": "Holdfast failed in this run several times; the task is interrupted",
    "key_taken_back": "an archived session was resumed and took its key back from another session",
    "last_unrecorded": "the task that recorded the session's token is missing from the log",
    "launch": "what the agent's driver says about this launch",
    "left_behind": "files that the last task left uncommitted in this folder",
    "leftovers_ended": "leftover processes of a dead task were ended",
    "leftovers_ignored": "the task started beside leftover processes, as its policy says",
    "not_launched": "no agent was started; the task is queued again",
    "not_resumed": "a new conversation was started instead of a resume, and why",
    "other_host": "the session is on another node, so the prompt started a new session",
    "overruled": "somebody resumed the session against its verdict",
    "pull_request": "the agent named a pull request",
    "record_damaged": "a record of the log is damaged and no mirror has it; its bytes are in `quarantine/`",
    "record_lost": "a record is missing from the log and from its mirror",
    "relay_restarted": "the process that passes input to the agent was killed and started again",
    "replay_failed": "the agent's own history could not be read",
    "replayed": "what comes before is from the agent's own history, not from its output",
    "resume_attempt": "a resume is tried; it counts when the agent names the conversation",
    "set_aside": "hubs died at one line of the agent's output; the run was ended and its output kept",
    "spool_lost": "the folder of the task is gone, so the agent's output cannot be read",
    "spool_shrunk": "the file of the agent's output was cut or overwritten while it was read",
    "survivors": "processes that the agent started still run",
    "too_long": "a line of the agent's output is too long for the log; it is kept in the task's folder",
    "trusted": "somebody marked the session as sound",
    "unstorable": "an event that the log cannot store; the notice says why",
    "waiting": "the task waits before it starts, and for what",
}

_PAGE = """\
# Notices

<!-- Made by `make docs` from src/holdfast/model/notices.py; change it there. -->

Events of the kinds `notice` and `error` have a `code` and a `text`. These codes are Holdfast's own; all
others come from an agent's output or history. The codes of refused commands and requests are in
[exit codes](exit-codes.md).

| code | meaning |
|---|---|
{table}
"""


def page() -> str:
    """The whole document."""
    return _PAGE.format(table="\n".join(f"| `{code}` | {text} |" for code, text in sorted(NOTICES.items())))


if __name__ == "__main__":
    print(page(), end="")
