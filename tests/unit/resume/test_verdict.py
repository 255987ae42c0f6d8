"""The table of verdicts, row by row, and what no combination of facts may ever give."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.resume import rule_evidence
from holdfast.resume.environment import FolderState, LiveProcess
from holdfast.resume.facts import ArchiveState, LastTask, ResumeFacts, UnstartedTask
from holdfast.resume.log_evidence import MemoryGap
from holdfast.resume.next_steps import NEXT_STEPS
from holdfast.resume.rules import ARCHIVED_RULE, RULES, SAFE_RULES, rule_of
from holdfast.resume.verdict import is_short_wait, judge, reasons_text, sentence_of, wants_brief
from holdfast.transcripts.reader import HARMLESS, TranscriptProblem
from tests.support import verdict_facts as resume_facts
from tests.support.verdict_facts import but, store

PROCESS = LiveProcess(4711, "/usr/bin/make all")
GAP = MemoryGap("tool_summary", 7, "c1", "shell make")
CUT_GAP = MemoryGap("tool_progress", 9, "c2", "shell make install", cut=True)
MINUTE = TranscriptProblem("resume_destroys_history", "too early", {"how": "same_minute", "until": "later"})
RESET = TranscriptProblem("resume_destroys_history", "it would be reset", {"how": "reset"})

# facts, what they come to, the codes of the reasons, a word of the first reason, and whether there is a brief
CASES: dict[str, tuple[ResumeFacts, str, list[str], str, bool]] = {
    "sound": (resume_facts.SOUND, "resume", ["sound"], "agree", False),
    "failed with an answer": (
        but(last=LastTask("t1", "failed", reason="the agent stopped: refusal")),
        "resume",
        ["failed_with_answer"],
        "did not succeed: the agent stopped: refusal. It is safe to resume",
        False,
    ),
    "not started": (
        but(not_started=UnstartedTask("t2", "failed", "claude is not installed")),
        "resume",
        ["last_not_started"],
        "t2, ended as failed before it reached the agent: claude is not installed. It changed nothing",
        False,
    ),
    "adopted": (but(last=None), "resume", ["adopted_sound"], "no task of Holdfast", False),
    "adopted, stopped by a person": (
        but(last=None, store=store("interrupted_on_purpose", sound=True)),
        "fresh",
        ["interrupted_on_purpose"],
        "stopped by a person",
        True,
    ),
    "adopted, failed": (
        but(last=None, store=store("ended_in_api_error", sound=True)),
        "resume",
        ["ended_in_api_error"],
        "It is safe to resume",
        False,
    ),
    "stopped at a terminal behind our task": (
        but(store=store("interrupted_on_purpose", sound=True)),
        "fresh",
        ["interrupted_on_purpose"],
        "stopped by a person",
        True,
    ),
    "crashed elsewhere": (
        but(last=None, crashed="hapi archived it: Session crashed"),
        "fresh",
        ["crashed_elsewhere"],
        "Session crashed",
        True,
    ),
    "archived": (
        but(archived=ArchiveState("ann", "away", "k", "s2")),
        "resume",
        ["sound", "archived"],
        "agree",
        False,
    ),
    "archived, and interrupted": (
        but(archived=ArchiveState("ann", "away"), last=LastTask("t1", "interrupted")),
        "fresh",
        ["last_interrupted", "archived"],
        "t1",
        True,
    ),
    "running": (but(waiting=("t2",)), "wait", ["task_running"], "t2", False),
    "not ended": (but(last=LastTask("t1", "running")), "wait", ["task_running"], "t1", False),
    "unreachable": (but(last=LastTask("t1", "unreachable")), "wait", ["task_running"], "t1", False),
    "owner": (but(owners=(PROCESS,)), "wait", ["live_owner"], "4711", False),
    "tools": (
        but(tools=(PROCESS,), last=LastTask("t1", "interrupted")),
        "wait",
        ["tools_running", "last_interrupted"],
        "make all (4711)",
        True,
    ),
    "elsewhere": (but(elsewhere="other", store=None), "wait", ["other_host"], "other", False),
    "too soon": (but(store=store(problems=[MINUTE], sound=False)), "wait", ["too_soon"], "later", False),
    "too soon, and for nothing": (
        but(store=store(problems=[MINUTE], sound=False), last=LastTask("t1", "interrupted")),
        "fresh",
        ["last_interrupted"],
        "t1",
        True,
    ),
    "no token": (but(token=None, store=None), "fresh", ["no_token"], "never named", False),
    "revoked": (but(token=None, revoked="bad", store=None), "fresh", ["token_revoked"], "bad", False),
    "interrupted": (
        but(last=LastTask("t1", "interrupted", False, "signal 9")),
        "fresh",
        ["last_interrupted"],
        "signal 9",
        True,
    ),
    "cancelled": (but(last=LastTask("t1", "cancelled")), "fresh", ["last_cancelled"], "t1", True),
    "failed": (but(last=LastTask("t1", "failed", False)), "fresh", ["last_failed"], "t1", True),
    "cancelled and trusted": (
        but(last=LastTask("t1", "cancelled"), trusted=True, trusted_by="ann", trusted_why="looked"),
        "resume",
        ["trusted"],
        "ended as cancelled: no reason was given. It is safe to resume: ann has said so since: looked",
        False,
    ),
    "failed and trusted": (
        but(last=LastTask("t1", "failed", False), trusted=True),
        "resume",
        ["trusted"],
        "ended as failed",
        False,
    ),
    "interrupted and trusted": (
        but(last=LastTask("t1", "interrupted"), trusted=True),
        "fresh",
        ["last_interrupted"],
        "t1",
        True,
    ),
    "unrecorded": (but(last=None, missing=True), "fresh", ["last_unrecorded"], "never recorded", True),
    "never begun": (but(last=None, proven=False), "fresh", ["never_begun"], "n1", False),
    "other protocol": (but(other_protocol="stream-json"), "fresh", ["other_protocol"], "stream-json", False),
    "no reader": (but(store=None), "fresh", ["store_unknown"], "demo", False),
    "missing": (but(store=store("no_transcript")), "fresh", ["no_transcript"], "no_transcript", False),
    "shrunk": (but(store=store("shrunk")), "fresh", ["shrunk"], "shrunk", False),
    "torn": (but(store=store("torn_tail")), "fresh", ["torn_tail"], "torn_tail", False),
    "forked": (but(store=store("forked_history")), "fresh", ["forked_history"], "two processes", False),
    "broken": (but(store=store("missing_parent")), "fresh", ["missing_parent"], "missing_parent", False),
    "ambiguous": (but(store=store("ambiguous_store")), "fresh", ["ambiguous_store"], "which", False),
    "destroys": (
        but(store=store(problems=[RESET], sound=False)),
        "fresh",
        ["resume_destroys_history"],
        "it would be reset",
        False,
    ),
    "unfinished": (
        but(store=store("turn_unfinished")),
        "fresh",
        ["turn_unfinished"],
        "turn_unfinished",
        True,
    ),
    "unsound": (but(store=store("odd")), "fresh", ["odd"], "odd", False),
    "unsound without a word": (but(store=store(sound=False)), "fresh", ["store_unsound"], "", False),
    "failed at a terminal behind our task": (
        but(store=store("ended_in_api_error")),
        "resume",
        ["ended_in_api_error"],
        "safe",
        False,
    ),
    "sound with a remark": (but(store=store("index_stale", sound=True)), "resume", ["sound"], "", False),
    "dangling": (
        but(store=store("dangling_call", dangling=[{"call": "c1", "name": "shell", "input": {}}])),
        "fresh",
        ["dangling_call"],
        "shell",
        True,
    ),
    "dangling, not listed": (but(store=store("dangling_call")), "fresh", ["dangling_call"], "", True),
    "several": (
        but(store=store("bad_line", "missing_parent", "orphan_result")),
        "fresh",
        ["bad_line", "missing_parent", "orphan_result"],
        "bad_line",
        False,
    ),
    "gap": (but(gaps=(GAP,)), "fresh", ["result_not_in_history"], "shell make", True),
    "gap and trusted": (
        but(gaps=(GAP,), trusted=True),
        "fresh",
        ["result_not_in_history"],
        "shell make",
        True,
    ),
    "gap of a call and its result": (
        but(gaps=(MemoryGap("tool_progress", 6, "c1", "shell make"), GAP)),
        "fresh",
        ["effect_not_in_history"],
        "shell make",
        True,
    ),
    "gap of a prompt": (
        but(gaps=(MemoryGap("user", 3, None, "and now?"),)),
        "fresh",
        ["prompt_not_in_history"],
        "and now?",
        True,
    ),
    "gap in the turn that was cut short": (
        but(last=LastTask("t1", "interrupted"), store=store("no_reply"), gaps=(CUT_GAP,)),
        "fresh",
        ["last_interrupted", "no_reply", "effect_not_in_history"],
        "t1",
        True,
    ),
    "gap in the turn that was cut short, and before": (
        but(last=LastTask("t1", "interrupted"), gaps=(GAP, CUT_GAP)),
        "fresh",
        ["last_interrupted", "result_not_in_history", "effect_not_in_history"],
        "t1",
        True,
    ),
    "folder gone": (but(folder=FolderState("/work", False)), "fresh", ["folder_gone"], "/work", False),
    "worktree gone": (
        but(folder=FolderState("/work", False, True)),
        "fresh",
        ["worktree_gone"],
        "/work",
        False,
    ),
    "other branch": (
        but(folder=FolderState("/work", True, False, "main", "topic")),
        "fresh",
        ["other_branch"],
        "topic",
        False,
    ),
    "same branch": (
        but(folder=FolderState("/work", True, False, "main", "main")),
        "resume",
        ["sound"],
        "",
        False,
    ),
    "branch not known": (
        but(folder=FolderState("/work", True, False, None, "x")),
        "resume",
        ["sound"],
        "",
        False,
    ),
    "other folder": (but(store=store(cwd="/elsewhere")), "fresh", ["other_folder"], "/elsewhere", False),
    "other folder wanted": (but(wanted="/wanted"), "fresh", ["other_folder"], "/wanted", False),
    "failed once": (but(failures=("exit 1",)), "resume", ["sound"], "", False),
    "failed in two ways": (but(failures=("exit 1", "no such id")), "resume", ["sound"], "", False),
    "failed twice": (
        but(failures=("process 1 died", "no such id", "process 22 died")),
        "fresh",
        ["resume_failed"],
        "died",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_row(name: str) -> None:
    facts, action, codes, word, brief = CASES[name]
    found = judge(facts)
    assert (found.action, [reason.code for reason in found.reasons]) == (action, codes)
    first = found.reasons[0]
    assert word in first.text and "{" not in reasons_text(found)
    why = sentence_of(found, first)
    assert first.text.startswith(f"{why}. ") and "{" not in first.text, "it ends with what to do next"
    assert reasons_text(found).startswith(why) and first.text not in reasons_text(found)
    assert wants_brief(found) == brief
    assert (found.session, found.token) == (facts.session, facts.token)
    assert set(msgspec.to_builtins(found)) == {"action", "reasons", "session", "token"}


def test_every_row_has_a_case_and_a_code_of_its_own() -> None:
    rows = (*RULES, *SAFE_RULES, ARCHIVED_RULE)
    tested = {row.code for facts, *_ in CASES.values() for row in rows if row.shows(facts)}
    codes = [row.code for row in rows]
    assert tested == set(codes) and len(set(codes)) == len(codes)
    reasons = {code for _, _, codes, _, _ in CASES.values() for code in codes}
    assert {rule_of(code).code for code in reasons} == {*codes} - {"cut_gap"}


def test_every_group_of_problems_has_its_row() -> None:
    assert set(rule_evidence.STORE) <= {row.code for row in RULES}
    named = [code for codes in rule_evidence.STORE.values() for code in codes]
    assert len(set(named)) == len(named) and HARMLESS.isdisjoint(named)


def test_a_copy_is_made_only_where_every_reason_allows_it() -> None:
    cut = but(last=LastTask("t1", "interrupted"))
    assert judge(cut, fork=True).action == "fork"
    assert judge(msgspec.structs.replace(cut, can_fork=False), fork=True).action == "fresh"
    assert judge(msgspec.structs.replace(cut, gaps=(GAP,)), fork=True).action == "fresh"
    assert judge(msgspec.structs.replace(cut, owners=(PROCESS,)), fork=True).action == "wait"
    forgotten = msgspec.structs.replace(cut, gaps=(CUT_GAP,))
    assert judge(forgotten, fork=True).action == "fork", "what it forgot is in no copy, and in the brief"
    assert wants_brief(judge(forgotten, fork=True)) and judge(forgotten).action == "fresh"
    assert judge(msgspec.structs.replace(cut, gaps=(GAP, CUT_GAP)), fork=True).action == "fresh"
    assert judge(resume_facts.SOUND, fork=True).action == "resume"


def test_what_passes_by_itself() -> None:
    assert is_short_wait(judge(CASES["too soon"][0]))
    assert not is_short_wait(judge(CASES["owner"][0])) and not is_short_wait(judge(resume_facts.SOUND))


# --- all combinations

STATUSES = ("queued", "running", "unreachable", "succeeded", "failed", "cancelled", "interrupted")
names = st.text("abc/:4", min_size=1, max_size=6)
processes = st.lists(st.builds(LiveProcess, st.integers(1, 99999), names), max_size=2).map(tuple)
codes = st.sampled_from(
    [*(code for group in rule_evidence.STORE.values() for code in group), *HARMLESS, "odd", "index_stale"]
)
problems = st.builds(
    TranscriptProblem,
    codes,
    names,
    st.sampled_from([{}, {"how": "same_minute", "until": "x"}, {"how": "reset"}]),
)
stores = st.builds(
    lambda sound, problems, dangling, cwd: store(sound=sound, problems=problems, dangling=dangling, cwd=cwd),
    st.booleans(),
    st.lists(problems, max_size=3),
    st.lists(st.fixed_dictionaries({"call": names, "name": names, "input": st.none()}), max_size=1),
    st.sampled_from(["/work", "/elsewhere", None]),
)
facts = st.builds(
    ResumeFacts,
    session=st.just("s1"),
    agent=st.just("demo"),
    token=st.sampled_from(["n1", None]),
    revoked=st.sampled_from([None, "why"]),
    elsewhere=st.sampled_from([None, "host"]),
    waiting=st.lists(names, max_size=2).map(tuple),
    last=st.none() | st.builds(LastTask, names, st.sampled_from(STATUSES), st.booleans(), st.none() | names),
    missing=st.booleans(),
    other_protocol=st.sampled_from([None, "stream-json"]),
    trusted=st.booleans(),
    not_started=st.none() | st.builds(UnstartedTask, names, st.sampled_from(["failed", "cancelled"])),
    crashed=st.sampled_from([None, "hapi: Session crashed"]),
    archived=st.none() | st.builds(ArchiveState, names, names, st.none() | names, st.none() | names),
    proven=st.booleans(),
    failures=st.lists(names, max_size=3).map(tuple),
    store=st.none() | stores,
    owners=processes,
    tools=processes,
    gaps=st.lists(
        st.builds(MemoryGap, st.just("user"), st.integers(1), st.none(), names, st.booleans()), max_size=2
    ).map(tuple),
    folder=st.builds(
        FolderState, st.just("/work"), st.booleans(), st.booleans(), st.sampled_from([None, "a"]), names
    ),
    wanted=st.sampled_from([None, "/work", "/other"]),
    can_fork=st.booleans(),
)


@given(facts, st.booleans())
@settings(max_examples=500)
def test_nothing_unsafe_is_ever_gone_on_with(found: ResumeFacts, fork: bool) -> None:
    verdict = judge(found, fork=fork)
    alive = found.owners or found.tools or found.waiting
    unfinished = found.missing or (
        found.last is not None and found.last.status not in ("succeeded", "failed", "cancelled")
    )
    if alive or unfinished or found.gaps:
        assert verdict.action != "resume"
    if alive:
        assert verdict.action == "wait", "neither does a copy or a new run begin beside what still runs"
    if verdict.action == "resume":
        assert found.token is not None and found.store is not None and not found.store.dangling
        assert found.proven and found.folder.there and found.elsewhere is None
        assert found.last is None or found.last.status == "succeeded" or found.trusted or found.last.answered
        _says_only_what_is_true(found, {reason.code for reason in verdict.reasons})
    if verdict.action == "fork":
        assert all(gap.cut for gap in found.gaps), "a copy would lack what was done in a whole turn"
    assert verdict.reasons and all(reason.code and reason.text for reason in verdict.reasons)
    assert verdict == judge(found, fork=fork), "the same facts give the same verdict"


def _says_only_what_is_true(found: ResumeFacts, said: set[str]) -> None:
    """Why it is safe: each reason holds, and none but a success is called one."""
    status = None if found.last is None else found.last.status
    assert found.store is not None
    stored = {problem.code for problem in found.store.problems}
    clean = "ended_in_api_error" not in stored and found.not_started is None
    assert ("sound" in said) == (status == "succeeded" and clean)
    assert ("trusted" in said) == (status in ("cancelled", "failed") and found.trusted)
    assert ("failed_with_answer" in said) == (status == "failed" and not found.trusted)
    assert ("adopted_sound" in said) == (status is None and "ended_in_api_error" not in stored)
    assert ("last_not_started" in said) == (found.not_started is not None)
    assert ("archived" in said) == (found.archived is not None)
    assert found.crashed is None and said - {"archived"}
    if "interrupted_on_purpose" in stored:
        assert found.trusted


def test_an_archived_session_names_the_ways_back() -> None:
    away = but(archived=ArchiveState("ann", "it continues in s2", "k", "s2"))
    text = judge(away).reasons[-1].text
    for words in (
        "by ann: it continues in s2",
        "`holdfast resume s1 --anyway` brings it back and takes the key k back from session s2",
        "`holdfast resume s1 --fork`",
    ):
        assert words in text, text
    assert judge(away).reasons[-1].evidence["holder"] == "s2"
    no_copy = msgspec.structs.replace(away, gaps=(GAP,))
    assert "--fork" not in judge(no_copy).reasons[-1].text and "--anyway" in judge(no_copy).reasons[-1].text
    free = msgspec.structs.replace(away, archived=ArchiveState("ann", "", "k", None))
    assert "takes the key" not in judge(free).reasons[-1].text


@given(facts)
@settings(max_examples=200)
def test_one_more_thing_that_is_wrong_never_makes_it_safer(found: ResumeFacts) -> None:
    rank = ("resume", "fork", "fresh", "wait")
    before = rank.index(judge(found).action)
    for worse in (
        {"gaps": (GAP,)},
        {"owners": (PROCESS,)},
        {"missing": True},
        {"store": store("torn_tail")},
        {"last": LastTask("t1", "interrupted"), "trusted": True},
    ):
        after = rank.index(judge(msgspec.structs.replace(found, **worse)).action)
        assert after >= min(before, rank.index("fresh"))


def test_every_rule_says_what_to_do_next() -> None:
    """The archived rule names its commands itself, since they depend on the session."""
    assert {*NEXT_STEPS} == {rule.code for rule in (*RULES, *SAFE_RULES)}
