"""The sender, the starter, the shim and the agent are killed at any moment; nothing is lost or doubled.

40 kills of the sender by default; HOLDFAST_TORTURE=1000 sets another number.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.process import identity
from holdfast.process import kill as ending
from holdfast.process import table as tree
from holdfast.spool.outbox import Outbox, close_input
from holdfast.spool.task_dir import Spool
from tests.crash import children
from tests.crash.spool_support import Run, content, gone, running, until
from tests.crash.support import TORTURE

KILLS = max(TORTURE, 40)
STARTS = max(TORTURE // 5, 12)
SEED = int.from_bytes(os.urandom(4), "big") if TORTURE else 1


def script(seed: int) -> list[bytes]:
    """What one driver has to say: short lines, equal lines, a few large ones, the same in every life."""
    choice = random.Random(seed)
    lines = []
    for n in range(60):
        size = choice.choice([1, 20, 300, 5000, 70_000, 1_000_000 if n % 20 == 0 else 10])
        lines.append(choice.choice([b"again", b"%d" % n]) + bytes([97 + n % 26]) * size + b"\n")
    return lines


@pytest.mark.parametrize("number", range(-(-KILLS // 40)))
def test_every_line_arrives_once_and_in_order_however_often_the_sender_is_killed(
    tmp_path: Path, number: int
) -> None:
    choice = random.Random(SEED + number)
    lines = script(SEED + number)
    kills = torn = 0
    with running(str(tmp_path)) as run:
        spool = run.start("cat")
        allowed = 1

        def send(say: Callable[[str], None]) -> None:
            """A life of the sender: all lines from the first, a little further than the life before."""
            box = Outbox(spool.sent)
            say("ready")
            count = 0
            for line in lines:
                count += box.send(line)
                if count == allowed:
                    time.sleep(60)

        while kills < 40:
            allowed = choice.choice([1, 2, 3, len(lines)])
            child = children.start(send)
            child.wait_for_word()
            children.pause(choice.choice([0, 0, choice.uniform(0, 0.002), choice.uniform(0, 0.01)]))
            child.kill()
            kills += 1
            torn += not content(spool.sent).endswith(b"\n")
            if content(spool.sent) == b"".join(lines):
                break
        last = Outbox(spool.sent)
        for line in lines:
            last.send(line)
        expected = b"".join(lines)
        assert content(spool.sent) == expected, f"seed {SEED + number} after {kills} kills, {torn} torn"
        until(lambda: os.path.getsize(spool.stdout) >= len(expected), "all of it")
        close_input(spool)
        assert run.ended() == 0
        assert content(spool.stdout) == expected


def test_a_starter_killed_at_any_moment_started_it_once_or_never(tmp_path: Path) -> None:
    """Recovery learns which by taking the shim's place, or its agent's; a late shim then does nothing."""
    choice = random.Random(SEED)
    seen = {"no note": 0, "prevented": 0, "ran": 0}
    for _ in range(STARTS):
        with running(str(tmp_path)) as run:
            child = children.start(lambda say, run=run: start(run, say))  # type: ignore[misc]
            child.wait_for_word()
            children.pause(choice.uniform(0, 0.008))
            child.kill()
            seen[recovered(run)] += 1
    assert sum(seen.values()) == STARTS


def start(run: Run, say: Callable[[str], None]) -> None:
    say("ready")
    run.spool.make({"n": 1})
    run.spool.start(["sh", "-c", "echo ran; exit 3"], run.env(), "/", True)
    time.sleep(60)


def recovered(run: Run) -> str:
    """What a new process finds out, checked against what happens later."""
    spool = run.spool
    if not spool.launch():
        time.sleep(0.01)
        assert not os.path.exists(spool.shim_file)
        assert not run.left()
        return "no note"
    if spool.prevent():
        until(lambda: not run.left(), "a late shim to end")
        assert content(spool.stdout) == b""
        assert not os.path.exists(spool.agent_file)
        return "prevented"
    assert run.ended() == 3
    assert content(spool.stdout) == b"ran\n"
    return "ran"


def test_who_comes_first_decides_whether_the_agent_runs(tmp_path: Path) -> None:
    choice = random.Random(SEED)
    won = 0
    for _ in range(STARTS):
        with running(str(tmp_path)) as run:
            run.start("sh", "-c", "echo ran; exit 3")
            children.pause(choice.uniform(0, 0.003))
            prevented = run.spool.prevent()
            won += prevented
            assert run.shim is not None
            assert run.shim.wait(20) == (125 if prevented else 0)
            assert content(run.spool.stdout) == (b"" if prevented else b"ran\n")
            assert run.spool.exit_status() == (None if prevented else 3)
            assert not run.left()
    assert won < STARTS


def test_a_shim_killed_while_it_starts_leaves_an_agent_that_is_known_or_none(tmp_path: Path) -> None:
    choice = random.Random(SEED)
    for _ in range(STARTS):
        with running(str(tmp_path)) as run:
            killed_while_starting(run, choice)


def killed_while_starting(run: Run, choice: random.Random) -> None:
    spool = run.start("sh", "-c", "echo ran; sleep 60", listens=choice.random() < 0.5)
    children.pause(choice.uniform(0, 0.008))
    assert run.shim is not None
    run.shim.kill()
    run.shim.wait(20)
    if spool.prevent() or spool.prevent_agent():
        close_input(spool)
        until(lambda: not run.left(), "what the shim had begun to end")
        assert content(spool.stdout) == b""
    else:
        assert identity.is_alive(*run.agent())
        until(lambda: content(spool.stdout) == b"ran\n", "the agent")


def echoing(run: Run) -> Spool:
    spool = run.start("cat")
    Outbox(spool.sent).send(b"one\n")
    until(lambda: content(spool.stdout) == b"one\n", "the first line")
    return spool


def test_a_killed_shim_costs_only_the_exit_status(tmp_path: Path) -> None:
    """Agent and relay go on: lines still arrive, and ending the relay still ends the input."""
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        assert run.shim is not None
        run.shim.kill()
        run.shim.wait(20)
        agent = run.agent()
        Outbox(spool.sent).send(b"two\n")
        until(lambda: content(spool.stdout) == b"one\ntwo\n", "the second line")
        assert identity.is_alive(*agent)
        close_input(spool)
        until(lambda: gone(agent), "the agent to leave")
        assert spool.exit_status() is None
        until(lambda: not run.left())


def test_a_killed_agent_is_recorded_and_its_relay_ended(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        assert ending.ask(run.agent(), signal.SIGKILL)
        assert run.ended() == 137
        relay = spool.relay()
        assert relay is not None
        assert gone(relay)


def test_both_killed_leave_only_a_relay_that_can_be_ended(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        agent = run.agent()
        assert run.shim is not None
        run.shim.send_signal(signal.SIGSTOP)
        assert ending.ask(agent, signal.SIGKILL)
        run.shim.kill()
        run.shim.wait(20)
        until(lambda: gone(agent))
        assert spool.exit_status() is None
        close_input(spool)
        until(lambda: not run.left(), "the relay to go")


def test_a_stopped_relay_neither_holds_up_the_end_nor_is_left(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        relay = spool.relay()
        assert relay is not None
        os.kill(relay.pid, signal.SIGSTOP)
        assert ending.ask(run.agent(), signal.SIGKILL)
        assert run.ended() == 137
        assert gone(relay)


def test_an_agent_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    """More is sent than the fifo takes; the sender returns, and the end comes as ever."""
    with running(str(tmp_path)) as run:
        spool = run.start("sh", "-c", "sleep 60")
        agent = run.agent()
        began = time.monotonic()
        Outbox(spool.sent).send(b"x" * 1_000_000 + b"\n")
        assert time.monotonic() - began < 5
        time.sleep(0.02)
        ending.ask(agent, signal.SIGTERM)
        assert run.ended() == 143
        until(
            lambda: not [p for p in tree.marked(tree.table(), run.task) if "tail" in p.command],
            "relay and shim to go",
        )


def test_large_lines_come_through_whole(tmp_path: Path) -> None:
    program = (
        "import hashlib, sys\n"
        "for line in sys.stdin.buffer:\n"
        "    print(len(line), hashlib.sha256(line).hexdigest())\n"
    )
    import hashlib

    lines = [bytes([65 + n]) * (1 << 20) + b"\n" for n in range(8)]
    with running(str(tmp_path)) as run:
        spool = run.python(program)
        box = Outbox(spool.sent)
        for line in lines:
            box.send(line)
        expected = [f"{len(line)} {hashlib.sha256(line).hexdigest()}" for line in lines]
        until(lambda: content(spool.stdout).decode().splitlines() == expected, "all lines")
        close_input(spool)
        assert run.ended() == 0
