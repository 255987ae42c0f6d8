"""Random histories of many threads, and after each step what an independent reading of the table expects.

`python -m tests.crash.resume_campaign HOME THREADS ROUNDS SEED` prints what it saw as JSON, or fails.
"""

from __future__ import annotations

import asyncio
import collections
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.task import ENDED
from holdfast.resume.verdict import judge
from holdfast.runner import control, service
from holdfast.runner import sessions as judging
from holdfast.runner.context import Context
from holdfast.runner.dispatch import dispatch
from holdfast.runner.requests import PromptRequest
from holdfast.store.store import Store
from tests.crash import children, run_support
from tests.crash.resume_oracle import Thread
from tests.crash.run_support import DEADLINE_S, script

Verdicts = dict[str, tuple[str, list[str], str, str | None]]

# What a prompt makes the agent do, by how it is to end.
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "succeeds": [{"tool": "s", "run": "echo one"}, {"say": "done"}],
    "fails": [{"tool": "s", "run": "echo one"}, {"error": "the model is away"}],
    "refuses": [{"say": "I would rather not"}, {"stop": "refusal"}],
    "dies": [{"tool": "s", "run": "echo one"}, {"die": "KILL"}],
    "leaves": [{"say": "bye"}, {"die": 0}],
    "killed": [{"say": "begun"}, {"tool": "s", "run": "sleep 0.3"}, {"hang": True}],
    "orphans": [{"say": "begun"}, {"tool": "s", "run": "sleep 300"}, {"say": "never"}],
    "cancelled": [{"say": "begun"}, {"tool": "s", "run": "sleep 300"}, {"say": "never"}],
}


def main(path: str, count: int, rounds: int, seed: int) -> None:
    """The whole campaign."""
    rng = random.Random(seed)
    home = run_support.made(path)
    threads = {f"key-{number}": Thread() for number in range(count)}
    seen: collections.Counter[str] = collections.Counter()
    holders: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for _ in range(rounds):
            play(home, rng, threads, seen)
            check(home, threads, seen)
            spoil(home, rng, threads, holders, seen)
            check(home, threads, seen)
            release(home, threads, holders)
    finally:
        for holder in holders.values():
            holder.kill()
        run_support.end_all(home)
    print(json.dumps(seen))


# --- tasks


def play(home: Home, rng: random.Random, threads: dict[str, Thread], seen: collections.Counter[str]) -> None:
    """A prompt for each thread; some agents are killed, some tasks cancelled, the worker restarted."""
    plans = {key: rng.choice([*SCRIPTS, *["succeeds"] * 4]) for key in threads}
    made = dispatched(home, plans)
    for key, thread in threads.items():
        expected = thread.expected().action
        session, _ = made[key]
        goes_on = session == thread.session
        assert thread.session is None or goes_on == (expected == "resume"), (key, thread, session)
        thread.begin(session, plans[key])
        seen[f"dispatch {expected}"] += 1
    running = {key: made[key][1] for key, plan in plans.items() if plan in ("killed", "orphans", "cancelled")}
    child = run_support.worker(home)
    deadline = time.monotonic() + DEADLINE_S
    while not run_support.all_ended(home):
        assert time.monotonic() < deadline, [(t.id, t.status, t.prompt) for t in run_support.tasks(home)]
        begun = in_a_tool(home, set(running.values()))
        for key, task in list(running.items()):
            if task in begun:
                end(home, task, plans[key])
                del running[key]
        if rng.random() < 0.3:
            children.pause(rng.uniform(0.0, 0.2))
            child.kill()
            child = run_support.worker(home)
            seen["restarts"] += 1
        children.pause(0.1)
    child.rest()
    ended = {task.id: task for task in run_support.tasks(home)}
    for key, thread in threads.items():
        found = ended[made[key][1]]
        thread.token = (found.outcome or {}).get("native_id", thread.token)
        assert found.status == thread.status(), (found, run_support.log(home, found.session)[-5:])
        thread.ended(found.status)


def dispatched(home: Home, plans: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Session and task of each prompt, by its key."""

    async def send(context: Context) -> dict[str, tuple[str, str]]:
        found = {}
        for key, plan in plans.items():
            wish = PromptRequest(prompt=script(*SCRIPTS[plan]), agent="demo", key=key, cwd=home.path)
            task = await dispatch(context, wish, by="test")
            found[key] = (task.session, task.id)
        return found

    made: dict[str, tuple[str, str]] = in_context(home, send)
    return made


def in_context(home: Home, work: Any) -> Any:
    """Do something as a worker does, in a process of its own."""

    async def do() -> Any:
        env = run_support.environment(home)
        async with service.opened(home, run_support.location(home), env) as context:
            return await work(context)

    return children.in_child(lambda: asyncio.run(do()))


def in_a_tool(home: Home, tasks: set[str]) -> set[str]:
    """Those whose agent has begun its tool."""

    async def look(store: Store) -> set[str]:
        return {task for task in tasks if await store.task_events(task, ("tool_progress",))}

    return run_support.with_store(home, look) if tasks else set()


def end(home: Home, task: str, plan: str) -> None:
    """Kill the agent, or ask the task to stop."""
    if plan == "cancelled":

        async def ask(store: Store) -> None:
            found = await store.task(task)
            if found.status not in ENDED:
                await store.commit(Commit(found.session, [control.cancel_event("ann")], task=task))

        run_support.with_store(home, ask)
        return
    pid = run_support.agent_pid(home, task)
    assert pid is not None
    run_support.kill(pid)


# --- the store


def spoil(
    home: Home,
    rng: random.Random,
    threads: dict[str, Thread],
    holders: dict[str, subprocess.Popen[bytes]],
    seen: collections.Counter[str],
) -> None:
    """Do something to some of the agent's files, or trust a session by hand."""
    for key, thread in threads.items():
        if thread.token is None or rng.random() < 0.6:
            continue
        path = Path(home.path) / "demo" / f"{thread.token}.jsonl"
        what = rng.choice(("delete", "cut", "tear", "forget", "went on", "began", "hold", "trust"))
        seen[what] += 1
        if what == "trust":
            if thread.trust():
                trust(home, thread.session or "", thread.task_status)
        elif what == "hold":
            with open(path, "ab") as file:
                holders[key] = subprocess.Popen(["sleep", "300"], stdout=file)
            thread.held = True
        else:
            damage(path, what)
            thread.spoil(what)


def damage(path: Path, what: str) -> None:
    """One kind of edit."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    match what:
        case "delete":
            path.unlink()
        case "cut":
            path.write_bytes(data[: len(data) * 2 // 3])
        case "tear":
            lines[1] = lines[1][:5] + b"\n"
            path.write_bytes(b"".join(lines))
        case "forget":
            last = max(number for number, line in enumerate(lines) if b'"type":"prompt"' in line)
            path.write_bytes(b"".join(lines[:last]))
        case _:
            record = json.loads(lines[-1])
            number, turn = int(record["n"]), 100
            new: list[dict[str, Any]] = [
                {"type": "prompt", "n": number + 1, "turn": turn, "id": "m", "text": "from elsewhere"}
            ]
            if what == "went on":
                new.append({"type": "message", "n": number + 2, "id": "m2", "text": "yes"})
                new.append({"type": "end", "n": number + 3, "turn": turn, "stop": "end_turn"})
            with open(path, "ab") as file:
                file.write(b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in new))


def trust(home: Home, session: str, status: str | None) -> None:
    async def say(store: Store) -> None:
        last = (await store.tasks(session=session))[-1]
        assert last.status == status
        await store.commit(Commit(session, [judging.trusted_event("ann", "looked", last.id)]))

    run_support.with_store(home, say)


def release(home: Home, threads: dict[str, Thread], holders: dict[str, subprocess.Popen[bytes]]) -> None:
    """Let go of what must be waited for."""
    for key, holder in list(holders.items()):
        holder.kill()
        holder.wait()
        threads[key].held = False
        del holders[key]
    if any(thread.orphan for thread in threads.values()):
        run_support.end_all(home)
    for thread in threads.values():
        thread.orphan = False


# --- the judgement


def check(home: Home, threads: dict[str, Thread], seen: collections.Counter[str]) -> None:
    """What Holdfast says of each thread is what the table says."""

    async def look(context: Context) -> Verdicts:
        found: Verdicts = {}
        for key in threads:
            (session,) = (await context.store.sessions(state="live", key=key)).sessions
            verdict = judge(await judging.facts(context, session))
            codes = [reason.code for reason in verdict.reasons]
            found[key] = (verdict.action, codes, verdict.session, verdict.token)
        return found

    found: Verdicts = in_context(home, look)
    given_up = time.monotonic() + 60
    while time.monotonic() < given_up and any(
        "tools_running" in found[key][1] and thread.expected().action != "wait"
        for key, thread in threads.items()
    ):
        time.sleep(0.2)  # a short tool outlives its killed agent for a moment
        found = in_context(home, look)
    for key, thread in threads.items():
        expected = thread.expected()
        action, codes, session, _ = found[key]
        context = (key, thread, found[key], expected)
        assert session == thread.session, context
        assert action == expected.action, context
        assert all(set(wanted) & set(codes) for wanted in expected.reasons), context
        seen[action] += 1
        for code in codes:
            seen[code] += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
