"""Tasks and nodes: hosts that are renamed or share a name or a machine, and copied homes; on both stores."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors, node
from holdfast.home import Home
from holdfast.model.task import ENDED, Task
from holdfast.process import identity
from holdfast.runner import dispatch, service, worker
from holdfast.runner.requests import PromptRequest
from holdfast.spool.task_dir import Spool
from holdfast.store.store import Store
from tests.crash import children, run_support
from tests.crash.run_support import Running, with_store

GATE: dict[str, Any] = {"tool": "shell", "run": "while [ ! -e gate ]; do sleep 0.05; done; echo through"}
END: dict[str, Any] = {"say": "the end"}


@pytest.fixture
def home() -> Iterator[Home]:
    with run_support.scratch_home() as home:
        yield home


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, home: Home) -> Home:
    """A home on either store."""
    if request.param == "postgres":
        run_support.use_store(home, request.getfixturevalue("postgres_url"))
    return home


@pytest.fixture
def shared(home: Home, postgres_url: str) -> Home:
    """A home whose store is in PostgreSQL."""
    run_support.use_store(home, postgres_url)
    return home


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Home]:
    """Another home."""
    found = run_support.made(str(tmp_path / "other"))
    yield found
    run_support.end_all(found)


def named(name: str, lease_s: float = 60.0) -> Callable[[], None]:
    """What a worker process does first: its host has that name."""

    def prepare() -> None:
        socket.gethostname = lambda: name
        vars(worker).update(LEASE_S=lease_s, LOOK_S=0.1)

    return prepare


def before_nodes(home: Home, name: str) -> None:
    """As an older version would have it: sessions and tasks name the host."""
    with open(node.path_of(home), "w", encoding="utf-8") as file:
        folder = os.stat(home.path)
        fields = {"id": name, "machine": "", "home": os.path.realpath(home.path), "inode": folder.st_ino}
        json.dump({**fields, "names": [], "copy_of": []}, file)


def queue(home: Home, *steps: dict[str, Any], session: str | None = None) -> Task:
    """A task in a session of this home's node."""

    async def enqueue(store: Store) -> Task:
        assert store.node is not None
        own = session or (await store.create_session("demo", cwd=home.path, host=store.node.id)).id
        return await store.enqueue(own, run_support.script(*steps))

    return with_store(home, enqueue)


class Run(Running):
    """A task of this home's node, driven by a worker on a host of that name."""

    def __init__(self, home: Home, *steps: dict[str, Any], host: str, lease_s: float = 60.0):
        self.home = home
        self.id = queue(home, *steps).id
        self.spool = Spool(home.task(self.id))
        self.worker = run_support.worker(home, named(host, lease_s))

    def agent_lives(self) -> bool:
        agent = self.spool.agent()
        return agent is not None and identity.is_alive(*agent)

    def as_seen_from(self, home: Home) -> Task:
        return with_store(home, lambda store: store.task(self.id))


def looks(home: Home, host: str) -> None:
    """A worker comes, looks at everything once, and leaves when it finds nothing to do."""
    child = run_support.worker(home, named(host))
    child.wait_for_word()
    child.rest()


def copy(home: Home, to: Home) -> None:
    """A copy of a home, as a person makes one."""
    shutil.rmtree(to.path)
    subprocess.run(["cp", "-a", home.path, to.path], check=True)


# --- a host under a new name: renamed, a container that was made again, a laptop that was restored


@pytest.mark.parametrize("upgraded", [False, True], ids=["node", "hostname"])
def test_a_session_goes_on_after_a_rename(stored: Home, upgraded: bool) -> None:
    if upgraded:
        before_nodes(stored, "old-name")
    first = Run(stored, END, host="old-name")
    assert first.ended().status == "succeeded"
    if upgraded:
        os.unlink(node.path_of(stored))
    task = queue(stored, END, session=first.task().session)
    first.id, first.worker = task.id, run_support.worker(stored, named("new-name"))
    assert first.ended().status == "succeeded"


@pytest.mark.parametrize("upgraded", [False, True], ids=["node", "hostname"])
def test_a_running_task_goes_on_after_a_rename(stored: Home, upgraded: bool) -> None:
    if upgraded:
        before_nodes(stored, "old-name")
    running = Run(stored, GATE, END, host="old-name")
    running.until_event("tool_progress")
    running.worker.kill()
    if upgraded:
        os.unlink(node.path_of(stored))
    running.worker = run_support.worker(stored, named("new-name"))
    running.open_gate()
    assert running.ended().status == "succeeded"


def test_a_task_of_a_container_that_is_gone_is_interrupted(stored: Home) -> None:
    """The new container has another hostname, the same kernel, and none of the old one's processes."""
    running = Run(stored, GATE, END, host="4f2a8c")
    running.until_event("tool_progress")
    running.worker.kill()
    run_support.end_all(stored)
    running.worker = run_support.worker(stored, named("99b1d0"))
    task = running.ended()
    assert task.status == "interrupted"


# --- several nodes on one database


@pytest.mark.parametrize("upgraded", [False, True], ids=["node", "hostname"])
def test_two_hosts_of_one_name_leave_each_others_tasks_alone(
    shared: Home, other: Home, upgraded: bool
) -> None:
    if upgraded:
        before_nodes(shared, "raspberrypi")
    running = Run(shared, GATE, END, host="raspberrypi", lease_s=600.0)
    running.until_event("tool_progress")
    running.worker.kill()  # nobody drives the task for a while; its agent goes on
    waiting = queue(shared, END)
    if upgraded:
        shutil.copytree(shared.sessions, other.sessions, dirs_exist_ok=True)  # both mirrored all of that name
        os.unlink(node.path_of(shared))
    run_support.use_store(other, run_support.location(shared).address)
    before = running.task()
    with_store(shared, _noop)  # the host whose sessions these are is upgraded first
    looks(other, "raspberrypi")
    assert running.task() == before and running.agent_lives()
    assert with_store(shared, lambda store: store.task(waiting.id)).status == "queued"
    running.worker = run_support.worker(shared, named("raspberrypi"))
    running.open_gate()
    assert running.ended().status == "succeeded"
    running.until(lambda: with_store(shared, lambda store: store.task(waiting.id)).status == "succeeded")


async def _noop(store: Store) -> None:
    """Opening it is enough."""


def test_a_copied_home_leaves_the_tasks_of_its_original_alone(stored: Home, other: Home) -> None:
    running = Run(stored, GATE, END, host="laptop", lease_s=600.0)
    running.until_event("tool_progress")
    running.worker.kill()
    copy(stored, other)
    private = run_support.location(stored).kind == "sqlite"
    if not private:
        run_support.use_store(other, run_support.location(stored).address)
    looks(other, "laptop")
    assert running.agent_lives()
    seen = running.as_seen_from(other)
    if private:  # the copy has a log of its own, in which the task ends here
        assert seen.status == "interrupted" and "copy of node" in (seen.reason or "")
    else:
        assert seen.status == "running"
    assert running.task().status == "running"
    running.worker = run_support.worker(stored, named("laptop"))
    running.open_gate()
    assert running.ended().status == "succeeded"


def test_a_copied_home_with_its_own_database_goes_on_with_its_sessions(home: Home, other: Home) -> None:
    """Also a backup that is restored on another machine."""
    first = Run(home, END, host="laptop")
    assert first.ended().status == "succeeded"
    copy(home, other)
    task = queue(other, END, session=first.task().session)
    looks(other, "another-machine")
    found = with_store(other, lambda store: store.task(task.id))
    assert found.status in ENDED and found.status != "cancelled"
    assert found.owner is not None and found.owner.host == node.read(other, private=True).id


# --- a prompt for a session of another node


def dispatched(home: Home, session: str) -> str:
    """Queue a prompt from that home, as a hub does; the task, or the code of the refusal."""

    async def ask() -> str:
        env = run_support.environment(home)
        async with service.opened(home, run_support.location(home), env) as context:
            try:
                wish = PromptRequest(prompt=run_support.script(END), session=session)
                return (await dispatch.dispatch(context, wish, by="ann")).id
            except errors.HoldfastError as problem:
                return f"{problem.code}: {problem.message}"

    answer: str = children.in_child(lambda: asyncio.run(ask()))
    return answer


def test_a_prompt_for_another_nodes_session_says_why_it_waits(shared: Home, other: Home) -> None:
    run_support.use_store(other, run_support.location(shared).address)
    first = Run(shared, END, host="workshop")
    assert first.ended().status == "succeeded"
    own = node.read(shared, private=False).id
    task = dispatched(other, first.task().session)
    looks(other, "workshop")
    assert with_store(other, lambda store: store.task(task)).status == "queued"
    (notice,) = [
        e for e in run_support.log(other, first.task().session) if e.body.get("code") == "other_host"
    ]
    assert notice.task == task and own in notice.body["text"]
    first.id, first.worker = task, run_support.worker(shared, named("workshop"))
    assert first.ended().status == "succeeded"


def test_a_prompt_that_no_node_could_ever_run_is_refused(home: Home) -> None:
    """On SQLite there is no other node: hapi recorded a session of another machine."""

    async def create(store: Store) -> str:
        session = await store.create_session("demo", cwd=home.path, host="their-host")
        await store.see_token(session.id, "demo", "d-1", seen_in="import")
        return session.id

    session = with_store(home, create)
    answer = dispatched(home, session)
    assert answer.startswith("illegal_change: ") and "their-host" in answer
