"""Kill an import at any moment, its processes or the one that leads them: again, it adds what is missing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.home import Home
from holdfast.process import table as tree
from holdfast.transcripts.importer import BATCH
from tests.crash.children import environment, pause
from tests.crash.support import TORTURE, scratch
from tests.support.claude_transcripts import SLUG, Made

ROUNDS = max(2, TORTURE // 20)
KILLS = 8
SESSIONS = 16  # for several processes
LONG = 5  # of these have more than one commit


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transcripts of Claude Code, some of them long."""
    made = tmp_path_factory.mktemp("claude")
    folder = made / "projects" / SLUG
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        transcript = Made(folder, f"{number:08x}-1111-4111-8111-111111111111")
        for turn in range(BATCH if number < LONG else 30):
            transcript.user(f"prompt {turn}")
            transcript.calls(f"call{turn}")
            transcript.returns(f"call{turn}", f"a line of {number}\n" * 10)
            transcript.says("the same words each time")
        transcript.place()
    return made


@pytest.fixture(scope="module")
def undisturbed(root: Path) -> dict[str, Any]:
    """What an import that nobody kills makes of them."""
    with scratch() as folder:
        begun = time.monotonic()
        process = start(root, folder)
        assert process.wait() == 0
        return {"logs": logs(folder), "took_s": time.monotonic() - begun}


def start(root: Path, home: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
    env = {**environment(), "HOLDFAST_HOME": home, "CLAUDE_CONFIG_DIR": str(root)}
    words = [sys.executable, "-m", "holdfast", "import", "claude"]
    return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True)


def asked(home: str, *words: str) -> list[Any]:
    env = {**environment(), "HOLDFAST_HOME": home}
    command = [sys.executable, "-m", "holdfast", *words, "--json"]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def logs(home: str) -> dict[str, list[Any]]:
    """What each native session came to; fails if one was taken twice."""
    found: dict[str, list[Any]] = {}
    for header in asked(home, "ls", "--limit", "1000")[0]:
        log = asked(home, "log", header["id"])
        assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
        native_id = log[1]["body"]["native_id"]
        assert native_id not in found, f"{native_id} was taken twice"
        found[native_id] = [
            # Each home is a node of its own, so the host differs.
            (e["kind"], e["body"] | {"host": ""}, e["replayed"], e["origin"], e["at"] if e["origin"] else "")
            for e in log
        ]
    return found


def strike(process: subprocess.Popen[bytes], whom: str, dice: random.Random) -> None:
    """Kill all of an import, only the process that leads it, or one of those that it leads."""
    if whom == "all":
        os.killpg(process.pid, signal.SIGKILL)
        return
    led = hands(process)
    os.kill(dice.choice(led) if whom == "hand" and led else process.pid, signal.SIGKILL)


def hands(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that an import leads."""
    return [found.pid for found in tree.descendants(tree.table(), process.pid)]


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("whom", ["all", "leader", "hand"])
def test_killed_again_and_again_it_comes_to_the_same(
    root: Path, undisturbed: dict[str, Any], whom: str, number: int
) -> None:
    seed = number if not TORTURE else int.from_bytes(os.urandom(4), "big")
    dice = random.Random(f"{seed} {whom}")
    cut_short, reach = 0, undisturbed["took_s"]
    with scratch() as home:
        for _ in range(KILLS):
            process = start(root, home)
            pause(reach * dice.uniform(0.2, 1))
            if process.poll() is None:
                strike(process, whom, dice)
            else:
                reach *= 0.7  # the machine is quicker than it was
            cut_short += process.wait() != 0
        process = start(root, home)  # at once: what the last one left may still be at it
        assert process.wait() == 0
        assert logs(home) == undisturbed["logs"], f"seed {seed}"
        told = asked(home, "doctor", "self")[0]
        assert told["findings"] == [], told
        assert sorted(os.listdir(Home(home).sessions)) == sorted(
            [".lock", *[f"{header['id']}.jsonl" for header in asked(home, "ls", "--limit", "1000")[0]]]
        )
    assert cut_short > 1, f"seed {seed}: nothing was struck"


def test_what_a_killed_import_left_behind_is_waited_for(root: Path, undisturbed: dict[str, Any]) -> None:
    with scratch() as home:
        first = start(root, home)
        while not (left := hands(first)):
            assert first.poll() is None
        for pid in left:
            os.kill(pid, signal.SIGSTOP)
        first.kill()
        first.wait()
        second = start(root, home, stderr=subprocess.PIPE)
        assert second.stderr is not None
        with second.stderr as said:
            try:
                assert b"waiting for another import" in said.readline()
                with pytest.raises(subprocess.TimeoutExpired):
                    second.wait(0.3)
            finally:
                for pid in left:
                    os.kill(pid, signal.SIGCONT)
            assert second.wait() == 0
        assert logs(home) == undisturbed["logs"]
