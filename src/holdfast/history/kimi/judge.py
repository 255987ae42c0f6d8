"""Whether a session is sound: what was read in, problems out."""

from __future__ import annotations

from holdfast.history.kimi import kimi_cli, kimi_code
from holdfast.history.reader import Problem

_TEXTS = {
    "torn_tail": "the last line is cut off",
    "bad_line": "lines that cannot be read, which are passed over in silence",
    "nul_tail": "the file ends in NULs, as after a power cut",
    "glued_lines": "lines that hold more than one record",
    "orphan_result": "results of calls that are not there",
    "forked_history": "two processes wrote into it at once: turns with the same number",
}


def judge(
    fold: kimi_code.Fold | kimi_cli.Wire | kimi_cli.Messages,
    context: kimi_cli.Messages | None,
    folder: str | None,
    native_id: str,
) -> list[Problem]:
    """What is wrong with a session whose folder says that id."""
    story = fold.story
    if not story.records and (context is None or not context.story.records):
        return [Problem("empty", "its file is empty")]
    problems = []
    if folder is not None and folder != native_id:
        text = f"its state says that it is {native_id}, its folder that it is {folder}"
        problems.append(Problem("session_id_mismatch", text, {"in_state": native_id}))
    if isinstance(fold, kimi_code.Fold) and story.records and not fold.has_header:
        problems.append(Problem("bad_header", "its first line does not say what kind of file it is"))
    odd = [(code, lines, story.counts[code]) for code, lines in story.odd.items()]
    if context is not None:
        odd += [(code, lines, context.story.counts[code]) for code, lines in context.story.odd.items()]
    for code, lines, count in odd:
        problems.append(Problem(code, _TEXTS.get(code, code), {"count": count, "lines": lines}))
    if isinstance(fold, kimi_cli.Wire) and context is not None:
        lost = context.context.forgets(fold)
        if lost is not None:
            text = "what was done last is not in what the model will be given, and would be forgotten"
            problems.append(Problem("context_forgets_step", text, {"calls": lost}))
    return problems + story.turns.problems()
