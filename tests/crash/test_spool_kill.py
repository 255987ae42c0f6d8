"""The sender, the starter, the shim and the agent are killed at any moment; nothing is lost or doubled.

40 kills of the sender by default; HOLDFAST_TORTURE=1000 sets another number.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.process import identity
from holdfast.process import kill as ending
from holdfast.process.identity import Ident
from holdfast.spool import task_dir
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
    for number in range(STARTS):
        with running(str(tmp_path)) as run:
            run.start("sh", "-c", "echo ran; exit 3")
            if number:
                children.pause(choice.uniform(0, 0.003))
            else:
                until(lambda: run.spool.shim() is not None, "the shim")
            prevented = run.spool.prevent()
            assert number or not prevented
            assert run.shim is not None
            assert run.shim.wait(20) == (125 if prevented else 0)
            assert content(run.spool.stdout) == (b"" if prevented else b"ran\n")
            assert run.spool.exit_status() == (None if prevented else 3)
            assert not run.left()


def test_a_keeper_that_is_ended_while_it_starts_a_relay_leaves_none_behind(tmp_path: Path) -> None:
    """The relay that ends it may run before its keeper knows the relay's pid."""
    program = tmp_path / "relay"
    program.write_text("#!/bin/sh\nkill -USR1 $PPID\nexec sleep 60\n")
    program.chmod(0o700)
    for shell in [path for path in ("/bin/sh", "/bin/bash") if os.path.exists(path)]:
        for _ in range(STARTS):
            with running(str(tmp_path)) as run:
                run.spool.make({})
                words = [shell, task_dir.RELAY_KEEPER, str(program), "-"]
                keeper = subprocess.Popen(words, cwd=run.spool.path, env=run.env())
                assert keeper.wait(60) == 0
                assert not run.left()


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
        until(lambda: not [p for p in run.left() if p.command.endswith(task_dir.RELAY)], "the relay to go")


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


# --- the relay


@pytest.mark.parametrize("number", range(-(-KILLS // 40)))
def test_every_line_arrives_once_however_often_the_relay_is_killed(tmp_path: Path, number: int) -> None:
    """The agent reads slowly at times, so that relays die with a full pipe too; its input never ends."""
    choice = random.Random(SEED + number)
    lines = script(SEED + number)
    program = (
        "import os, time\n"
        "n = 0\n"
        "while data := os.read(0, 1 << 16):\n"
        "    n += 1\n"
        "    if n % 7 == 0: time.sleep(0.003)\n"
        "    os.write(1, data)\n"
    )
    with running(str(tmp_path)) as run:
        spool = run.python(program)
        box = Outbox(spool.sent)
        waiting, killed = list(lines), 0
        while waiting or killed < 10:
            count = choice.choice([1, 5, 20])
            for line in waiting[:count]:
                box.send(line)
            del waiting[:count]
            last = next_relay(spool, killed)
            children.pause(choice.choice([0, choice.uniform(0, 0.002), choice.uniform(0, 0.05)]))
            killed += ending.ask(last, signal.SIGKILL)
        expected = b"".join(lines)
        until(lambda: os.path.getsize(spool.stdout) >= len(expected), f"all of it, seed {SEED + number}")
        until(lambda: len(spool.relay_deaths()) == killed, "the record of every death")
        assert set(spool.relay_deaths()) == {128 + signal.SIGKILL}
        close_input(spool)
        assert run.ended() == 0
        assert content(spool.stdout) == expected, f"seed {SEED + number}, {killed} kills"
        until(lambda: not run.left(), "relay and keeper to go")


def next_relay(spool: Spool, killed: int) -> Ident:
    """The relay that runs after so many were killed."""
    until(lambda: content(spool.relays_file).count(b"(") > killed, "the next relay")
    relay = spool.relay()
    assert relay is not None
    return relay


def test_the_relay_has_a_name_of_its_own_and_heeds_no_request_to_end(tmp_path: Path) -> None:
    """So `pkill tail` and a SIGTERM to the whole session do not reach it."""
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        relay = spool.relay()
        assert relay is not None
        with open(f"/proc/{relay.pid}/comm") as file:
            assert file.read() == "holdfast-relay\n"
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(relay.pid, number)
        Outbox(spool.sent).send(b"two\n")
        until(lambda: content(spool.stdout) == b"one\ntwo\n", "the second line")
        assert spool.relay() == relay


def test_a_relay_whose_keeper_was_killed_goes_on_and_leaves_with_the_agent(tmp_path: Path) -> None:
    with running(str(tmp_path)) as run:
        spool = echoing(run)
        keeper, relay = spool.relay_keeper(), spool.relay()
        assert keeper is not None and relay is not None
        assert ending.ask(keeper, signal.SIGKILL)
        until(lambda: gone(keeper))
        Outbox(spool.sent).send(b"two\n")
        until(lambda: content(spool.stdout) == b"one\ntwo\n", "the second line")
        assert ending.ask(run.agent(), signal.SIGKILL)
        assert run.ended() == 137
        until(lambda: gone(relay), "the relay to see that nobody reads")


def test_input_closed_while_relays_die_is_closed(tmp_path: Path) -> None:
    """Whichever step keeper and relay are at, none is left and the agent's input ends."""
    choice = random.Random(SEED)
    for _ in range(STARTS):
        with running(str(tmp_path)) as run:
            closed_while_relays_die(run, choice)


def closed_while_relays_die(run: Run, choice: random.Random) -> None:
    spool = run.start("cat")
    until(lambda: spool.relay_keeper() is not None, "the keeper")
    if (relay := spool.relay()) is not None and choice.random() < 0.7:
        ending.ask(relay, signal.SIGKILL)
    children.pause(choice.uniform(0, 0.03))
    close_input(spool)
    assert run.ended() == 0
    until(lambda: not run.left(), "all to go")
