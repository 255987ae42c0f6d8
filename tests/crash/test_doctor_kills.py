"""A doctor is killed, meets another one, or finds no room: nothing is half done, and nothing is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.doctor import operation
from holdfast.doctor.receipts import all_operations
from holdfast.home import Home
from holdfast.peers.hapi.install import HapiInstall
from tests.crash.children import environment
from tests.crash.doctor_campaign import EDITED, Folder, Patientry, leave_in_wal, sick_hermes
from tests.crash.small_disk import SmallDisk
from tests.crash.support import TORTURE
from tests.support.hapi_cases import copied, files, rows

ROUNDS = max(8, TORTURE // 3)  # of each kind


def test_kills_leave_the_old_or_the_new_state_and_a_way_on(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    words = [sys.executable, "-m", "tests.crash.doctor_campaign", str(tmp_path), str(ROUNDS), str(seed)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_of_two_doctors_one_waits_outside_whichever_home_it_has(tmp_path: Path) -> None:
    patients = Patientry(tmp_path, "rows")
    target = patients.begin()
    plan = target.diagnose().fingerprint
    before = files(patients.folder)
    with operation.exclusive(patients.home, target.path):
        for home in (patients.home, Home(str(tmp_path / "another home"))):
            with pytest.raises(errors.StoreBusy, match="another doctor"):
                operation.apply(home, target, plan)
    assert files(patients.folder) == before, "a lock leaves nothing in the folder"
    operation.apply(patients.home, target, plan)


def at_once(words: list[str], tmp_path: Path) -> None:
    """Three of them, each with a home of its own: one does it, and the others say why they did not."""
    running = [
        subprocess.Popen(
            words,
            env={**environment(), "HOLDFAST_HOME": str(tmp_path / f"home-{n}"), "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(3)
    ]
    for process in running:
        process.communicate()
    ends = sorted(process.returncode for process in running)
    assert ends[0] == 0 and set(ends[1:]) <= {4, 6}, ends  # the plan has changed, or the other is at work


def test_two_doctors_at_once_do_it_once(tmp_path: Path) -> None:
    patients = Patientry(tmp_path, "rows")
    target = patients.begin()
    plan = target.diagnose().fingerprint
    words = [sys.executable, "-m", "holdfast", "doctor", "hapi", str(patients.folder), "--apply", plan]
    at_once(words, tmp_path)
    before = rows(patients.folder / "hapi.db", tmp_path / "scratch")
    assert not target.diagnose().plan
    assert rows(patients.folder / "hapi.db", tmp_path / "scratch") == before


def test_the_command_is_killed_at_any_time_and_given_again(tmp_path: Path) -> None:
    patients = Patientry(tmp_path, "hot")
    target = patients.begin()
    old, plan = patients.state(), target.diagnose().fingerprint
    env = {**environment(), "HOLDFAST_HOME": patients.home.path, "HOME": str(patients.folder)}
    words = [sys.executable, "-m", "holdfast", "doctor", "hapi", str(patients.folder), "--apply", plan]
    began = time.monotonic()
    subprocess.run(words, env=env, check=True, capture_output=True)
    takes, new = time.monotonic() - began, patients.state()
    for _ in range(max(3, TORTURE // 4)):
        target = patients.begin()
        before = files(patients.folder)
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            with suppress(subprocess.TimeoutExpired):
                command.wait(random.uniform(takes * 0.3, takes * 1.1))
            command.kill()
        assert patients.state() in (old, new)
        made = [receipt for case in all_operations(patients.home) if (receipt := case.receipt()) is not None]
        receipt = made[0] if made else operation.apply(patients.home, target, plan)
        assert patients.state() == new and not target.diagnose().plan
        operation.undo(patients.home, target, receipt)
        assert files(patients.folder) == before


def test_two_doctors_of_hermes_at_once_do_it_once(tmp_path: Path) -> None:
    target = sick_hermes(tmp_path / "hermes")
    plan = target.diagnose().fingerprint
    words = [sys.executable, "-m", "holdfast", "doctor", "hermes", target.path, "--apply", plan]
    at_once(words, tmp_path)
    assert not target.diagnose().plan
    receipts = [c.receipt() for n in range(3) for c in all_operations(Home(str(tmp_path / f"home-{n}")))]
    (receipt,) = [receipt for receipt in receipts if receipt is not None]
    assert not receipt.problems


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("leave", [0, 100_000, 300_000, 600_000])
def test_a_full_disk_leaves_the_patient_as_it_was(
    small_disk: SmallDisk, leave: int, hot: bool, tmp_path: Path
) -> None:
    folder = Path(small_disk.path) / "hapi"
    path = copied(EDITED, folder)
    if hot:
        leave_in_wal(path)
    target = HapiInstall(str(path), {"HOME": str(folder)})
    plan = target.diagnose().fingerprint
    old = rows(path, tmp_path)
    before = files(folder)
    small_disk.fill(leave)
    try:
        receipt = operation.apply(small_disk.home, target, plan)
    except errors.HoldfastError as problem:
        assert problem.code == "disk_full"
        assert rows(path, tmp_path) == old
        small_disk.make_room()
        receipt = operation.apply(small_disk.home, target, plan)
    else:
        small_disk.make_room()
    operation.undo(small_disk.home, target, receipt)
    assert files(folder) == before


def test_a_disk_that_may_only_be_read_is_looked_at_and_left_alone(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    folder = Path(small_disk.path) / "hapi"
    path = copied(EDITED, folder)
    target, home = HapiInstall(str(path), {"HOME": str(folder)}), Home(str(tmp_path / "home"))
    plan, before = target.diagnose().fingerprint, files(folder)
    with small_disk.read_only():
        assert target.diagnose().fingerprint == plan
        with pytest.raises(errors.StoreReadOnly):
            operation.apply(home, target, plan)
        assert files(folder) == before
    operation.undo(home, target, operation.apply(home, target, plan))
    assert files(folder) == before


def test_a_full_disk_between_files_keeps_what_was_done_and_can_be_undone(small_disk: SmallDisk) -> None:
    folder = Path(small_disk.path) / "files"
    folder.mkdir()
    for number in range(3):
        (folder / f"replace-{number}").write_bytes(b"old" * 5000)
        (folder / f"remove-{number}").write_bytes(b"litter")
    before = files(folder)
    target = Folder(str(folder))
    small_disk.fill(110_000)
    plan = target.diagnose().fingerprint
    try:
        operation.apply(small_disk.home, target, plan)
    except errors.DiskFull:
        assert files(folder) == before
    small_disk.make_room()
    if not any(case.receipt() for case in all_operations(small_disk.home)):
        operation.apply(small_disk.home, target, target.diagnose().fingerprint)
    for case in all_operations(small_disk.home):
        if (receipt := case.receipt()) is not None:
            operation.undo(small_disk.home, target, receipt)
    assert files(folder) == before


@pytest.mark.parametrize("leave", [0, 30_000, 90_000, 110_000, 130_000, 150_000, 200_000])
def test_hermes_on_a_full_disk_is_old_or_new_file_by_file_and_can_be_undone(
    small_disk: SmallDisk, leave: int
) -> None:
    folder = Path(small_disk.path) / "hermes"
    target = sick_hermes(folder)
    before = files(folder)
    plan = target.diagnose().fingerprint
    small_disk.fill(leave)
    receipts = []
    try:
        receipts.append(operation.apply(small_disk.home, target, plan))
    except errors.DiskFull:
        assert files(folder) == before
    small_disk.make_room()
    while (left := target.diagnose()).steps:
        receipts.append(operation.apply(small_disk.home, target, left.fingerprint))
        assert len(receipts) < 5
    assert not left.plan and not receipts[-1].problems
    for receipt in reversed(receipts):
        operation.undo(small_disk.home, target, receipt)
    assert files(folder) == before


def test_a_plan_of_files_that_cannot_be_written_is_refused_whole(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    patients = Patientry(tmp_path, "files")
    target = patients.begin()
    before = files(patients.folder)
    patients.folder.chmod(0o500)
    try:
        with pytest.raises(errors.StoreReadOnly):
            operation.apply(patients.home, target, target.diagnose().fingerprint)
    finally:
        patients.folder.chmod(0o700)
    assert files(patients.folder) == before
