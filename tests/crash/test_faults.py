"""Faults of every kind at any moment: no prompt is lost or run twice, and the log tells what happened.

25 faults by default; half of HOLDFAST_TORTURE if that is more, with seeds of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash import fault_campaign, fault_oracle, run_support
from tests.crash.fault_campaign import PER_ROUND, Round
from tests.crash.fault_oracle import Promise
from tests.crash.faults import Place
from tests.crash.support import TORTURE, scratch, torture_seed
from tests.crash.test_kill_loop import run

ROUNDS = max(1, -(-(TORTURE // 2) // PER_ROUND))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_oracle_agrees_after_faults_of_every_kind(number: int) -> None:
    seed = 1 + number if not TORTURE else torture_seed(number)
    with scratch() as folder:
        seen = run("fault_campaign", folder, PER_ROUND, seed)
    assert seen["faults"] >= PER_ROUND and seen["tasks"] > PER_ROUND // 2, seen


# --- The oracle itself: each kind of lie is seen.


class Case:
    """A home whose tasks have ended, which a test falsifies."""

    def __init__(self, home: fault_oracle.Home, promises: list[Promise]):
        self.home = home
        self.promises = promises
        self.database = os.path.join(home.path, "state.db")

    def judge(self) -> fault_oracle.Judged:
        return fault_oracle.judge(self.home, self.promises)

    def sql(self, statement: str) -> None:
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            assert db.execute(statement).rowcount > 0

    def mirror(self) -> Path:
        return next(Path(self.home.path, "sessions").glob("*.jsonl"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder = str(tmp_path_factory.mktemp("sound"))
    place = Place(os.path.join(folder, "place"))
    home = run_support.made(os.path.join(place.disk, "home"))
    calm = Round(place, home, random.Random(2))
    try:
        calm.finish()
    finally:
        calm.close()
    yield Case(fault_oracle.Home(home.path, place.effects, place.agent_store), calm.promises)
    shutil.rmtree(folder)


@pytest.fixture
def case(sound: Case, tmp_path: Path) -> Case:
    copy = tmp_path / "copy"
    shutil.copytree(sound.home.path, copy / "home")
    shutil.copy(sound.home.effects, copy / "effects")
    shutil.copytree(sound.home.agent_store, copy / "store")
    home = fault_oracle.Home(str(copy / "home"), str(copy / "effects"), str(copy / "store"))
    return Case(home, sound.promises)


def test_a_sound_home_is_accepted(case: Case) -> None:
    judged = case.judge()
    assert judged.statuses == {"succeeded": len(case.promises)}
    assert judged.effects == sum(len(promise.effects) for promise in case.promises) > 0


def lose_effect(case: Case) -> None:
    lines = fault_oracle.read_lines(case.home.effects)
    Path(case.home.effects).write_text("".join(line + "\n" for line in lines[1:]))


def repeat_effect(case: Case) -> None:
    with open(case.home.effects, "a") as file:
        file.write(fault_oracle.read_lines(case.home.effects)[0] + "\n")


def shorten_mirror(case: Case) -> None:
    data = case.mirror().read_bytes()
    case.mirror().write_bytes(data[: data[:-1].rfind(b"\n") + 1])


def alter_mirror(case: Case) -> None:
    case.mirror().write_bytes(case.mirror().read_bytes().replace(b"the end of", b"the END of"))


def take_prompt_twice(case: Case) -> None:
    first = next(Path(case.home.agent_store).glob("*.jsonl"))
    shutil.copy(first, first.with_name("again.jsonl"))


def lose_output(case: Case) -> None:
    for path in Path(case.home.path, "tasks", case.promises[0].task).glob("stdout*"):
        path.unlink()


LIES: dict[str, tuple[Callable[[Case], None], str]] = {
    "effect lost": (lose_effect, "and it did not"),
    "effect twice": (repeat_effect, "happened 2 times"),
    "mirror short": (shorten_mirror, "the mirror of"),
    "mirror other": (alter_mirror, "the END of"),
    "prompt twice": (take_prompt_twice, "took the prompt 2 times"),
    "output lost": (lose_output, "the agent wrote"),
    "event lost": (
        lambda case: case.sql("delete from log where kind = 'tool_progress' and id % 2 = 0"),
        "the header of|has gaps",
    ),
    "task lost": (
        lambda case: case.sql("delete from task where place = (select min(place) from task)"),
        "lost",
    ),
    "status wrong": (
        lambda case: case.sql("update task set status = 'interrupted' where id = (select min(id) from task)"),
        "the log and the task differ",
    ),
    "delivery wrong": (lambda case: case.sql("update task set delivery = 'sent'"), "delivery sent"),
}


@pytest.mark.parametrize("lie", LIES)
def test_the_oracle_sees_a_lie(case: Case, lie: str) -> None:
    falsify, told = LIES[lie]
    falsify(case)
    with pytest.raises(AssertionError, match=told):
        case.judge()


def test_a_failure_names_its_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("lost")

    monkeypatch.setattr(fault_campaign, "run_round", fail)
    with pytest.raises(AssertionError):
        fault_campaign.main(str(tmp_path), 25, 77)
    assert f"fault_campaign FOLDER {PER_ROUND} 77" in capsys.readouterr().err
