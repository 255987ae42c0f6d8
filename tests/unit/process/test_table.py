"""Which processes are a task's, and which only look so."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ids
from holdfast.process import identity, psutil_backend
from holdfast.process import table as tree
from holdfast.process.table import MARK, Process
from tests.crash.spool_support import SYSTEM_PATH, child, running, until

SHIM = Process(10, 1, 100.0, 10, "shim")
AGENT = Process(11, 10, 101.0, 10, "agent")
TOOL = Process(12, 11, 102.0, 12, "tool in a session of its own")
CHILD = Process(13, 12, 103.0, 12, "its child")
STRANGER = Process(50, 1, 50.0, 50, "somebody else's")
ALL = [SHIM, AGENT, TOOL, CHILD, STRANGER]


def table(*processes: Process) -> dict[int, Process]:
    return {p.pid: p for p in processes}


def pids(processes: list[Process]) -> set[int]:
    return {p.pid for p in processes}


def belonging(
    now: dict[int, Process],
    known: list[Process],
    marks: dict[int, str] | None = None,
    but: tuple[int, ...] = (),
) -> set[int]:
    return pids(tree.belonging(now, marks or {}, "t", known, but))


def test_descendants_are_children_and_theirs() -> None:
    assert tree.descendants(table(*ALL), 11) == [TOOL, CHILD]
    assert tree.descendants(table(*ALL), 99) == []


def test_a_child_older_than_its_parent_is_not_its_child() -> None:
    """The parent's pid was reused while the table was read."""
    late = AGENT._replace(started=500.0)
    assert tree.descendants(table(late, TOOL), 11) == []


def test_a_circle_of_parents_ends() -> None:
    one, two = Process(1, 2, 1.0, 1, ""), Process(2, 1, 1.0, 1, "")
    assert pids(tree.descendants(table(one, two), 1)) == {2}


def test_known_ones_and_what_is_below_them_survive() -> None:
    assert belonging(table(TOOL, CHILD, STRANGER), [SHIM, AGENT, TOOL]) == {12, 13}


def test_a_reused_pid_is_not_a_survivor() -> None:
    reused = [p._replace(started=p.started + 1000, session=99, ppid=1) for p in (SHIM, AGENT, TOOL)]
    assert belonging(table(*reused), [SHIM, AGENT, TOOL]) == set()


def test_the_session_of_a_dead_shim_is_still_the_tasks() -> None:
    orphan = Process(20, 1, 200.0, 10, "started after the last look, and its parent has gone")
    assert belonging(table(orphan, STRANGER), [SHIM]) == {20}


def test_a_session_whose_number_another_has_now_is_not() -> None:
    leader = Process(10, 1, 900.0, 10, "a new process with the shim's pid")
    member = Process(21, 10, 901.0, 10, "its child")
    assert belonging(table(leader, member), [SHIM]) == set()


def test_a_session_that_a_known_one_does_not_lead_is_not_swept() -> None:
    """A known process in the session of a user's terminal does not make the terminal a survivor."""
    shell = Process(30, 1, 10.0, 30, "a user's shell")
    known = Process(31, 30, 20.0, 30, "known")
    assert belonging(table(shell, known), [known]) == {31}


def test_what_carries_another_tasks_mark_is_that_tasks() -> None:
    """An agent that ran Holdfast: the inner task is not the outer one's to end, nor what is below it."""
    inner = Process(14, 12, 104.0, 14, "the inner shim")
    below = Process(15, 14, 105.0, 14, "the inner agent, its environment unreadable")
    now = table(*ALL, inner, below)
    assert belonging(now, [SHIM], {11: "t", 12: "t", 14: "other"}) == {10, 11, 12, 13}


def test_those_excepted_are_left_out_but_what_is_below_them_is_not() -> None:
    assert belonging(table(*ALL), [SHIM], but=(10, 12)) == {11, 13}


PROCESSES = st.builds(
    Process,
    st.integers(1, 12),
    st.integers(0, 12),
    st.integers(1, 6).map(float),
    st.integers(1, 12),
    st.just(""),
)


@settings(deadline=None)
@given(
    st.lists(PROCESSES, max_size=10),
    st.lists(PROCESSES, max_size=4),
    st.dictionaries(st.integers(1, 12), st.sampled_from(["t", "u"])),
    st.sets(st.integers(1, 12), max_size=3),
)
def test_nothing_is_named_without_a_reason(
    processes: list[Process], known: list[Process], marks: dict[int, str], but: set[int]
) -> None:
    now = table(*processes)
    marks = {pid: mark for pid, mark in marks.items() if pid in now}
    found = tree.belonging(now, marks, "t", known, but)
    assert all(now[p.pid] == p for p in found)
    assert not pids(found) & but
    assert len(pids(found)) == len(found)
    identities = {(p.pid, p.started) for p in known}
    led = {p.pid for p in [*known, *found, *processes] if p.pid == p.session}
    whole = pids(tree.belonging(now, marks, "t", known, ()))
    for process in found:
        assert marks.get(process.pid) != "u"
        assert (
            marks.get(process.pid) == "t"
            or (process.pid, process.started) in identities
            or process.session in led
            or process.ppid in whole
        )
    expected = {p.pid for p in processes if now[p.pid] == p and marks.get(p.pid) == "t"} - but
    assert expected <= pids(found)


@pytest.mark.parametrize("look", [tree.table, lambda: {p.pid: p for p in psutil_backend.look()}])
def test_the_table_has_every_process_but_zombies(look: object) -> None:
    assert callable(look)
    with child(["sleep", "60"]) as sleeper, child(["true"]) as ended:
        until(lambda: identity.started(ended.pid) is None)
        until(lambda: look()[sleeper.pid].command == "sleep 60", "its command line")
        found = look()
        assert found[sleeper.pid].ppid == os.getpid()
        assert found[sleeper.pid].session == os.getsid(0)
        assert found[os.getpid()].pid == os.getpid()
        assert ended.pid not in found
        assert pids(tree.descendants(tree.table(), os.getpid())) >= {sleeper.pid}


def test_a_command_line_is_readable_and_short() -> None:
    with child(["sh", "-c", "sleep 60; #\n\x1b[31m" + "x" * 5000]) as process:
        until(lambda: tree.table()[process.pid].command.startswith("sh -c"), "its command line")
        command = tree.table()[process.pid].command
    assert len(command) == 500
    assert command.startswith("sh -c sleep 60; # [31mxxx")
    assert command.isprintable()


def test_a_mark_is_the_whole_variable() -> None:
    task = ids.new(ids.TASK)
    ours = {MARK: task, "PATH": SYSTEM_PATH}
    nearly = [{"X": f"{MARK}={task}"}, {MARK: task + "x"}, {"X" + MARK: task}]
    with child(["sleep", "60"], ours) as marked:
        others = [subprocess.Popen(["sleep", "60"], env=env | {"PATH": SYSTEM_PATH}) for env in nearly]
        try:
            until(lambda: pids(tree.marked(tree.table(), task)) == {marked.pid}, "the mark")
            assert psutil_backend.variable(marked.pid, MARK) == task
            for other in others:
                until(lambda pid=other.pid: tree.table()[pid].command == "sleep 60")  # type: ignore[misc]
            assert pids(tree.marked(tree.table(), task)) == {marked.pid}
        finally:
            for other in others:
                other.kill()
                other.wait()


def test_real_survivors_are_found_however_they_left(tmp_path: str) -> None:
    """One marked in a session of its own, one with a clean environment in the shim's session."""
    with running(str(tmp_path)) as run:
        spool = run.start(
            "sh", "-c", "setsid sleep 61 & env -i sleep 62 & setsid env -i sleep 63 & wait", listens=False
        )

        def commands(known: list[Process]) -> set[str]:
            shim = spool.shim()
            but = {shim.pid} if shim else set()
            return {p.command for p in tree.survivors(run.task, known, but) if p.command.startswith("sleep")}

        until(lambda: commands([]) == {"sleep 61", "sleep 62", "sleep 63"}, "all three")
        shim, agent = spool.shim(), run.agent()
        assert shim is not None
        now = tree.table()
        known = [now[shim.pid], *tree.descendants(now, shim.pid)]
        os.kill(agent.pid, 9)
        run.ended()
        assert commands(known) == {"sleep 61", "sleep 62", "sleep 63"}
        assert commands(known[:1]) == {"sleep 61", "sleep 62"}, "63 can only be known from before"
        for process in tree.survivors(run.task, known, ()):
            os.kill(process.pid, 9)
        until(lambda: not tree.survivors(run.task, known, ()), "all to go")
