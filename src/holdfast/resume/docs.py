"""docs/verdicts.md, made from the table: `make docs` writes it, and a test keeps it level."""

from __future__ import annotations

from holdfast.resume.rule_evidence import STOPPED
from holdfast.resume.rules import ARCHIVED_RULE, RULES, SAFE_RULES, VerdictRule, codes_of
from holdfast.transcripts.reader import HARMLESS

_PAGE = """\
# Verdicts

<!-- Made by `make docs` from src/holdfast/resume/rules.py; change it there. -->

May a session be gone on with? `holdfast verdict ID_OR_KEY [--json]` looks and says so; it changes
nothing. Three witnesses are asked, for each alone is wrong in known cases: our log (how the last task
ended, what the agent's stream showed), the agent's own history (what it will remember; see `holdfast
inspect`), and the process table (who is still alive).

| verdict | what a dispatch does |
|---|---|
| `resume` | goes on with the same conversation |
| `fork` | begins as a copy up to the last whole turn; only for a caller who prefers that (`--fork`) |
| `fresh` | begins a new session, linked to the old one, which is archived with its token and log |
| `wait` | refuses, and names the task or the processes; with `--queue` it waits for them |

All that applies is a reason, with one of these codes. One `wait` makes the verdict `wait`; else one
`fresh` makes it `fresh`. What would be `fresh` anyway does not wait for `too_soon`.

{table}

*brief*: a fresh run is told at the head of its prompt what was asked, what was done, which calls may be
half done and whether their processes still run, the state of the worktree and what to check first
(`--no-brief` leaves it out). *fork*: a copy will do as well, where the agent can make one.

A session is safe to resume where no `wait` and no `fresh` applies; the reason then says why, and `sound`
is only said of a success.

A task that never reached an agent counts for nothing: one that was cancelled in the queue, could not be
started, or failed to resume. `holdfast trust ID` takes back `last_cancelled` and `last_failed`, not an
interruption. `holdfast resume ID --anyway` resumes against the verdict. Both are records: who, when, and
against which reasons.

## Back to an archived conversation

A fresh start archives the old session; its conversation stays. `holdfast resume OLD --fork` continues in a
copy of it, without the key. `holdfast resume OLD --anyway` brings the old session back: it takes its key
back from the session that has it now, which is archived, and the logs of both say so. It is refused while
a task runs or waits in either. `holdfast verdict OLD` says which of these will work. Over HTTP:
`POST /api/sessions/OLD/resume` with `how` `fork` or `anyway`.

## A resume is proven

It is one when the agent names the id that it was asked for (`resumed` in the log). Until then it is an
attempt (`resume_attempt`) and nothing else has changed. An error, a death while loading or another id:
the token stays current, a conversation begun instead is kept in the lineage and not gone on with, and the
same failure twice is `resume_failed`.

The verdict is asked for twice: when a prompt is dispatched, and again when its turn comes. A prompt that
waited behind a task which was then interrupted goes on in a fresh session, with the key and all that
waits behind it.

The words for what is wrong with a store are those of `holdfast inspect`; any other one makes it `fresh`, too,
but for these, by which nothing is lost: {harmless}.
"""


def page() -> str:
    """The whole document."""
    head = "| code | verdict | when | |\n|---|---|---|---|\n"
    table = head + "\n".join(_line(row) for row in (*RULES, *SAFE_RULES, ARCHIVED_RULE))
    return _PAGE.format(table=table, harmless=_codes(sorted(HARMLESS - {STOPPED})))


def _line(row: VerdictRule) -> str:
    also = ", ".join(word for word, so in (("brief", row.brief), ("fork", row.fork)) if so)
    return f"| {_codes(codes_of(row))} | `{row.action}` | {row.fact} | {also} |"


def _codes(codes: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


if __name__ == "__main__":
    print(page(), end="")
