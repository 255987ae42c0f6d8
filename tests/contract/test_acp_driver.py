"""The ACP driver, judged by the official `agent-client-protocol` package.

Its agent side is our peer in a real process, and every line that we send is read by its models.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from acp import schema

from holdfast.agents.acp.driver import AcpDriver
from holdfast.agents.driver import AgentJob, DriverOutput, Policy
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent, check
from tests.support import paths

AGENT = str(paths.PROJECT / "tests" / "support" / "acp_agent.py")
NATIVE = "sess-0123456789ab"
REQUESTS: dict[str, Any] = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
}


def judged(line: bytes) -> dict[str, Any]:
    """A line that we send, as the package's models read it; nothing of it may be lost in them."""
    message: dict[str, Any] = json.loads(line)
    assert message["jsonrpc"] == "2.0" and line.endswith(b"\n")
    if "method" in message:
        model, value = REQUESTS[message["method"]], message["params"]
        assert ("id" in message) is (message["method"] != "session/cancel")
    elif "error" in message:
        model, value = schema.Error, message["error"]
    else:
        model, value = schema.RequestPermissionResponse, message["result"]
    read = model.model_validate(value)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == value
    return message


class Run:
    """A real agent process and our driver, over pipes."""

    def __init__(self, process: subprocess.Popen[bytes], job: AgentJob):
        self.process = process
        self.job = job
        self.driver = AcpDriver(job)
        self.entries: list[Any] = []
        self.sent: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self.take(self.driver.start_messages())

    def take(self, out: DriverOutput | None) -> None:
        assert out is not None and self.process.stdin is not None
        self.entries += out.entries
        for entry in out.entries:
            if isinstance(entry, NewEvent):
                check(entry)
        for line in out.sends:
            self.sent.append(judged(line))
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def until(self, done: Callable[[AcpDriver], Any]) -> Run:
        assert self.process.stdout is not None
        while not done(self.driver):
            line = self.process.stdout.readline()
            assert line, "the agent has ended"
            self.lines.append(line[:-1])
            self.take(self.driver.on_line(line[:-1]))
        return self

    def leave(self) -> list[tuple[str, Any]]:
        """End its input, as the runner does: it goes by itself. All events, in short."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        for line in self.process.stdout:
            self.take(self.driver.on_line(line[:-1]))
        assert self.process.wait(10) == 0
        self.take(self.driver.on_eof())
        return [(e.kind, _short(e.body)) for e in self.entries if isinstance(e, NewEvent)]


def _short(body: dict[str, Any]) -> Any:
    if "outcome" in body:
        return body["outcome"], body["output"]
    if "ask" in body:
        return body["answer"], body["by"]
    return body.get("text", body.get("input"))


@contextmanager
def running(prompt: str, permissions: Policy = "ask", resume: str | None = None) -> Iterator[Run]:
    job = AgentJob(
        agent="judge",
        session="s1",
        task="t1",
        prompt=prompt,
        cwd=os.getcwd(),
        program=(sys.executable, AGENT),
        permissions=permissions,
        native_id=resume,
        resume=resume is not None,
    )
    process = subprocess.Popen(job.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Run(process, job)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def ended(driver: AcpDriver) -> bool:
    return driver.final is not None


TOOL = [("tool_progress", {"command": "echo hi"}), ("tool_summary", ("ok", "hi\n"))]


def test_text_thought_and_tools_to_the_end() -> None:
    with running("think say tool tool say") as run:
        run.until(ended)
        text = ("assistant", "Hello from the agent.")
        thought = ("thinking", "Let me see.")
        user = ("user", "think say tool tool say")
        assert run.leave() == [user, thought, text, *TOOL, *TOOL, text]
        assert run.entries[0] == SeeToken(agent="judge", native_id=NATIVE, protocol="acp", seen_in="stream")
        assert run.driver.final is not None and run.driver.final.ok
        again = AcpDriver(run.job)
        again.start_messages()
        assert [entry for line in run.lines for entry in again.on_line(line).entries] == run.entries


@pytest.mark.parametrize("how", ["person", "policy"])
@pytest.mark.parametrize(("decision", "chosen"), [("allow", "yes"), ("deny", "no")])
def test_a_permission_is_given_or_not(how: str, decision: Any, chosen: str) -> None:
    with running("ask say", "ask" if how == "person" else decision) as run:
        if how == "person":
            run.until(lambda driver: driver.pending_permissions)
            assert run.driver.pending_permissions["0"].input == {"command": "echo hi"}
            run.take(run.driver.answer("0", decision))
        run.until(ended)
        assert run.sent[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": chosen}}
        end = ("ok", "hi\n") if decision == "allow" else ("error", "told no")
        asked = (None, None) if how == "person" else (decision, "policy")
        assert run.leave()[1:] == [
            ("tool_progress", {"command": "echo hi"}),
            ("permission", asked),
            ("tool_summary", end),
            ("assistant", "Hello from the agent."),
        ]


def test_stopped_while_a_tool_runs() -> None:
    with running("say sleep say") as run:
        run.until(lambda driver: driver.open_calls)
        run.take(run.driver.interrupt())
        run.until(ended)
        assert run.driver.final is not None and run.driver.final.cancelled and not run.driver.final.ok
        assert run.leave()[-1] == ("tool_summary", ("interrupted", "stopped"))


def test_stopped_while_a_permission_waits() -> None:
    with running("ask say") as run:
        run.until(lambda driver: driver.pending_permissions)
        run.take(run.driver.interrupt())
        run.until(ended)
        assert run.driver.final is not None and run.driver.final.cancelled
        assert run.leave()[-1] == ("tool_summary", ("interrupted", "told cancelled"))


def test_a_conversation_is_gone_on_with_or_is_not() -> None:
    with running("say", resume=NATIVE) as run:
        run.until(ended)
        assert [sent.get("method") for sent in run.sent] == ["initialize", "session/resume", "session/prompt"]
        assert run.driver.native_id == NATIVE
        (proof, _), *rest = run.leave()
        assert proof == "notice" and rest == [("user", "say"), ("assistant", "Hello from the agent.")]
    with running("say", resume="sess-unknown") as run:
        run.until(ended)
        assert run.leave() == [("error", "Resource not found")]
        assert [sent.get("method") for sent in run.sent] == ["initialize", "session/resume"]


def test_what_we_do_not_offer_is_refused_in_its_terms() -> None:
    with running("file") as run:
        run.until(ended)
        assert run.leave()[1:] == [("assistant", "refused: -32601")]


@pytest.mark.parametrize(("word", "reason"), [("fail", "the model is away"), ("refuse", "refusal")])
def test_other_ends(word: str, reason: str) -> None:
    with running(f"say {word}") as run:
        run.until(ended)
        run.leave()
        assert run.driver.final is not None and not run.driver.final.ok
        assert reason in (run.driver.final.reason or "")


def test_a_load_is_judged_too() -> None:
    job = AgentJob(
        agent="x", session="s", task="t", prompt="é\n", cwd="/w", program=(), native_id="n", resume=True
    )
    driver = AcpDriver(job)
    judged(driver.start_messages().sends[0])
    told = {"id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}}
    assert judged(driver.on_line(json.dumps(told).encode()).sends[0])["method"] == "session/load"
