"""The demo agent, driven by the client side of the official `agent-client-protocol` package.

Every message that it sends is judged by the package's models, and must come out of them as it went in:
the models mend some mistakes silently.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from acp import RequestError, schema
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent

from holdfast.agents.demo import AGENT
from holdfast.agents.driver import AgentJob

MODELS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
}


class Peer:
    """The client's side of one demo process: what it heard, and how it answers when asked."""

    def __init__(self, process: asyncio.subprocess.Process, cwd: str):
        self.process = process
        self.cwd = cwd
        self.heard: list[dict[str, Any]] = []
        self.sent: dict[Any, str] = {}  # method by id
        self.asked: list[schema.ToolCallUpdate] = []
        self.kind = "allow_once"
        self.holds: asyncio.Event | None = None  # answers wait for it
        assert process.stdin is not None and process.stdout is not None
        self.conn = ClientSideConnection(
            self,  # type: ignore[arg-type]  # it has what the demo needs of a client
            process.stdin,
            process.stdout,
            observers=[self._observe],
        )

    def _observe(self, event: StreamEvent) -> None:
        if event.direction == StreamDirection.OUTGOING:
            if "method" in event.message and "id" in event.message:
                self.sent[event.message["id"]] = event.message["method"]
        else:
            self.heard.append(event.message)

    async def request_permission(
        self, options: list[Any], session_id: str, tool_call: schema.ToolCallUpdate, **rest: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        if self.holds is not None:
            await self.holds.wait()
        if self.kind == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        [option] = [option for option in options if option.kind == self.kind]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        pass

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    def on_connect(self, conn: Any) -> None:
        pass

    def judge(self) -> None:
        for message in self.heard:
            assert message["jsonrpc"] == "2.0"
            if "error" in message:
                schema.Error.model_validate(message["error"])
                continue
            method = message.get("method") or self.sent[message["id"]]
            if method.startswith("_"):
                continue
            body = message["params"] if "method" in message else message["result"]
            shown = (
                MODELS[method].model_validate(body).model_dump(mode="json", by_alias=True, exclude_unset=True)
            )
            assert shown == body

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [m["params"]["update"] for m in self.heard if m.get("method") == "session/update"]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(u["content"]["text"] for u in self.updates if u["sessionUpdate"] == kind)

    def states(self, call: str | None = None) -> list[str]:
        return [u["status"] for u in self.updates if "toolCallId" in u and call in (None, u["toolCallId"])]

    async def new(self) -> str:
        return (await self.conn.new_session(cwd=self.cwd, mcp_servers=[])).session_id

    async def prompt(self, session: str, *steps: Any, words: str | None = None) -> schema.PromptResponse:
        text = f"do it <<{json.dumps(steps)}>> please" if words is None else words
        block = schema.TextContentBlock(type="text", text=text)
        return await self.conn.prompt(session_id=session, prompt=[block])

    async def until(self, true: Callable[[], bool]) -> None:
        limit = time.monotonic() + 10
        while not true():
            assert time.monotonic() < limit, self.heard
            await asyncio.sleep(0.005)

    async def eof(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def exit(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 10)


Start = Callable[[], Any]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts demo processes as the registry's entry says, in one home and one cwd."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "json.py").write_text("raise SystemExit('the wrong json')")

    @asynccontextmanager
    async def one() -> AsyncIterator[Peer]:
        assert AGENT.launch is not None
        job = AgentJob(agent="demo", session="s", task="t", prompt="", cwd=str(work), program=())
        launch = AGENT.launch(job)
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=work,
            env={"PATH": "/usr/bin:/bin", "HOLDFAST_DEMO_HOME": str(tmp_path / "demo"), **launch.env},
            limit=64 << 20,
        )
        peer = Peer(process, str(work))
        try:
            await peer.conn.initialize(protocol_version=1)
            yield peer
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await peer.conn.close()
        peer.judge()

    return one


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def gone_soon(pid: int) -> bool:
    limit = time.monotonic() + 5
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.01)
    return not alive(pid)


def pid_in(peer: Peer, name: str = "pid") -> int | None:
    path = os.path.join(peer.cwd, name)
    text = Path(path).read_text() if os.path.exists(path) else ""
    return int(text) if text.endswith("\n") else None


async def tool_pid(peer: Peer, name: str = "pid") -> int:
    await peer.until(lambda: pid_in(peer, name) is not None)
    pid = pid_in(peer, name)
    assert pid is not None
    return pid


def records(tmp_path: Path, session: str) -> list[dict[str, Any]]:
    text = (tmp_path / "demo" / f"{session}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def test_it_says_what_it_can(start: Start) -> None:
    async with start() as peer:
        told = peer.heard[0]["result"]
        assert told["protocolVersion"] == 1 and told["agentCapabilities"]["loadSession"] is True
        assert set(told["agentCapabilities"]["sessionCapabilities"]) == {"list", "resume", "fork"}


async def test_a_prompt_without_a_script_gets_a_friendly_run(start: Start) -> None:
    async with start() as peer:
        answer = await peer.prompt(await peer.new(), words="hello  there")
        assert answer.stop_reason == "end_turn"
        assert "«hello there»" in peer.text() and "I ran 2 commands; 2 ended well" in peer.text()
        assert peer.states() == ["in_progress", "completed"] * 2


async def test_text_is_streamed_in_pieces_of_one_message(start: Start) -> None:
    async with start() as peer:
        await peer.prompt(
            await peer.new(), {"think": "hm", "chunk": 1}, {"say": "abcdefg", "chunk": 3}, {"say": "é\ud83d"}
        )
        pieces = [(u["sessionUpdate"], u["messageId"], u["content"]["text"]) for u in peer.updates]
        thought, message, last = pieces[0][1], pieces[2][1], pieces[-1][1]
        assert len({thought, message, last}) == 3
        assert pieces[:5] == [
            ("agent_thought_chunk", thought, "h"),
            ("agent_thought_chunk", thought, "m"),
            ("agent_message_chunk", message, "abc"),
            ("agent_message_chunk", message, "def"),
            ("agent_message_chunk", message, "g"),
        ]


async def test_slow_text_is_slow(start: Start) -> None:
    async with start() as peer:
        session = await peer.new()
        began = time.monotonic()
        await peer.prompt(session, {"say": "abcd", "chunk": 1, "delay": 0.03}, {"sleep": 0.05})
        assert time.monotonic() - began >= 0.17


async def test_a_tool_is_a_real_process_in_its_own_session(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        command = "ps -o sid= -p $$; pwd; echo wrong >&2; exit 3"
        await peer.prompt(session, {"tool": "shell", "run": command})
        began, ended = peer.updates
        assert began["status"] == "in_progress" and began["title"] == "shell"
        assert began["rawInput"] == {"command": command}
        assert ended["status"] == "failed" and ended["rawOutput"]["exit_code"] == 3
        sid, cwd, wrong = ended["content"][0]["content"]["text"].splitlines()
        assert int(sid) != os.getsid(peer.process.pid) and cwd == peer.cwd and wrong == "wrong"


async def test_a_tool_that_leaves_something_behind_is_not_waited_for(start: Start) -> None:
    async with start() as peer:
        run = "sleep 30 & echo $! > pid; echo started"
        answer = await asyncio.wait_for(peer.prompt(await peer.new(), {"tool": "t", "run": run}), 5)
        assert answer.stop_reason == "end_turn" and peer.states()[-1] == "completed"
        assert peer.updates[-1]["rawOutput"]["output"] == "started\n"
        os.kill(await tool_pid(peer), signal.SIGKILL)


async def test_much_output_is_shortened_in_the_middle(start: Start) -> None:
    async with start() as peer:
        run = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"
        await peer.prompt(await peer.new(), {"tool": "t", "run": run})
        output = peer.updates[-1]["rawOutput"]["output"]
        assert output.startswith("first\n") and output.endswith("last\n") and len(output) < 31_000
        assert f"[{3_000_000 + 11 - 30_000} bytes left out]" in output


async def test_a_command_that_closes_its_output_is_waited_for(start: Start) -> None:
    async with start() as peer:
        await peer.prompt(await peer.new(), {"tool": "t", "run": "exec >&- 2>&-; sleep 0.2; exit 4"})
        assert peer.updates[-1]["rawOutput"]["exit_code"] == 4


async def test_a_cwd_that_went_away_fails_the_tool_only(start: Start, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    async with start() as peer:
        session = (await peer.conn.new_session(cwd=str(gone), mcp_servers=[])).session_id
        gone.rmdir()
        await peer.prompt(session, {"tool": "t", "run": "true"}, {"say": "still here"})
        assert peer.states() == ["in_progress", "failed"] and peer.text() == "still here"
        with pytest.raises(RequestError) as refused:
            await peer.conn.new_session(cwd=str(gone), mcp_servers=[])
        assert refused.value.code == -32602


async def test_tools_run_at_once(start: Start) -> None:
    async with start() as peer:
        # Each waits for the other, so one after the other would never end.
        meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
        tools = [
            {"tool": "a", "run": meet.format("a", "b")},
            {"tool": "b", "run": meet.format("b", "a")},
        ]
        await asyncio.wait_for(peer.prompt(await peer.new(), {"parallel": tools}), 10)
        assert peer.states() == ["in_progress", "in_progress", "completed", "completed"]


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        ("allow_once", ["pending", "in_progress", "completed"]),
        ("allow_always", ["pending", "in_progress", "completed"]),
        ("reject_once", ["pending", "failed"]),
        ("cancelled", ["pending", "failed"]),
    ],
)
async def test_it_asks_and_heeds_the_answer(start: Start, kind: str, states: list[str]) -> None:
    async with start() as peer:
        peer.kind = kind
        session = await peer.new()
        step = {"tool": "shell", "run": "echo x >> ran", "ask": True}
        answer = await peer.prompt(session, step, {"say": "on I go"})
        assert answer.stop_reason == "end_turn" and peer.text() == "on I go"
        assert peer.states() == states
        assert os.path.exists(os.path.join(peer.cwd, "ran")) is kind.startswith("allow")
        assert peer.asked[0].raw_input == {"command": "echo x >> ran"}
        await peer.prompt(session, step)
        assert len(peer.asked) == (1 if kind == "allow_always" else 2)


async def test_it_waits_for_an_answer_while_others_go_on(start: Start) -> None:
    async with start() as peer:
        peer.holds = asyncio.Event()
        session = await peer.new()
        tools = [{"tool": "a", "run": "true", "ask": True}, {"tool": "b", "run": "true"}]
        turn = asyncio.create_task(peer.prompt(session, {"parallel": tools}))
        await peer.until(lambda: peer.states() == ["pending", "in_progress", "completed"])
        await asyncio.sleep(0.2)
        assert not turn.done() and len((await peer.conn.list_sessions()).sessions) == 1
        peer.holds.set()
        await turn
        assert peer.states()[3:] == ["in_progress", "completed"]


async def test_cancel_in_mid_tool_ends_the_tool(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
        tools = [{"tool": "a", "run": stubborn}, {"tool": "b", "run": "echo $$ > pid2; sleep 60"}]
        turn = asyncio.create_task(peer.prompt(session, {"parallel": tools}, {"say": "never"}))
        pids = [await tool_pid(peer), await tool_pid(peer, "pid2")]
        await peer.conn.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, 5)).stop_reason == "cancelled"
        assert peer.states() == ["in_progress", "in_progress", "failed", "failed"]
        assert all([gone_soon(pid) for pid in pids]) and peer.text() == ""
        assert (await peer.prompt(session, {"say": "next"})).stop_reason == "end_turn"
        assert records(tmp_path, session)[-1]["stop"] == "end_turn"


async def test_cancel_while_it_asks_and_while_it_speaks(start: Start) -> None:
    async with start() as peer:
        session = await peer.new()
        peer.holds = asyncio.Event()
        turn = asyncio.create_task(peer.prompt(session, {"tool": "t", "run": "touch ran", "ask": True}))
        await peer.until(lambda: len(peer.asked) == 1)
        await peer.conn.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, 5)).stop_reason == "cancelled"
        peer.holds.set()  # an answer that comes too late
        turn = asyncio.create_task(peer.prompt(session, {"say": "a" * 1000, "chunk": 1, "delay": 0.05}))
        await peer.until(lambda: len(peer.text()) > 2)
        await peer.conn.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, 5)).stop_reason == "cancelled"
        assert 2 < len(peer.text()) < 1000
        assert not os.path.exists(os.path.join(peer.cwd, "ran"))


async def test_prompts_wait_for_their_turn(start: Start) -> None:
    async with start() as peer:
        one, two = await peer.new(), await peer.new()
        first = asyncio.create_task(peer.prompt(one, {"sleep": 0.2}, {"say": "1"}))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(peer.prompt(two, {"say": "2"}))
        await asyncio.sleep(0)
        dropped = asyncio.create_task(peer.prompt(two, {"say": "3"}))
        await asyncio.sleep(0.05)
        await peer.conn.cancel(session_id=two)
        answers = [(await turn).stop_reason for turn in (first, second, dropped)]
        assert answers == ["end_turn", "cancelled", "cancelled"] and peer.text() == "1"


async def test_a_spew_is_whole_and_in_order(start: Start) -> None:
    async with start() as peer:
        await peer.prompt(await peer.new(), {"spew": 1001})
        assert [u["content"]["text"] for u in peer.updates] == [f"{i} " for i in range(1001)]
        assert len({u["messageId"] for u in peer.updates}) == 1


async def test_a_spew_can_be_cancelled(start: Start) -> None:
    async with start() as peer:
        session = await peer.new()
        turn = asyncio.create_task(peer.prompt(session, {"spew": 300_000}))
        await peer.until(lambda: len(peer.heard) > 100)
        await peer.conn.cancel(session_id=session)
        assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
        assert len(peer.updates) < 300_000


async def test_usage_is_told_with_the_answer_or_at_once(start: Start) -> None:
    async with start() as peer:
        answer = await peer.prompt(
            await peer.new(),
            {"usage": {"used": 5, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}}},
            {"usage": {"inputTokens": 3, "outputTokens": 4, "cachedReadTokens": 1}},
        )
        assert answer.usage is not None and answer.usage.total_tokens == 7
        assert answer.usage.cached_read_tokens == 1
        assert [u["sessionUpdate"] for u in peer.updates] == ["usage_update"]


@pytest.mark.parametrize("stop", ["refusal", "max_tokens", "max_turn_requests", "end_turn"])
async def test_it_stops_for_a_reason(start: Start, stop: str) -> None:
    async with start() as peer:
        answer = await peer.prompt(await peer.new(), {"stop": stop}, {"say": "never"})
        assert answer.stop_reason == stop and peer.text() == ""


async def test_an_error_is_an_error_and_the_next_prompt_works(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        with pytest.raises(RequestError, match="no quota left") as told:
            await peer.prompt(session, {"say": "well"}, {"error": "no quota left"})
        assert told.value.code == -32603
        assert (records(tmp_path, session)[-1]["stop"], records(tmp_path, session)[-1]["error"]) == (
            None,
            "no quota left",
        )
        await peer.prompt(session, {"say": "done"})
        assert peer.text() == "welldone"


@pytest.mark.parametrize(
    "words", ["<<[{]>>", '<<["x"]>>', '<<[{"say": 1}]>>', '<<[{"say": "x"}]', "<<[{}]>>"]
)
async def test_a_bad_script_is_refused_and_leaves_no_trace(start: Start, tmp_path: Path, words: str) -> None:
    async with start() as peer:
        session = await peer.new()
        with pytest.raises(RequestError) as told:
            await peer.prompt(session, words=words)
        assert told.value.code == -32602 and len(records(tmp_path, session)) == 1


@pytest.mark.parametrize(("how", "status"), [(3, 3), (0, 0), ("KILL", -9), ("TERM", -15), ("ABRT", -6)])
async def test_it_dies_suddenly_and_its_tool_lives(start: Start, how: int | str, status: int) -> None:
    async with start() as peer:
        session = await peer.new()
        tools = [{"tool": "t", "run": "echo $$ > pid; exec sleep 60"}, {"die": how, "delay": 0.3}]
        turn = asyncio.create_task(peer.prompt(session, {"parallel": tools}))
        pid = await tool_pid(peer)
        assert await peer.exit() == status
        with pytest.raises(ConnectionError):
            await turn
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_at_once_and_its_tool_lives(
    start: Start, number: signal.Signals, status: int
) -> None:
    async with start() as peer:
        session = await peer.new()
        run = {"tool": "t", "run": "echo $$ > pid; exec sleep 60"}
        turn = asyncio.create_task(peer.prompt(session, run))
        pid = await tool_pid(peer)
        peer.process.send_signal(number)
        assert await peer.exit() == status
        with pytest.raises(ConnectionError):
            await turn
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


async def test_it_hangs_whatever_is_asked(start: Start) -> None:
    async with start() as peer:
        session = await peer.new()
        turn = asyncio.create_task(peer.prompt(session, {"say": "x"}, {"hang": True}))
        await peer.until(lambda: peer.text() == "x")
        await peer.conn.cancel(session_id=session)
        await peer.eof()
        await asyncio.sleep(0.3)
        assert peer.process.returncode is None and not turn.done()
        assert psutil.Process(peer.process.pid).cpu_times().user < 1
        peer.process.terminate()
        assert await peer.exit() == 143
        with pytest.raises(ConnectionError):
            await turn


async def test_it_can_be_deaf_to_signals(start: Start) -> None:
    async with start() as peer:
        turn = asyncio.create_task(peer.prompt(await peer.new(), {"hang": "deaf"}))
        await asyncio.sleep(0.3)
        peer.process.terminate()
        peer.process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)
        assert peer.process.returncode is None
        peer.process.kill()
        with pytest.raises(ConnectionError):
            await turn


async def test_eof_between_turns_ends_it(start: Start) -> None:
    async with start() as peer:
        await peer.prompt(await peer.new(), {"say": "x"})
        await peer.eof()
        assert await peer.exit() == 0


async def test_eof_in_mid_turn_lets_the_turn_end(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        peer.holds = asyncio.Event()  # never set: nobody answers after the end of stdin
        turn = asyncio.create_task(
            peer.prompt(
                session,
                {"tool": "t", "run": "sleep 0.2; echo x"},
                {"tool": "t", "run": "touch ran", "ask": True},
                {"say": "end"},
            )
        )
        await peer.until(lambda: peer.states() == ["in_progress"])
        await peer.eof()
        assert await peer.exit() == 0
        assert (await turn).stop_reason == "end_turn" and peer.text() == "end"
        assert peer.states() == ["in_progress", "completed", "pending", "failed"]
        assert not os.path.exists(os.path.join(peer.cwd, "ran"))
        assert records(tmp_path, session)[-1]["type"] == "end"


async def test_load_replays_and_resume_does_not(start: Start) -> None:
    async with start() as peer:
        session = await peer.new()
        await peer.prompt(
            session, {"think": "hm"}, {"say": "abc", "chunk": 1}, {"tool": "t", "run": "echo x; exit 2"}
        )
        told = peer.updates
        await peer.eof()
        await peer.exit()
    async with start() as peer:
        await peer.conn.load_session(cwd=peer.cwd, session_id=session, mcp_servers=[])
        # All of the replay comes before the answer.
        assert "result" in peer.heard[-1] and peer.heard[-2]["method"] == "session/update"
        prompt, thought, message, began, ended = peer.updates
        assert prompt["sessionUpdate"] == "user_message_chunk" and "<<[" in prompt["content"]["text"]
        assert (thought, message["messageId"]) == (told[0], told[1]["messageId"])
        assert message["content"]["text"] == "abc" and (began, ended) == (told[-2], told[-1])
        await peer.prompt(session, {"say": "two"})
        assert len({u["messageId"] for u in peer.updates if "messageId" in u}) == 4
        await peer.eof()
        await peer.exit()
    async with start() as peer:
        await peer.conn.resume_session(cwd=peer.cwd, session_id=session, mcp_servers=[])
        assert peer.updates == []
        await peer.conn.load_session(cwd=peer.cwd, session_id=session, mcp_servers=[])
        assert peer.text() == "abctwo"


async def test_a_session_that_died_in_mid_tool_says_so_and_goes_on(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        tools = [{"tool": "t", "run": "echo $$ > pid; exec sleep 60"}, {"die": "KILL", "delay": 0.2}]
        turn = asyncio.create_task(peer.prompt(session, {"parallel": tools}))
        pid = await tool_pid(peer)
        await peer.exit()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await turn
    path = tmp_path / "demo" / f"{session}.jsonl"
    kept = path.read_text()
    path.write_text(kept + '{"type":"mess')  # and it was cut off in mid-record
    async with start() as peer:
        await peer.conn.load_session(cwd=peer.cwd, session_id=session, mcp_servers=[])
        assert peer.states() == ["in_progress", "failed"]
        assert "interrupted" in peer.updates[-1]["rawOutput"]["output"]
        await peer.prompt(session, {"say": "again"})
        await peer.conn.load_session(cwd=peer.cwd, session_id=session, mcp_servers=[])
        assert peer.text() == "againagain"
    assert path.read_text().startswith(kept + '{"type":"mess\n')


async def test_two_processes_never_have_one_session(start: Start) -> None:
    async with start() as peer, start() as other:
        session = await peer.new()
        for call in (other.conn.load_session, other.conn.resume_session):
            with pytest.raises(RequestError, match="another process has session"):
                await call(cwd=other.cwd, session_id=session, mcp_servers=[])
        await peer.conn.resume_session(cwd=peer.cwd, session_id=session, mcp_servers=[])  # its own
        await peer.prompt(session, {"say": "mine"})
        peer.process.kill()
        await peer.exit()
        await other.conn.resume_session(cwd=other.cwd, session_id=session, mcp_servers=[])


async def test_a_fork_has_the_whole_turns_and_goes_its_own_way(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        await peer.prompt(session, {"say": "one"})
        turn = asyncio.create_task(peer.prompt(session, {"say": "two"}, {"sleep": 60}))
        await peer.until(lambda: "two" in peer.text())
        before = records(tmp_path, session)
        fork = (await peer.conn.fork_session(cwd=peer.cwd, session_id=session)).session_id
        await peer.conn.cancel(session_id=session)
        await turn
        peer.heard.clear()
        await peer.prompt(fork, {"say": "three"})
        await peer.conn.load_session(cwd=peer.cwd, session_id=fork, mcp_servers=[])
        assert peer.text() == "threeonethree"
        head, *rest = records(tmp_path, fork)
        assert head["from"] == session and rest[:3] == before[1:4]
        assert [record["n"] for record in rest] == list(range(1, len(rest) + 1))


async def test_sessions_are_listed_by_cwd_in_pages(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        assert (await peer.conn.list_sessions()).sessions == []
        first = await peer.new()
        await peer.prompt(first, words="fix the  roof <<[]>>")
        other = (await peer.conn.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        (tmp_path / "demo" / "odd.jsonl").write_text("odd")
        (tmp_path / "demo" / "empty.jsonl").write_text("")
        listed = (await peer.conn.list_sessions(cwd=peer.cwd)).sessions
        assert [(s.session_id, s.cwd, s.title) for s in listed] == [(first, peer.cwd, "fix the roof <<[]>>")]
        everything = await peer.conn.list_sessions()
        assert {s.session_id for s in everything.sessions} == {first, other}
        for number in range(120):
            line = {"type": "session", "v": 1, "id": f"x{number}", "cwd": "/", "at": "t"}
            (tmp_path / "demo" / f"x{number}.jsonl").write_text(json.dumps(line) + "\n")
        page = await peer.conn.list_sessions()
        rest = await peer.conn.list_sessions(cursor=page.next_cursor)
        assert len(page.sessions) == 100 and rest.next_cursor is None
        assert len({s.session_id for s in [*page.sessions, *rest.sessions]}) == 122


@pytest.mark.parametrize("id", ["demo-0", "../outside", "", "a/b", "é"])
async def test_an_unknown_session_is_refused(start: Start, tmp_path: Path, id: str) -> None:
    line = {"type": "session", "v": 1, "id": "outside", "cwd": "/", "at": "t"}
    (tmp_path / "outside.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "demo").mkdir()
    async with start() as peer:
        calls: list[Awaitable[Any]] = [
            peer.conn.load_session(cwd=peer.cwd, session_id=id, mcp_servers=[]),
            peer.conn.resume_session(cwd=peer.cwd, session_id=id, mcp_servers=[]),
            peer.conn.fork_session(cwd=peer.cwd, session_id=id),
            peer.prompt(id, {"say": "x"}),
        ]
        for call in calls:
            with pytest.raises(RequestError) as told:
                await call
            assert told.value.code == -32002


async def test_what_was_told_is_on_disk(start: Start, tmp_path: Path) -> None:
    async with start() as peer:
        session = await peer.new()
        assert records(tmp_path, session)[0]["cwd"] == peer.cwd
        turn = asyncio.create_task(
            peer.prompt(
                session,
                {"say": "abc", "chunk": 1, "delay": 0.05},
                {"tool": "t", "run": "true"},
                {"sleep": 60},
            )
        )
        await peer.until(lambda: peer.text() != "")
        assert records(tmp_path, session)[-1]["text"] == "abc"
        await peer.until(lambda: peer.states() == ["in_progress", "completed"])
        peer.process.kill()
        with pytest.raises(ConnectionError):
            await turn
    kinds = [record["type"] for record in records(tmp_path, session)]
    assert kinds == ["session", "prompt", "message", "call", "result"]


def test_garbage_and_stderr_come_out_as_they_are(start: Start, tmp_path: Path) -> None:
    steps = [
        {"garbage": "notjson"},
        {"garbage": "notutf8", "bytes": 200},
        {"garbage": "long", "bytes": 3_000_001},
        {"stderr": "oh no\n"},
        {"say": "done"},
    ]
    env = {"PATH": "/usr/bin:/bin", "HOLDFAST_DEMO_HOME": str(tmp_path / "demo")}
    assert AGENT.launch is not None
    launch = AGENT.launch(AgentJob(agent="demo", session="s", task="t", prompt="", cwd="/", program=()))
    process = subprocess.Popen(
        launch.argv,
        stdin=-1,
        stdout=-1,
        stderr=-1,
        env={**env, **launch.env},
        cwd=tmp_path,
        bufsize=0,  # else what readline has read ahead is lost to communicate
    )
    assert process.stdin is not None and process.stdout is not None
    new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": str(tmp_path)}}
    process.stdin.write(json.dumps(new).encode() + b"\nnonsense\n[1]\n")
    process.stdin.flush()
    session = json.loads(process.stdout.readline())["result"]["sessionId"]
    block = {"type": "text", "text": f"<<{json.dumps(steps)}>>"}
    params = {"sessionId": session, "prompt": [block]}
    prompt = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}
    odd = {"jsonrpc": "2.0", "id": 3, "method": "session/dance"}
    out, err = process.communicate(
        b"".join(json.dumps(m).encode() + b"\n" for m in (prompt, odd, {"method": "x"})), timeout=10
    )
    assert process.returncode == 0 and err == b"oh no\n"
    refused = [line for line in out.splitlines() if b'"error"' in line]  # beside the turn, so anywhere
    assert [json.loads(line)["error"]["code"] for line in refused] == [-32700, -32700, -32601]
    lines = [line for line in out.splitlines() if line not in refused]
    assert lines[0].startswith(b"this is no JSON")
    with pytest.raises(UnicodeDecodeError):
        lines[1].decode()
    assert len(lines[1]) == 199 and len(lines[2]) == 3_000_000
    assert json.loads(lines[2])["method"] == "_demo/garbage"
    assert json.loads(lines[-1])["result"] == {"stopReason": "end_turn"}
