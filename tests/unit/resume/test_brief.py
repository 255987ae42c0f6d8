"""The brief: what it says, and that it is bounded whatever happened."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.git.commands import Changes
from holdfast.model.event import Event
from holdfast.model.task import Task
from holdfast.resume.brief import (
    BEGINS,
    ENDS,
    LIMIT,
    BriefCall,
    InterruptedRun,
    brief,
    interrupted_task,
    with_prompt,
)
from holdfast.resume.environment import LiveProcess

TASK = Task("t1", "s1", "Deploy it\nand test", "interrupted", "2026", "accepted", reason="signal 9")


def events(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event(seq, kind, body, "2026", "t1") for seq, (kind, body) in enumerate(told, 1)]


def call(name: str, command: str) -> tuple[str, dict[str, Any]]:
    return "tool_progress", {"call": name, "name": "Bash", "input": {"command": command}}


def end(name: str, outcome: str) -> tuple[str, dict[str, Any]]:
    return "tool_summary", {"call": name, "name": "Bash", "outcome": outcome, "output": "…"}


def ask(name: str, answer: str | None) -> tuple[str, dict[str, Any]]:
    return "permission", {"ask": f"a-{name}", "call": name, "name": "Bash", "answer": answer}


LOG = events(
    ("user", {"text": "Deploy it\nand test"}),
    ("assistant", {"text": "I begin."}),
    call("c1", "make build"),
    end("c1", "ok"),
    call("c2", "make check"),
    end("c2", "error"),
    call("c3", "make deploy"),
    end("c3", "interrupted"),
    call("c4", "make drop"),
    ask("c4", None),
    end("c4", "interrupted"),
    call("c5", "make push"),
    ask("c5", None),
    ask("c5", "allow"),
    end("c5", "interrupted"),
    ("assistant", {"text": "Deploying now."}),
)


def test_what_is_said() -> None:
    text = brief(
        interrupted_task(
            TASK,
            ["Plan it", "two", "three", "four", "five"],
            LOG,
            running=(LiveProcess(77, "/bin/sh -c make deploy"),),
            folder="/work",
            changes=Changes(changed={"a.py": "1"}, untracked={"b.py": "2"}, head="abcdef", branch="main"),
        )
    )
    for words in (
        "Task t1 of session s1 was interrupted: signal 9.",
        "> Deploy it\n> and test",
        "- Plan it\n- 1 more\n- three\n- four\n- five",
        "- Bash make build: ok",
        "- Bash make check: error",
        "- Bash make deploy: still runs as sh -c make deploy (77)",
        "- Bash make drop: it waited for a permission, and has not run",
        "- Bash make push: processes of that run are still there",
        "> Deploying now.",
        "On main at abcdef.",
        "Changed: a.py",
        "Untracked: b.py",
        "1. whether the processes",
        "2. what the half-done calls",
        "3. the uncommitted changes",
    ):
        assert words in text, (words, text)
    assert text.startswith(BEGINS) and text.endswith(ENDS)
    assert with_prompt(text, "Go on").endswith("\n\nGo on")


def test_of_another_task_nothing_is_told() -> None:
    other = Event(99, "assistant", {"text": "not mine"}, "2026", "t2")
    replayed = Event(0, "assistant", {"text": "long ago"}, "2026", "t1", True)
    assert interrupted_task(TASK, [], [replayed, *LOG, other]).said == "Deploying now."
    assert interrupted_task(TASK, [], [replayed]).said is None
    recorded = Event(100, "tool_summary", {"call": "c3", "name": "Bash", "outcome": "ok"}, "2026", "t1", True)
    assert "make deploy: ok" in brief(interrupted_task(TASK, [], [*LOG, recorded])), (
        "its own store told how it ended"
    )


def test_where_nothing_was_done_and_nothing_is_known() -> None:
    text = brief(interrupted_task(TASK, [], []))
    assert "no tool call of it has ended" in text and "The state of" not in text
    told = interrupted_task(TASK, [], [], folder="/w", changes=Changes(problem="no git"))
    assert "git could not be asked: no git" in brief(told)
    assert "Nothing is uncommitted" in brief(
        interrupted_task(TASK, [], [], folder="/w", changes=Changes(head="a"))
    )


words = st.text(max_size=3000)


@given(
    st.builds(
        InterruptedRun,
        session=st.just("s1"),
        task=st.just("t1"),
        status=st.sampled_from(["interrupted", "cancelled", "failed"]),
        reason=st.none() | words,
        asked=words,
        before=st.lists(words, max_size=9).map(tuple),
        calls=st.lists(
            st.builds(BriefCall, words, st.none() | words | st.dictionaries(words, words, max_size=2)),
            max_size=40,
        ).map(tuple),
        said=st.none() | words,
        running=st.lists(st.builds(LiveProcess, st.integers(1), words), max_size=30).map(tuple),
        folder=st.none() | words,
    )
)
def test_it_is_bounded_and_ends_where_it_says(story: InterruptedRun) -> None:
    text = brief(story)
    assert len(text) <= LIMIT and text.startswith(BEGINS) and text.endswith(ENDS)
