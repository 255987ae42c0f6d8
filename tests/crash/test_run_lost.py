"""Parts of a task are killed or deleted under it: what is known is told, and nothing is run twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from holdfast import errors
from holdfast.agents.acp.driver import AcpDriver
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.task import ENDED, Owner, Task
from holdfast.process import identity
from holdfast.runner import control, recorder, task_run
from holdfast.runner.recorder import OutputRecorder
from holdfast.spool import archive, reader_deaths
from holdfast.spool.outbox import Outbox
from holdfast.spool.task_dir import Spool
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.crash import children, run_steps, run_support
from tests.crash.run_support import DEADLINE_S, REGISTRY, Running, with_store
from tests.crash.small_disk import SmallDisk
from tests.crash.test_run_steps import prompts_taken
from tests.support import log_oracle as oracle

GATE: dict[str, Any] = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done; echo through"}
END: dict[str, Any] = {"say": "the end"}


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


def codes(log: list[Event], kind: str) -> list[str]:
    return [event.body["code"] for event in log if event.kind == kind]


def is_whole(running: Running, task: Task) -> None:
    events = running.log()
    assert oracle.logged(events, task.id) == oracle.spooled(running.home, task.id, REGISTRY, events)
    assert prompts_taken(running.home) == 1


# --- processes


@pytest.mark.parametrize("also_the_worker", [False, True])
def test_the_shim_alone_is_killed(home: Home, also_the_worker: bool) -> None:
    running = Running(home, GATE, END)
    running.until_event("tool_progress")
    shim = running.spool.shim()
    assert shim is not None
    os.kill(shim.pid, signal.SIGKILL)
    if also_the_worker:
        running.replace_worker()
    running.open_gate()
    task = running.ended()
    assert task.status == "succeeded" and task.outcome is not None and task.outcome["exit"] is None
    relay = Spool(home.task(task.id)).relay()
    assert relay is None or not identity.is_alive(*relay), "it is ended with the task"
    is_whole(running, task)


@pytest.mark.parametrize("also_the_worker", [False, True])
def test_the_relay_alone_is_killed(home: Home, also_the_worker: bool) -> None:
    """Again and again: the permission that waits is still answered, and every death is in the log."""
    running = Running(home, {"tool": "shell", "run": "echo asked", "ask": True}, END)
    running.until_event("permission")
    for number in range(3):
        _kill_relay(running, number)
        if also_the_worker:
            running.replace_worker()
    running.until(lambda: codes(running.log(), "notice").count("relay_restarted") == 3)
    run_support.answer_all(home)
    task = running.ended()
    assert task.status == "succeeded"
    assert [e.body["outcome"] for e in running.log() if e.kind == "tool_summary"] == ["ok"]
    assert codes(running.log(), "notice").count("relay_restarted") == 3
    is_whole(running, task)


def _kill_relay(running: Running, deaths: int) -> None:
    """Kill the relay that was started after so many deaths, and wait for the record of it."""

    def started() -> int:
        with open(running.spool.relays_file) as file:
            return sum(not line.startswith("ended") for line in file)

    running.until(lambda: started() > deaths)
    relay = running.spool.relay()
    assert relay is not None
    os.kill(relay.pid, signal.SIGKILL)
    running.until(lambda: len(running.spool.relay_deaths()) > deaths)


def test_the_relay_and_its_keeper_are_killed(home: Home) -> None:
    """The agent's input ends; the log says why its question was not answered."""
    running = Running(home, {"tool": "shell", "run": "echo asked", "ask": True}, END)
    running.until_event("permission")
    for ident in (running.spool.relay_keeper(), running.until(running.spool.relay)):
        assert ident is not None
        os.kill(ident.pid, signal.SIGKILL)
    task = running.ended()
    assert codes(running.log(), "error") == ["input_lost"], (task, running.log())
    is_whole(running, task)


@pytest.mark.parametrize("whom", ["shim and agent", "all", "all and the worker"])
def test_several_are_killed_at_once(home: Home, whom: str) -> None:
    running = Running(home, {"tool": "shell", "run": "sleep 30.0625"})
    running.until_event("tool_progress")
    found = [running.spool.shim(), running.spool.agent()]
    if whom != "shim and agent":
        found.append(running.spool.relay())
    for ident in found:
        assert ident is not None
        run_support.kill(ident.pid)
    if whom == "all and the worker":
        running.replace_worker()
    task = running.ended()
    assert task.status == "interrupted" and task.outcome is not None
    cut = [e.body for e in running.log() if e.kind == "tool_summary"]
    assert [body["outcome"] for body in cut] == ["interrupted"]
    tool = [s["pid"] for s in task.outcome["survivors"] if s["command"].startswith("sleep")]
    assert tool
    for survivor in task.outcome["survivors"]:
        run_support.kill(survivor["pid"])
    is_whole(running, task)


# --- owners


def test_a_task_of_an_earlier_boot_is_not_attached_to_what_has_its_pids_now(home: Home) -> None:
    running = Running(home, {"say": "x"}, {"sleep": 30})
    running.until_event("user")
    pids = [
        ident.pid for ident in (running.spool.agent(), running.spool.shim(), running.spool.relay()) if ident
    ]
    running.worker.kill()
    for pid in pids:
        run_support.kill(pid)
    running.until(lambda: all(identity.started(pid) is None for pid in pids))
    note = running.spool.launch()
    with open(running.spool.note, "w") as file:
        json.dump({**note, "boot": "earlier"}, file)
    with open(f"/proc/{os.getpid()}/stat") as stat:  # we have that pid now
        line = stat.read()
    for path in (running.spool.agent_file, running.spool.shim_file):
        with open(path, "w") as file:
            file.write(line)
    me = identity.me("here")
    earlier = Owner(me.host, me.pid, me.started, "earlier")
    generation = running.task().generation
    with_store(home, lambda store: store.claim(running.id, generation, earlier, 60.0))
    running.worker = run_support.worker(home)
    assert running.ended().status == "interrupted"


def test_a_stopped_worker_keeps_its_task_and_one_that_lost_it_leaves_the_agent_alone(home: Home) -> None:
    running = Running(home, GATE, {"tool": "shell", "run": "echo asked", "ask": True}, END)
    running.until_event("tool_progress")
    os.kill(running.worker.pid, signal.SIGSTOP)
    before = running.task()
    run_support.worker(home).rest()  # it finds nothing to do, for the owner lives
    assert running.task() == before
    # Another takes it all the same, as if the first one had been thought dead.
    thief = children.start(lambda say: asyncio.run(_steal(home, running.id, say)))
    thief.wait_for_word()
    running.commit(control.cancel_event("ann"))  # which the first one must not pass on now
    sent = os.path.getsize(running.spool.sent)
    os.kill(running.worker.pid, signal.SIGCONT)
    running.worker.rest()  # it notices and leaves
    assert os.path.getsize(running.spool.sent) == sent
    agent = running.spool.agent()
    assert agent is not None and identity.is_alive(*agent)
    thief.kill()
    running.worker = run_support.worker(home)
    task = running.ended()
    assert task.status == "cancelled" and prompts_taken(home) == 1


async def _steal(home: Home, task_id: str, say: Callable[[str], None]) -> None:
    store = await open_store(run_support.location(home), home, REGISTRY.token_rules())
    task = await store.task(task_id)
    assert store.node is not None
    await store.claim(task_id, task.generation, identity.me(store.node.id), 60.0)
    await store.close()
    say("mine")
    await asyncio.sleep(DEADLINE_S)


# --- files


@pytest.mark.parametrize("what", ["folder", "stdout", "note", "torn note"])
@pytest.mark.parametrize("also_the_worker", [False, True])
def test_files_of_a_running_task_are_gone(home: Home, what: str, also_the_worker: bool) -> None:
    """The agent is waited for, never started a second time."""
    running = Running(home, GATE, END)
    running.until_event("tool_progress")
    agent = running.spool.agent()
    assert agent is not None
    if what == "folder":
        shutil.rmtree(running.spool.path)
    elif what == "stdout":
        os.unlink(running.spool.stdout)
    elif what == "note":
        os.unlink(running.spool.note)
    else:
        os.truncate(running.spool.note, 20)
    if also_the_worker:
        running.replace_worker()
    time.sleep(0.5)
    assert running.task().status == "running", "unknown is not dead"
    running.open_gate()
    task = running.ended()
    if "note" in what and not also_the_worker:
        assert task.status == "succeeded"
    else:
        assert task.status == "interrupted" and "gone" in str(task.reason)
        assert codes(running.log(), "error") == ["spool_lost"]
    assert not identity.is_alive(*agent)
    assert prompts_taken(home) == 1


def test_an_output_file_that_is_cut_while_it_is_read(home: Home) -> None:
    """As `echo x > /dev/stdout` of a child does it: told, and what follows is read."""
    wait = "while [ ! -e gate ]; do sleep 0.05; done"
    cut = {"tool": "shell", "run": f"{wait}; f=$(echo tasks/*/stdout); echo x > $f; echo cut"}
    running = Running(home, {"say": "before " * 500}, cut, {"say": "after"}, END)
    running.until_event("tool_progress")
    running.open_gate()
    task = running.ended()
    assert task.status == "succeeded"
    assert codes(running.log(), "error") == ["spool_shrunk"]
    said = [e.body["text"] for e in running.log() if e.kind == "assistant"]
    assert said[0].startswith("before") and said[-1].endswith("the end"), said
    outputs = [e.body["output"] for e in running.log() if e.kind == "tool_summary"]
    assert [output.strip() for output in outputs] == ["cut"]
    assert prompts_taken(home) == 1


@pytest.mark.parametrize("again", [False, True])
def test_an_output_file_that_is_cut_while_nobody_reads_it(home: Home, again: bool) -> None:
    """A driver that did not hear the beginning cannot follow; the agent is let go, and the task ends."""
    running = Running(home, {"say": "before " * 500}, GATE, {"say": "after"}, END)
    running.until_event("tool_progress")
    before = running.log()
    running.worker.kill()
    os.truncate(running.spool.stdout, 0)
    running.worker = run_support.worker(home)
    if again:
        running.until_event("error")
        running.replace_worker()
    running.open_gate()
    task = running.ended()
    assert task.status == "interrupted", task
    assert codes(running.log(), "error") == ["spool_shrunk"]
    assert running.log()[: len(before)] == before
    assert prompts_taken(home) == 1


def test_a_task_without_its_folder_can_be_cancelled(home: Home) -> None:
    running = Running(home, {"tool": "shell", "run": "sleep 30.03125"})
    running.until_event("tool_progress")
    shutil.rmtree(running.spool.path)
    running.until_event("error")
    running.commit(control.cancel_event("ann"))
    assert running.ended().status == "cancelled"


def test_the_database_is_deleted_under_a_worker(home: Home) -> None:
    """What was recorded before and after is in the database that is rebuilt."""
    running = Running(home, {"say": "before"}, GATE, END)
    running.until_event("tool_progress")
    before = [event.body for event in running.log()]
    running.until(lambda: _mirrored(running, len(before)))
    for end in ("", "-wal", "-shm"):
        os.unlink(home.database + end)
    running.until(lambda: os.path.exists(home.database))
    running.open_gate()
    task = running.ended()
    assert task.status == "succeeded"
    assert [event.body for event in running.log()][: len(before)] == before
    is_whole(running, task)


def _mirrored(running: Running, count: int) -> bool:
    with open(running.home.mirror(running.task().session)) as file:
        return len(file.readlines()) >= count


# --- disks


def test_a_full_disk_is_waited_out(small_disk: SmallDisk) -> None:
    home = run_support.made(small_disk.home.path)
    running = Running(home, {"say": "before"}, GATE, {"tool": "shell", "run": "echo two"}, END)
    running.until_event("tool_progress")
    running.open_gate()
    small_disk.fill(leave=12_000)  # room for what the agent says and remembers, not for a commit
    time.sleep(1.5)
    assert running.task().status == "running"
    small_disk.make_room()
    task = running.ended()
    assert task.status == "succeeded"
    is_whole(running, task)


PASSING = [errors.DiskFull, errors.StoreReadOnly, errors.StoreBusy, errors.StoreUnreachable]


@pytest.mark.parametrize("problem", PASSING)
def test_what_passes_is_waited_out_wherever_it_strikes(
    home: Home, problem: type[errors.HoldfastError]
) -> None:
    """Every tenth call or so of anything that a run does fails."""

    def prepare() -> None:
        run_steps.quick()
        rng = Random(1)
        vars(recorder).update(RETRY_S=(0.01,))
        for owner, name in [
            *run_steps.ASYNC,
            (Store, "task_events"),
            (Store, "task"),
            (Store, "turns"),
        ]:
            setattr(owner, name, _failing(getattr(owner, name), problem, rng))
        for owner, name in [(Spool, "make"), (Outbox, "send"), (archive, "compress")]:
            setattr(owner, name, _failing(getattr(owner, name), problem, rng))

    ask = {"tool": "shell", "run": "echo asked", "ask": True}
    running = Running(home, {"say": "words"}, {"tool": "shell", "run": "echo one"}, ask, END, prepare=prepare)
    running.until_event("permission")
    run_support.answer_all(home)
    task = running.ended()
    assert task.status == "succeeded", (task.reason, [(e.kind, e.body) for e in running.log()])
    is_whole(running, task)


def _failing(
    call: Callable[..., Any], problem: type[errors.HoldfastError], rng: Random
) -> Callable[..., Any]:
    def failing(*given: Any, **named: Any) -> Any:
        if rng.random() < 0.1:
            raise problem()
        return call(*given, **named)

    return failing


def test_a_spool_that_a_killed_worker_left_is_put_away_by_a_later_one(home: Home) -> None:
    def prepare() -> None:
        vars(archive).update(compress=lambda spool: os.kill(os.getpid(), signal.SIGKILL))

    running = Running(home, END, prepare=prepare)
    running.until(lambda: running.task().status == "succeeded")
    running.worker.rest()
    assert os.path.exists(running.spool.stdout)
    later = Running(home, END, prepare=run_steps.quick)
    later.until(lambda: os.path.exists(running.spool.stdout + ".gz"))
    later.ended()
    assert not os.path.exists(running.spool.stdout)


# --- output that kills whoever reads it


def test_a_run_whose_output_kills_every_hub_is_set_aside(home: Home) -> None:
    """After three deaths at one line: the task says so, the bytes are kept, and other tasks run."""

    def prepare() -> None:
        run_steps.quick()
        _die_at_line(lambda line, _: b"poison" in line and b"agent_message_chunk" in line)

    running = Running(home, {"say": "before"}, {"say": "poison"}, END, prepare=prepare)
    assert _workers_until_ended(running, prepare) == 5, "the launcher, three that take over, one that lives"
    task = running.task()
    assert task.status == "interrupted" and "set aside" in str(task.reason)
    assert codes(running.log(), "error") == ["set_aside"]
    with archive.open_stdout(running.spool) as file:
        assert b"poison" in file.read() and os.path.exists(running.spool.keep)
    agent = running.spool.agent()
    assert agent is None or not identity.is_alive(*agent)
    (other,) = run_support.queue(home, [run_support.script(END)])
    run_support.undisturbed(home)
    assert with_store(home, lambda store: store.task(other)).status == "succeeded"


@pytest.mark.parametrize("where", ["at another line each time", "before it reads", "while the store waits"])
def test_hubs_that_are_killed_from_outside_set_nothing_aside(home: Home, where: str) -> None:
    """Six hubs are killed after they took the run over and before they have read it all."""
    count = os.path.join(home.path, "count")

    def prepare() -> None:
        run_steps.quick()
        number = os.path.getsize(count) if os.path.exists(count) else 0
        with open(count, "ab") as file:
            file.write(b".")
        if number == 0:  # the launcher dies before it reads anything
            _die_at_line(lambda _, __: True)
        elif number <= 6 and where == "at another line each time":
            _die_at_line(lambda _, lines: lines == number)
        elif number <= 6 and where == "before it reads":
            type.__setattr__(OutputRecorder, "open", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        elif number <= 6:
            _die_in_a_slow_commit()

    running = Running(home, *[{"tool": "shell", "run": f"echo {n}"} for n in range(4)], END, prepare=prepare)
    assert _workers_until_ended(running, prepare) == 8
    task = running.task()
    assert task.status == "succeeded", (task, [(e.kind, e.body) for e in running.log()])
    is_whole(running, task)


def _workers_until_ended(running: Running, prepare: Callable[[], None]) -> int:
    """Start one worker after the other until the task has ended; how many it took."""
    workers = 0
    while workers < 10 and running.task().status not in ENDED:
        if workers:
            running.worker = run_support.worker(running.home, prepare)
        running.worker.rest()
        workers += 1
    return workers


def _die_at_line(is_deadly: Callable[[bytes, int], bool]) -> None:
    """Let this process die when it reads such a line; the second argument counts lines."""
    vars(task_run).update(SUSPECT_S=0.1)
    on_line, lines = AcpDriver.on_line, 0

    def dying(driver: AcpDriver, line: bytes) -> Any:
        nonlocal lines
        lines += 1
        if is_deadly(line, lines):
            os.kill(os.getpid(), signal.SIGKILL)
        return on_line(driver, line)

    type.__setattr__(AcpDriver, "on_line", dying)


def _die_in_a_slow_commit() -> None:
    """Let this process die while it waits for a store that takes long to commit what an agent wrote."""
    vars(task_run).update(SUSPECT_S=0.1)
    vars(reader_deaths).update(COMMIT_S=0.1)
    commit = Store.commit

    async def slow(store: Store, wanted: Commit) -> Any:
        if wanted.spool is not None:
            await asyncio.sleep(reader_deaths.COMMIT_S * 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return await commit(store, wanted)

    type.__setattr__(Store, "commit", slow)


def test_a_worker_that_is_only_killed_often_sets_nothing_aside(home: Home) -> None:
    running = Running(home, {"say": "words"}, GATE, END)
    running.until_event("tool_progress")
    for _ in range(8):
        running.worker.kill()
        running.worker = run_support.worker(home)
        running.worker.wait_for_word()
    running.open_gate()
    task = running.ended()
    assert task.status == "succeeded"
    is_whole(running, task)
