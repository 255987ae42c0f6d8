"""Random histories without agents: a real store, the demo agent's own files, and both sides written by hand.

What a stream shows and what the agent's file has are cut at points of their own, as a crash cuts them. After
each step the verdict must be what the oracle says.
"""

from __future__ import annotations

import collections
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from holdfast.agents.driver import resumed
from holdfast.demo import sessions as memory
from holdfast.home import Home
from holdfast.model.changes import Deliver, SeeToken, SetStatus
from holdfast.model.commit import Commit, Entry
from holdfast.model.event import NewEvent
from holdfast.model.task import Task
from holdfast.process.table import MARK
from holdfast.resume.verdict import judge
from holdfast.runner import replay, service
from holdfast.runner import sessions as judging
from holdfast.runner.context import Context
from holdfast.runner.dispatch import dispatch
from holdfast.runner.requests import PromptRequest
from tests.crash import run_support
from tests.crash.resume_campaign import damage
from tests.crash.resume_oracle import RECORDS, Thread
from tests.crash.spool_support import until

ROUNDS = 3
PLANS = ("succeeds", "succeeds", "succeeds", "forgets", "fails", "refuses", "killed", "killed", "cancelled")
EDITS = ("delete", "cut", "tear", "forget", "went on", "began", "hold", "orphan", "trust", "revoke", "moved")

Written = tuple[str, dict[str, Any], NewEvent | None]  # a record, its fields, and what the stream shows of it


class Campaign:
    """Many threads in one home, each with a history of its own."""

    def __init__(self, home: Home, count: int, seed: int):
        self.seen: collections.Counter[str] = collections.Counter()
        self._home = home
        self._rng = random.Random(seed)
        self._threads = {f"key-{number}": Thread() for number in range(count)}
        self._demo = Path(home.path) / "demo"
        self._other = Path(home.path) / "other"
        self._other.mkdir()

    async def play(self) -> None:
        """All of it; the store is closed and opened again between the rounds."""
        env = run_support.environment(self._home)
        for number in range(ROUNDS):
            async with service.opened(self._home, run_support.location(self._home), env) as context:
                for key, thread in self._threads.items():
                    if number == 0 or self._rng.random() < 0.6:
                        await self._round(context, key, thread)

    async def _round(self, context: Context, key: str, thread: Thread) -> None:
        await self._task(context, key, thread)
        await self._check(context, key, thread)
        if thread.token is not None and self._rng.random() < 0.6:
            started = await self._edit(context, thread)
            try:
                await self._check(context, key, thread)
            finally:
                if started is not None:
                    started.kill()
                    started.wait()
            if started is not None:
                thread.held = thread.orphan = False
                await self._check(context, key, thread)

    # --- tasks

    async def _task(self, context: Context, key: str, thread: Thread) -> None:
        expected = thread.expected().action
        where = str(self._other) if thread.moved else self._home.path
        prompt = f"prompt {self._rng.random()}"
        task = await dispatch(
            context, PromptRequest(prompt=prompt, agent="demo", key=key, cwd=where), by="test"
        )
        goes_on = task.session == thread.session
        assert thread.session is None or goes_on == (expected == "resume"), (key, thread, task)
        plan = self._rng.choice(("unloaded", "unqueued", *PLANS) if goes_on else PLANS)
        self.seen[f"{plan} {'resume' if goes_on else 'fresh'}"] += 1
        task = await context.store.claim(task.id, task.generation, context.owner, 60)
        if plan == "unqueued":
            await _commit(context, task, [SetStatus(status="cancelled", reason="by ann")])
            thread.unloaded = False
            return
        if plan == "unloaded":
            assert thread.token is not None
            await _commit(context, task, [judging.attempt(thread.token), Deliver(delivery="sent")])
            why = f"process {self._rng.randrange(9999)} died"
            await _commit(context, task, [SetStatus(status="failed", reason=why)])
            thread.failures += 1
            thread.unloaded = True
            return
        token = thread.token if goes_on else None
        thread.begin(task.session, plan)
        cut = len(RECORDS)
        thread.shown = self._rng.randint(1, cut) if plan == "killed" else cut
        thread.stored = self._rng.randint(0, cut - 1) if plan in ("killed", "forgets") else cut
        thread.token = await self._run(context, task, token, thread)
        thread.ended(thread.status())

    async def _run(self, context: Context, task: Task, token: str | None, thread: Thread) -> str:
        """Both sides of one run; the id of its conversation."""
        where = str(self._other) if thread.moved else self._home.path
        file = memory.create(where) if token is None else memory.reopen(token, where)[0]
        records = _records(task, file, thread.plan or "")
        entries: list[Entry] = [] if token is None else [judging.attempt(token)]
        entries += [
            Deliver(delivery="sent"),
            SeeToken(agent="demo", native_id=file.id, seen_in="stream", protocol="acp"),
            *([] if token is None else [resumed(file.id)]),
            Deliver(delivery="accepted"),
        ]
        for place, (record, fields, event) in enumerate(records):
            if place < thread.stored:
                file.add(record, **fields)
            if place < thread.shown and event is not None:
                entries.append(event)
        file.close()
        status = thread.status()
        answers = thread.plan in ("succeeds", "forgets", "refuses")
        outcome = {"native_id": file.id, "answer": "done" if answers else ""}
        entries.append(SetStatus(status=status, reason=thread.plan, outcome=outcome))
        await _commit(context, task, entries)
        agent = context.registry.get("demo")
        await replay.keep(context, agent, file.id, level=status == "succeeded")
        return file.id

    # --- what else happens

    async def _edit(self, context: Context, thread: Thread) -> subprocess.Popen[bytes] | None:
        what = self._rng.choice(EDITS)
        path = self._demo / f"{thread.token}.jsonl"
        whole = thread.stored == len(RECORDS) and not thread.spoilt
        self.seen[what] += 1
        match what:
            case "trust" if thread.trust():
                last = (await context.store.tasks(session=thread.session or ""))[-1]
                await context.store.commit(
                    Commit(last.session, [judging.trusted_event("ann", "looked", last.id)])
                )
            case "hold":
                thread.held = True
                return _sleep(path, {})
            case "orphan" if thread.task_status in ("interrupted", "cancelled", "failed"):
                last = (await context.store.tasks(session=thread.session or ""))[-1]
                thread.orphan = True
                return _sleep(None, {MARK: last.id})
            case "revoke":
                await context.store.revoke_token(thread.session or "", "demo", thread.token or "", "by hand")
                thread.revoked = True
            case "moved":
                thread.moved = not thread.moved
            case "delete" | "cut" | "tear" | "forget" | "went on" | "began" if whole:
                damage(path, what)
                thread.spoil(what)
        return None

    # --- the judgement

    async def _check(self, context: Context, key: str, thread: Thread) -> None:
        (session,) = (await context.store.sessions(state="live", key=key)).sessions
        where = str(self._other if thread.moved else self._home.path)
        wanted = None if session.cwd == where else where
        verdict = judge(await judging.facts(context, session, wanted=wanted))
        expected = thread.expected()
        codes = {reason.code for reason in verdict.reasons}
        told = (key, thread, verdict.action, sorted(codes), expected)
        assert session.id == thread.session, told
        assert verdict.action == expected.action, told
        assert all({*wanted} & codes for wanted in expected.reasons), told
        self.seen[verdict.action] += 1
        for code in codes:
            self.seen[code] += 1


def _sleep(path: Path | None, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process that has a file open, or a mark."""
    with open(path or os.devnull, "ab") as file:
        process = subprocess.Popen(["sleep", "300"], stdout=file, env={**os.environ, **env})
    # For a moment after its start a process has no environment yet.
    until(lambda: bool(Path(f"/proc/{process.pid}/environ").read_bytes()), "its environment to be there")
    return process


def _records(task: Task, file: memory.DemoSession, plan: str) -> list[Written]:
    """What the agent writes down, record by record, and what its stream shows of each."""
    stop = {"fails": "error", "refuses": "refusal", "cancelled": "cancelled"}.get(plan, "end_turn")
    call, given = f"call-{task.id}", {"command": f"make {task.id}"}
    turn = file.turns + 1
    result = {"call": call, "name": "shell", "outcome": "ok", "output": f"made {task.id}"}
    written: list[Written] = [
        ("prompt", {"turn": turn, "id": "m", "text": task.prompt}, NewEvent("user", {"text": task.prompt})),
        (
            "call",
            {"id": call, "name": "shell", "input": given},
            NewEvent("tool_progress", {"call": call, "name": "shell", "input": given}),
        ),
        (
            "result",
            {"call": call, "status": "completed", "exit": 0, "output": result["output"]},
            NewEvent("tool_summary", result),
        ),
        ("message", {"id": "m2", "text": "done"}, NewEvent("assistant", {"text": "done"})),
        ("end", {"turn": turn, "stop": stop}, None),
    ]
    assert [record for record, _, _ in written] == list(RECORDS)
    if plan == "fails":
        written[3] = (*written[3][:2], NewEvent("error", {"text": "the model is away", "code": "agent"}))
    return written


async def _commit(context: Context, task: Task, entries: list[Entry]) -> None:
    await context.store.commit(Commit(task.session, entries, task=task.id, generation=task.generation))
