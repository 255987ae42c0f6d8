"""docs/verdicts.md, generated from the rules: `make docs` writes it, and a test compares it."""

from __future__ import annotations

import re

from holdfast.resume.next_steps import NEXT_STEPS
from holdfast.resume.rule_evidence import STOPPED
from holdfast.resume.rules import ARCHIVED_RULE, RULES, SAFE_RULES, VerdictRule, codes_of
from holdfast.transcripts.reader import HARMLESS

_NAME = re.compile(r"\{(\w+)\}")
_NAMED = {"session": "ID", "task": "TASK", "path": "its folder", "was": "of that time"}

_PAGE = """\
# Verdicts

<!-- Made by `make docs` from src/holdfast/resume/rules.py; change it there. -->

Is a session safe to resume? `holdfast verdict ID_OR_KEY [--json]` answers that; it changes nothing.
The verdict uses three sources of evidence, because each of them alone is wrong in known cases: our log (how
the last task ended, what the agent's stream showed), the agent's own history (what it will remember; see
`holdfast inspect`), and the process table (which processes still run).

| verdict | what a dispatch does |
|---|---|
| `resume` | resumes the same conversation |
| `fork` | starts a copy of the conversation up to the last complete turn; only with `--fork` |
| `fresh` | starts a new session, linked to the old one, which is archived with its token and log |
| `wait` | refuses, and names the task or the processes; with `--queue` it waits for them |

Each rule that applies adds a reason with one of these codes. One `wait` makes the verdict `wait`; otherwise
one `fresh` makes it `fresh`. A session that would start fresh does not wait for `too_soon`. The text of each
reason ends with the next step.

{table}

*brief*: the prompt of the fresh run starts with a brief: what was asked, what was done, which calls may be
half done and whether their processes still run, the state of the worktree, and what to check first
(`--no-brief` leaves it out). *fork*: a copy is also safe, if the agent can make one.

A session is safe to resume if no `wait` rule and no `fresh` rule applies. The reason then says why; `sound`
is used only after a success.

A task that never reached an agent does not count: one that was cancelled in the queue, could not be
started, or failed to resume. `holdfast trust ID` takes back `last_cancelled` and `last_failed`, not an
interruption. `holdfast resume ID --anyway` resumes against the verdict. The log records both: who, when, and
against which reasons.

## Back to an archived conversation

A fresh start archives the old session; its conversation stays. `holdfast resume OLD --fork` continues in a
copy of it, without the key. `holdfast resume OLD --anyway` brings the old session back: it takes its key
back from the session that has it now, which is archived, and the logs of both say so. It is refused while
a task runs or waits in either. `holdfast verdict OLD` says which of these will work. Over HTTP:
`POST /api/sessions/OLD/resume` with `how` `fork` or `anyway`.

## A resume is proven

A resume counts only when the agent names the id that it was asked for (`resumed` in the log). Until then it
is an attempt (`resume_attempt`), and nothing else has changed. If the agent reports an error, dies while it
loads, or names another id, the token stays current. A conversation that the agent started instead is kept in
the lineage and is not resumed. The same failure twice is `resume_failed`.

Holdfast judges twice: when you dispatch a prompt, and again when its turn comes. If the task before it was
interrupted meanwhile, the prompt moves to a fresh session, with the key and all prompts behind it.

The problem codes of an agent's own history are those of `holdfast inspect`. Any other problem code makes the
verdict `fresh`, too, except these, which lose nothing: {harmless}.
"""


def page() -> str:
    """The whole document."""
    head = "| code | verdict | when | next step | |\n|---|---|---|---|---|\n"
    table = head + "\n".join(_line(row) for row in (*RULES, *SAFE_RULES, ARCHIVED_RULE))
    return _PAGE.format(table=table, harmless=_codes(sorted(HARMLESS - {STOPPED})))


def _line(row: VerdictRule) -> str:
    also = ", ".join(word for word, so in (("brief", row.brief), ("fork", row.fork)) if so)
    step = NEXT_STEPS.get(row.code, "the text names the commands")
    step = _NAME.sub(lambda name: _NAMED.get(name[1], name[1].upper()), step)
    return f"| {_codes(codes_of(row))} | `{row.action}` | {row.fact} | {step} | {also} |"


def _codes(codes: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


if __name__ == "__main__":
    print(page(), end="")
