"""The real Cursor SDK tells the same of a store as our reader does.

Real SDK, scripted backend; no network but loopback, no key.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from holdfast.agents.cursor.reader import CursorReader
from holdfast.agents.cursor.sdk_runs import SdkRun, SdkRunMessage, run_events
from holdfast.model.event import NewEvent
from holdfast.transcripts.reader import SessionRef
from tests.agents import install
from tests.agents.fake_cursor.script import Script, prompt

PROJECT = Path(__file__).parent.parent.parent
RECORDED = PROJECT / "tests" / "fixtures" / "history" / "cursor"
READER = CursorReader()
PATIENCE_S = 60.0
CATALOG = json.dumps([{"id": "composer-2"}])


class Step(NamedTuple):
    """One thing of a conversation, however it was told."""

    kind: str
    text: str
    input: Any = None
    ok: bool | None = None


class Program:
    """`tests.agents.fake_cursor.sdk` under way."""

    def __init__(self, home: Path, *words: str):
        self.home = home
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": os.pathsep.join([str(PROJECT), install.cursor_sdk()]),
            "TMPDIR": str(home),
            "CURSOR_SDK_LOCAL_MODEL_CATALOG_JSON": CATALOG,
        }
        command = [sys.executable, "-m", "tests.agents.fake_cursor.sdk", *words]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the SDK's bridge outlives its parent: both are ended by their group
        )

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it tells, as it tells it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def kill(self) -> None:
        """SIGKILL to it and all that it started; returns when none of them is left."""
        os.killpg(self.process.pid, signal.SIGKILL)
        wait_until(lambda: not any(self._members()))

    def _members(self) -> Iterator[int]:
        """The living processes of its group; one that nobody has buried yet is dead all the same."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getpgid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    yield process.pid


@contextmanager
def program(home: Path, *words: str) -> Iterator[Program]:
    home.mkdir(exist_ok=True)
    started = Program(home, *words)
    try:
        yield started
        assert started.process.wait(PATIENCE_S) == 0, started.process.communicate()[1]
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        started.process.communicate()


def conversations(home: Path, form: str, root: str, cwd: str, agent: str) -> list[dict[str, Any]]:
    with program(home, "conversations", form, root, cwd, agent) as run:
        (told,) = list(run.lines())
    return list(told)  # type: ignore[arg-type]


def told_by_sdk(turns: list[dict[str, Any]]) -> list[Step]:
    """The steps of `Run.conversation()`; a prompt that the server did not send back is not among them."""
    steps = []
    for turn in (turn["turn"] for turn in turns):
        if "user_message" in turn:
            steps.append(Step("user", turn["user_message"]["text"]))
        for step in turn["steps"]:
            message = step["message"]
            if step["type"] != "toolCall":
                steps.append(Step(step["type"].removesuffix("Message"), message["text"]))
                continue
            result = message["result"]
            value = result.get("value", {})
            ok = result["status"] == "success" and not value.get("exitCode")
            steps.append(Step(message["type"], value.get("stdout", ""), message["args"], ok))
    return steps


def told_by_us(events: list[NewEvent], run: str) -> list[Step]:
    """The steps of one run; calls without an end are left out, as the SDK leaves them out."""
    steps: list[Step] = []
    inputs = {}
    for event in events:
        body = event.body
        if event.origin is None or not event.origin.record_id.startswith(run):
            continue
        if event.kind == "tool_progress":
            inputs[body["call"]] = body["input"]
        elif event.kind == "tool_summary":
            steps.append(Step(body["name"], body["output"], inputs[body["call"]], body["outcome"] == "ok"))
        elif event.kind in ("user", "assistant", "thinking") and not event.origin.record_id.endswith(
            ":prompt"
        ):
            steps.append(Step(event.kind, body["text"]))
    return steps


def bare(events: list[NewEvent]) -> list[tuple[str, dict[str, Any]]]:
    return [(event.kind, event.body) for event in events]


@pytest.mark.parametrize(
    ("case", "agent", "statuses"),
    [
        ("sdk-jsonl", "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf", ["finished", "finished"]),
        ("sdk-jsonl-error", "agent-ae3fad54-ff93-439a-a060-372f8fddcac7", ["error"]),
        ("edited-torn-last-run-row", "agent-d7927615-88d2-4f2b-85e4-dd6bca6ddcdf", ["finished"]),
        ("sdk-jsonl-crashed", "agent-47d3413e-2ef1-40ff-a546-944fbb8688f4", ["running"]),
        ("sdk-sqlite", "agent-118a3302-f940-4768-b063-96f3d1f97db2", ["finished"]),
    ],
)
def test_conversations_of_a_recorded_store(
    tmp_path: Path, case: str, agent: str, statuses: list[str]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(RECORDED / case, home)
    form = "sqlite" if case == "sdk-sqlite" else "jsonl"
    (place,) = READER.find(str(home), agent)
    before = list(READER.events(place))
    told = conversations(home, form, str(home), "/home/dev/demo", agent)
    assert [run["status"] for run in told] == statuses
    for run in told:
        if run["turns"] is None:
            assert run["status"] == "running"
            continue
        assert told_by_us(before, run["id"]) == told_by_sdk(run["turns"]) != []
    if case == "sdk-sqlite":
        # 1.1.0 has renamed the folder, from the md5 of the cwd to its sha256.
        (moved,) = READER.find(str(home), agent)
        assert moved.path != place.path
        assert list(READER.events(moved)) == before


@pytest.mark.parametrize("form", ["jsonl", "sqlite"])
def test_a_live_run_is_replayed_as_it_was_streamed(tmp_path: Path, form: str) -> None:
    workspace, home, root = tmp_path / "ws", tmp_path / "home", tmp_path / "store"
    workspace.mkdir()
    wait = "touch begun; while [ ! -e go ]; do sleep 0.05; done; cat go; echo oops >&2"
    scripts = [
        Script(think="Wait for it…", say="I wait.", cmd=wait, cwd=str(workspace), final="It came: é🙂."),
        Script(say="And one that fails.", cmd="exit 3", cwd=str(workspace), call="toolu_01FakeCursorFails"),
        Script(final="No prompt came back.", tell_user=False),
    ]
    prompts = [prompt(f"prompt {number}", script) for number, script in enumerate(scripts)]
    streams: list[tuple[SdkRun, list[SdkRunMessage]]] = []
    spoken: dict[str, list[Step]] = {}
    agent, hot = "", None
    with program(home, "live", form, str(root), str(workspace), *prompts) as run:
        for told in run.lines():
            if "agent" in told:
                agent = told["agent"]
            elif "run" in told:
                streams.append((SdkRun(id=told["run"], turn=len(streams), status="FINISHED"), []))
            elif "message" in told:
                payload = {"type": "sdk_message", "message": told["message"]}
                streams[-1][1].append(SdkRunMessage(seq=len(streams[-1][1]) + 1, payload=payload))
                if told["message"].get("status") == "running" and hot is None:
                    hot = look(root if form == "jsonl" else home, agent)
                    (workspace / "go").write_text("gone\n")
            else:
                assert told["ended"] == "finished"
                spoken[streams[-1][0].id] = told_by_sdk(told["turns"])
    (place,) = READER.find(str(root if form == "jsonl" else home), agent)
    events = list(READER.events(place))

    # Read while the call was under way: all up to it, and that it is open.
    assert hot is not None
    assert bare(hot[:-1]) == bare(events[:4])
    assert (hot[-1].kind, hot[-1].body["outcome"]) == ("tool_summary", "interrupted")

    # What was streamed, folded as a driver would, is what the store has.
    asked = iter(prompts)
    by_run = {run.id: text for (run, _), text in zip(streams, asked, strict=True)}
    assert bare(events) == bare(list(run_events(agent, streams, lambda run: by_run[run.id])))
    assert [e.body["text"] for e in events if e.kind == "user"] == prompts
    ends = [(e.body["outcome"], e.body["output"]) for e in events if e.kind == "tool_summary"]
    assert ends == [("ok", "gone\noops\n"), ("error", "")]
    assert [e.body["text"] for e in events if e.kind == "assistant"][1] == "It came: é🙂."
    seen = READER.inspect(place)
    assert (seen.sound, seen.problems, seen.turns, seen.last_complete) == (True, [], 3, 3)

    # The SDK's own word on each run, live and from the store; of a command it has both streams apart.
    again = conversations(home, form, str(root), str(workspace), agent)
    for item in again:
        from_store = told_by_sdk(item["turns"])
        assert from_store == spoken[item["id"]]
        ours = told_by_us(events, item["id"])
        assert [step._replace(text=step.text.removesuffix("oops\n")) for step in ours] == from_store


@pytest.mark.parametrize("form", ["jsonl", "sqlite"])
def test_a_live_run_that_is_killed_in_a_call(tmp_path: Path, form: str) -> None:
    workspace, home, root = tmp_path / "ws", tmp_path / "home", tmp_path / "store"
    workspace.mkdir()
    # Cursor's shells outlive it: this one ends when its folder goes, or when it is told to.
    loop = "touch begun; while [ -e begun ]; do sleep 0.05; done"
    script = Script(think="t", say="s", cmd=loop, cwd=str(workspace))
    agent = ""
    store = root if form == "jsonl" else home
    with (
        pytest.raises(AssertionError),
        program(home, "live", form, str(root), str(workspace), prompt("sleep", script)) as run,
    ):
        for told in run.lines():
            agent = told.get("agent", agent)
            if told.get("message", {}).get("status") == "running":
                wait_for(workspace / "begun")
                (place,) = READER.find(str(store), agent)
                assert bool(READER.owners(str(store), place)) == (form == "sqlite")
                run.kill()
    (place,) = READER.find(str(store), agent)
    assert READER.owners(str(store), place) == []
    left = READER.tools(str(store), place)
    (workspace / "begun").unlink()
    assert left
    wait_until(lambda: READER.tools(str(store), place) == [])
    kinds = [event.kind for event in READER.events(place)]
    assert kinds == ["user", "thinking", "assistant", "tool_progress", "tool_summary"]
    seen = READER.inspect(place)
    assert {problem.code for problem in seen.problems} == {"run_still_open", "dangling_call"}
    assert [call["call"] for call in seen.dangling] == [script.call]
    assert (seen.turns, seen.last_complete) == (1, None)
    (told_again,) = conversations(home, form, str(root), str(workspace), agent)
    assert (told_again["status"], told_again["turns"]) == ("running", None)


def look(root: Path, agent: str) -> list[NewEvent]:
    """The events of a hot store, once the call is in it: the SDK streams and stores side by side."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found: list[SessionRef] = READER.find(str(root), agent)
        events = list(READER.events(found[0])) if found else []
        if any(event.kind == "tool_progress" for event in events):
            return events
        time.sleep(0.05)
    raise AssertionError("the call never came into the store")


def wait_for(path: Path) -> None:
    wait_until(path.exists)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)
