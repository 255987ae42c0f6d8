"""A prompt that has to wait for leftover processes takes no run slot, says why, and its wait has a bound."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.spool.task_dir import Spool
from tests.hub.asking import get
from tests.hub.running_hub import RunningHub, running
from tests.hub.test_up import until_mirrored

GATE = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done"}
SAY = {"say": "done"}
CONFIG = "[run]\nat_once = 1\n"


@pytest.fixture
def one_slot(home: Home, tmp_path: Path) -> Iterator[RunningHub]:
    """A hub that runs one task at a time."""
    with running(home, str(tmp_path / "work"), CONFIG) as found:
        yield found


def leave_a_process(hub: RunningHub, key: str) -> dict[str, str]:
    """A task whose agent was killed and whose tool still runs."""
    folder = Path(hub.terminal.cwd) / key
    folder.mkdir()
    made = hub.terminal.detached(GATE, words=["--key", key, "--cwd", str(folder)])
    hub.terminal.until_event(made["session"], "tool_progress")
    ident = hub.terminal.until(lambda: Spool(hub.terminal.home.task(made["task"])).agent())
    os.kill(ident.pid, signal.SIGKILL)
    assert hub.terminal.ended(made["task"])["status"] == "interrupted"
    return made


def waiting(hub: RunningHub, key: str, *words: str) -> dict[str, Any]:
    """A prompt behind leftover processes, once it waits."""
    made = hub.terminal.detached(SAY, words=["--key", key, "--queue", *words])
    found: dict[str, Any] = hub.terminal.until(
        lambda: (task := hub.terminal.task(made["task"]))["status"] == "waiting" and task
    )
    return found


def after(hub: RunningHub, task: dict[str, Any]) -> dict[str, Any]:
    """The task that goes on with it in a fresh session, once it has ended."""
    ended = hub.terminal.ended(task["id"])
    return hub.terminal.ended(ended["outcome"]["moved_to"]["task"])


def test_waiting_tasks_stop_nobody_and_survive_a_killed_hub_and_a_deleted_database(
    one_slot: RunningHub,
) -> None:
    hub, terminal = one_slot, one_slot.terminal
    dead = [leave_a_process(hub, key) for key in ("a", "b")]
    held = [waiting(hub, key) for key in ("a", "b")]
    assert terminal.run(SAY)["status"] == "succeeded", "both wait, and the only slot is free"
    for one, cut in zip(held, dead, strict=True):
        assert (one["owner"], one["delivery"], one["waiting_for"]["cause"]) == (None, "waiting", "leftovers")
        assert f"`holdfast cancel {cut['task']}` ends them" in one["waiting_for"]["text"]
        shown = get(hub, f"/api/tasks/{one['id']}")["waiting_for"]
        assert (shown["cause"], shown["since"]) == ("leftovers", one["waiting_for"]["since"])
    told = terminal.give("tasks", "--status", "waiting").stdout
    assert all(f"{one['id']} waits: " in told for one in held)
    assert "holdfast cancel" in terminal.give("ls").stdout
    assert "waits " in terminal.give("show", held[0]["session"]).stdout
    for one in held:
        until_mirrored(hub, one["session"])  # what no mirror has is gone with the database
    hub.kill()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        os.unlink(os.path.join(terminal.home.path, name))
    hub.start()
    again = [terminal.task(one["id"]) for one in held]
    assert [(one["status"], one["waiting_for"]["since"]) for one in again] == [
        ("waiting", one["waiting_for"]["since"]) for one in held
    ]
    terminal.give("cancel", dead[0]["task"])  # ends the leftovers of the first
    assert after(hub, held[0])["status"] == "succeeded"
    terminal.give("cancel", held[1]["id"])
    assert terminal.ended(held[1]["id"])["status"] == "cancelled"


def test_the_time_limit_bounds_the_wait(one_slot: RunningHub) -> None:
    leave_a_process(one_slot, "a")
    held = waiting(one_slot, "a", "--time-limit", "2")
    ended = one_slot.terminal.ended(held["id"])
    assert ended["status"] == "cancelled" and "time limit of 2 s" in ended["reason"]


@pytest.mark.parametrize("leftovers", ["end", "ignore"])
def test_after_its_time_the_policy_starts_it_fresh(home: Home, tmp_path: Path, leftovers: str) -> None:
    with running(home, str(tmp_path / "work"), CONFIG + "leftovers_s = 1\n") as hub:
        cut = leave_a_process(hub, "a")
        held = waiting(hub, "a", "--leftovers", leftovers)
        assert after(hub, held)["status"] == "succeeded"
        codes = [e["body"].get("code") for e in hub.terminal.log(cut["session"]) if e["kind"] == "notice"]
        assert ("leftovers_ended" if leftovers == "end" else "leftovers_ignored") in codes


def test_after_its_time_a_person_is_asked(home: Home, tmp_path: Path) -> None:
    with running(home, str(tmp_path / "work"), CONFIG + "leftovers_s = 1\n") as hub:
        leave_a_process(hub, "a")
        held = waiting(hub, "a")
        hub.terminal.until(lambda: hub.terminal.task(held["id"])["waiting_for"]["cause"] == "person")
        (Path(hub.terminal.cwd) / "a" / "gate").touch()
        assert after(hub, held)["status"] == "succeeded"


def fill_the_slot(hub: RunningHub) -> str:
    """A task that takes the only slot until its gate opens."""
    folder = Path(hub.terminal.cwd) / "busy"
    folder.mkdir()
    made = hub.terminal.detached(GATE, words=["--key", "busy", "--cwd", str(folder)])
    hub.terminal.until_event(made["session"], "tool_progress")
    return made["task"]


def end_busy(hub: RunningHub, busy: str) -> None:
    assert hub.terminal.task(busy)["status"] == "running", "the slot was full all the time"
    (Path(hub.terminal.cwd) / "busy" / "gate").touch()
    assert hub.terminal.ended(busy)["status"] == "succeeded"


def test_a_wait_ends_while_all_slots_are_full(one_slot: RunningHub) -> None:
    leave_a_process(one_slot, "a")
    held = waiting(one_slot, "a")
    busy = fill_the_slot(one_slot)
    (Path(one_slot.terminal.cwd) / "a" / "gate").touch()
    moved = one_slot.terminal.ended(held["id"])["outcome"]["moved_to"]["task"]
    assert one_slot.terminal.task(moved)["status"] == "queued"
    end_busy(one_slot, busy)
    assert one_slot.terminal.ended(moved)["status"] == "succeeded"


def test_a_wait_is_bounded_while_all_slots_are_full(one_slot: RunningHub) -> None:
    hub, terminal = one_slot, one_slot.terminal
    leave_a_process(hub, "a")
    leave_a_process(hub, "b")
    ends, asks = waiting(hub, "a", "--leftovers", "end"), waiting(hub, "b")
    busy = fill_the_slot(hub)
    hub.kill()
    terminal.config(CONFIG + "leftovers_s = 1\n")
    hub.start()
    moved = terminal.ended(ends["id"])["outcome"]["moved_to"]["task"]
    terminal.until(lambda: terminal.task(asks["id"])["waiting_for"]["cause"] == "person")
    terminal.give("cancel", asks["id"])
    end_busy(hub, busy)
    assert terminal.ended(moved)["status"] == "succeeded"
