"""Homes in which the demo agent works, and workers that are forked and killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.model.commit import Commit
from holdfast.model.event import Event
from holdfast.model.task import ENDED, Task
from holdfast.process.table import MARK
from holdfast.runner import control, service
from holdfast.spool.task_dir import Spool
from holdfast.store.location import Location
from holdfast.store.open import open_store
from holdfast.store.store import Store
from tests.crash import children
from tests.crash.support import scratch

REGISTRY = AgentRegistry()
AT_ONCE = 12
DEADLINE_S = 240.0

T = TypeVar("T")


def made(path: str) -> Home:
    """A home whose config lets many demo agents run at once."""
    home = Home(path)
    home.make()
    with open(home.config, "w") as file:
        file.write(f"[run]\nat_once = {AT_ONCE}\ngrace_s = 3.0\nleave_s = 5.0\n")
    return home


def environment(home: Home) -> dict[str, str]:
    """What the workers' agents get."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "HOLDFAST_DEMO_HOME": os.path.join(home.path, "demo")}


@contextlib.contextmanager
def scratch_home() -> Iterator[Home]:
    """A home of its own, and nothing that a failed test has started there runs on."""
    with scratch() as folder:
        home = made(os.path.join(folder, "home"))
        try:
            yield home
        finally:
            end_workers(home)
            end_all(home)


def end_workers(home: Home) -> None:
    """Kill all workers of a home that still run."""
    for child in _workers.pop(home.path, []):
        if _is_child(child.pid):
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)


def end_all(home: Home) -> None:
    """Kill all agents of a home and what they have started."""
    where = f"PWD={home.path}\0".encode()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal():
                with open(f"/proc/{name}/environ", "rb") as file:
                    if MARK.encode() in (found := file.read()) and where in found + b"\0":
                        kill(int(name))


def _is_child(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


_workers: dict[str, list[children.Child]] = {}


def worker(home: Home, prepare: Callable[[], None] = lambda: None) -> children.Child:
    """A worker in a process of its own; it says a word when it has looked at what runs."""

    def work(say: Callable[[str], None]) -> None:
        prepare()
        env = environment(home)
        asyncio.run(service.work(home, location(home), env, None, "test", lambda _: say("up")))

    return start_worker(home, work)


def start_worker(home: Home, work: Callable[[Callable[[str], None]], None]) -> children.Child:
    """Fork a worker that ends with its home."""
    child = children.start(work)
    _workers.setdefault(home.path, []).append(child)
    return child


def location(home: Home) -> Location:
    """Its SQLite store, unless it was given another."""
    return _stores.get(home.path) or Location("sqlite", home.database)


def use_store(home: Home, url: str) -> None:
    """Let a home's store be in PostgreSQL."""
    _stores[home.path] = Location("postgres", url)


_stores: dict[str, Location] = {}


def with_store(home: Home, question: Callable[[Store], Awaitable[T]]) -> T:
    """Ask or change the store, in a process of its own: this one must stay without threads to fork."""

    async def ask() -> T:
        store = await open_store(location(home), home, REGISTRY.token_rules())
        try:
            return await question(store)
        finally:
            await store.close()

    answer: T = children.in_child(lambda: asyncio.run(ask()))
    return answer


def queue(home: Home, prompts: list[str], agent: str = "demo", **options: Any) -> list[str]:
    """A session and a task for each prompt."""

    async def enqueue(store: Store) -> list[str]:
        found = []
        for prompt in prompts:
            session = await store.create_session(agent, cwd=home.path)
            found.append((await store.enqueue(session.id, prompt, options=options)).id)
        return found

    return with_store(home, enqueue)


def tasks(home: Home) -> list[Task]:
    """All tasks."""
    return with_store(home, lambda store: store.tasks())


def log(home: Home, session: str) -> list[Event]:
    """A session's whole log."""

    async def read(store: Store) -> list[Event]:
        events: list[Event] = []
        while page := await store.events(session, after=len(events)):
            events += page
        return events

    return with_store(home, read)


def answer_all(home: Home) -> int:
    """Be the person who answers what is asked; the answer follows from what is asked."""

    async def answer(store: Store) -> int:
        count = 0
        for task in await store.tasks(status="running"):
            for asked in control.waiting(await store.task_events(task.id, ("permission",))):
                event = control.answer_event(asked, decision(asked), "person")
                await store.commit(Commit(task.session, [event], task=task.id))
                count += 1
        return count

    return with_store(home, answer)


def decision(asked: Event) -> Any:
    """What the person says."""
    return "deny" if "denied" in json.dumps(asked.body.get("input")) else "allow"


def all_ended(home: Home) -> bool:
    """Whether nothing runs or waits any more."""
    return all(task.status in ENDED for task in tasks(home))


def undisturbed(home: Home) -> None:
    """Let one worker do all there is, with a person at hand."""
    child = worker(home)
    deadline = time.monotonic() + DEADLINE_S
    while not all_ended(home):
        assert time.monotonic() < deadline, [(t.id, t.status) for t in tasks(home)]
        answer_all(home)
        time.sleep(0.1)
    child.rest()


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to what may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def agent_pid(home: Home, task: str) -> int | None:
    """The agent's process, once it is known."""
    found = Spool(home.task(task)).agent()
    return None if found is None else found.pid


def script(*steps: dict[str, Any]) -> str:
    """A prompt for the demo agent."""
    return f"go <<{json.dumps(list(steps))}>>"


class Running:
    """One task and the workers that drive it."""

    def __init__(
        self,
        home: Home,
        *steps: dict[str, Any],
        agent: str = "demo",
        prepare: Callable[[], None] = lambda: None,
        **options: Any,
    ):
        self.home = home
        (self.id,) = queue(home, [script(*steps)], agent, **options)
        self.spool = Spool(home.task(self.id))
        self.worker = worker(home, prepare)

    def task(self) -> Task:
        """As the store has it."""
        return with_store(self.home, lambda store: store.task(self.id))

    def log(self) -> list[Event]:
        """Its session's log."""
        return log(self.home, self.task().session)

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait until something is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := what()):
            assert time.monotonic() < deadline, (self.task(), [(e.kind, e.body) for e in self.log()])
            time.sleep(0.03)
        return found

    def until_event(self, kind: str) -> None:
        """Wait for an event."""
        self.until(lambda: any(event.kind == kind for event in self.log()))

    def replace_worker(self) -> None:
        """Kill the worker and start another."""
        self.worker.kill()
        self.worker = worker(self.home)

    def open_gate(self) -> None:
        """Make the file that a tool may wait for."""
        with open(os.path.join(self.home.path, "gate"), "w"):
            pass

    def ended(self) -> Task:
        """The task, when it and its worker have ended."""
        self.until(lambda: self.task().status in ENDED)
        self.worker.rest()
        return self.task()

    def commit(self, *entries: Any) -> None:
        """Put something into its log, as another process would."""
        task = self.task()
        with_store(self.home, lambda store: store.commit(Commit(task.session, list(entries), task=task.id)))


def any_script(rng: random.Random) -> str:
    """A run of a second or so: talk, tools, questions, odd lines."""
    makers: list[Callable[[], dict[str, Any]]] = [
        lambda: {"say": f"words {rng.random()} " * rng.randint(1, 30), "chunk": 40, "delay": 0.03},
        lambda: {"think": f"thought {rng.random()}"},
        lambda: {"tool": "shell", "run": f"sleep 0.{rng.randint(0, 5)}; echo {rng.random()}"},
        lambda: {"tool": "shell", "run": "echo bad >&2; exit 3"},
        lambda: {"tool": "shell", "run": "echo asked", "ask": True},
        lambda: {"tool": "shell", "run": "echo denied", "ask": True},
        lambda: {
            "parallel": [
                {"tool": "a", "run": "sleep 0.1; echo 1"},
                {"tool": "b", "run": "echo 2; sleep 0.05"},
            ]
        },
        lambda: {"garbage": rng.choice(["notjson", "notutf8"]), "bytes": rng.randint(1, 5000)},
        lambda: {"stderr": "a word on stderr"},
        lambda: {"spew": rng.randint(1, 200)},
    ]
    return script(*[rng.choice(makers)() for _ in range(rng.randint(5, 12))], {"say": "the end"})
