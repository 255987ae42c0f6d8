"""One turn: the steps of a prompt's script, run and reported one by one."""

from __future__ import annotations

import json
import os
import signal
import time

from holdfast.demo import script, sessions
from holdfast.demo.tool_process import ToolProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from holdfast.demo.server import DemoServer

GRACE_S = 0.5  # between SIGTERM and SIGKILL
BATCH = 200  # chunks of a spew that are written together
LONG = 50_000_000
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Yes, always for this tool", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class TurnCancelled(Exception):
    """The client cancelled the turn."""


class TurnFailed(Exception):
    """The turn ends with an error instead of a result."""


class _TurnStopped(Exception):
    """The script ends the turn here."""


class _DemoToolCall:
    """A tool call: waiting for permission, running, or done."""

    def __init__(self, step: dict[str, Any], id: str):
        self.id = id
        self.name: str = step["tool"]
        self.command: str = step["run"]
        self.ask: bool = step.get("ask", False)
        self.request: int | None = None  # our unanswered permission request
        self.child: ToolProcess | None = None
        self.done = False


class DemoTurn:
    """Runs the script of one prompt."""

    def __init__(self, server: DemoServer, session: sessions.DemoSession):
        self._server = server
        self._session = session
        self._usage: dict[str, Any] = {}
        self._outcomes: list[str] = []  # of its tools
        self._do: dict[str, Callable[[dict[str, Any]], None]] = {
            "say": self._say,
            "think": self._say,
            "tool": lambda step: self._tools([step]),
            "parallel": lambda step: self._tools(step["parallel"]),
            "sleep": lambda step: self._pause(step["sleep"]),
            "spew": self._spew,
            "garbage": self._garbage,
            "stderr": lambda step: _write_all(2, step["stderr"].encode()),
            "usage": self._report_usage,
            "sum": self._sum,
            "stop": self._stop,
            "error": self._error,
            "die": self._die_later,
            "hang": self._hang,
        }

    def run(self, prompt: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Run the steps; the result is the reply. Raises TurnFailed if the reply is an error."""
        session = self._session
        session.turns += 1
        session.add("prompt", turn=session.turns, id=session.next_id("msg"), text=prompt, at=sessions.stamp())
        stop = "end_turn"
        try:
            for step in steps:
                self._do[script.kind(step)](step)
        except _TurnStopped as asked:
            stop = str(asked)
        except TurnCancelled:
            stop = "cancelled"
        except TurnFailed as problem:
            session.add("end", turn=session.turns, stop=None, error=str(problem), at=sessions.stamp())
            raise
        answer: dict[str, Any] = {"usage": self._usage} if self._usage else {}
        session.add("end", turn=session.turns, stop=stop, **answer, at=sessions.stamp())
        return {"stopReason": stop, **answer}

    def _wait(self, others: Iterable[int], seconds: float | None) -> None:
        self._server.listen(others, seconds)
        if self._server.cancelled:
            raise TurnCancelled

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._wait((), 0)
        while (left := until - time.monotonic()) > 0:
            self._wait((), left)

    def _say(self, step: dict[str, Any]) -> None:
        spoken = "say" in step
        text: str = step["say"] if spoken else step["think"]
        id = self._session.next_id("msg")
        self._session.add("message" if spoken else "thought", id=id, text=text)
        size, delay = step.get("chunk", len(text) or 1), step.get("delay", 0)
        for start in range(0, len(text), size):
            self._server.update(self._session.id, chunk(spoken, id, text[start : start + size]))
            self._pause(delay)

    def _spew(self, step: dict[str, Any]) -> None:
        count: int = step["spew"]
        id = self._session.next_id("msg")
        self._session.add("message", id=id, text="".join([f"{i} " for i in range(count)]))
        params = {"sessionId": self._session.id, "update": chunk(True, id, "%")}
        line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}) + "\n"
        before, after = line.split("%")
        for start in range(0, count, BATCH):
            lines = [f"{before}{i} {after}" for i in range(start, min(start + BATCH, count))]
            self._server.connection.write("".join(lines).encode())
            self._wait((), 0)

    def _sum(self, step: dict[str, Any]) -> None:
        well = self._outcomes.count("completed")
        text = f"I ran {len(self._outcomes)} commands; {well} ended well. That is all I can do."
        self._say({"say": text, "chunk": 16, "delay": 0.02})

    def _garbage(self, step: dict[str, Any]) -> None:
        start, end = {
            "notjson": (b"this is no JSON ", b"\n"),
            "notutf8": (b'{"jsonrpc":"2.0","method":"_demo/garbage","params":{"x":"\xff\xfe', b'"}}\n'),
            "long": (b'{"jsonrpc":"2.0","method":"_demo/garbage","params":{"x":"', b'"}}\n'),
        }[step["garbage"]]
        left = step.get("bytes", LONG if step["garbage"] == "long" else 0) - len(start) - len(end)
        self._server.connection.write(start)
        while left > 0:
            self._server.connection.write(b"x" * min(left, 1 << 20))
            left -= 1 << 20
        self._server.connection.write(end)

    def _report_usage(self, step: dict[str, Any]) -> None:
        usage: dict[str, Any] = step["usage"]
        if "used" in usage:
            self._server.update(self._session.id, {"sessionUpdate": "usage_update", **usage})
            return
        total = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
        self._usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": total, **usage}

    def _stop(self, step: dict[str, Any]) -> None:
        raise _TurnStopped(step["stop"])

    def _error(self, step: dict[str, Any]) -> None:
        raise TurnFailed(step["error"])

    def _die_later(self, step: dict[str, Any]) -> None:
        self._pause(step.get("delay", 0))
        die(step["die"])

    def _hang(self, step: dict[str, Any]) -> None:
        if step["hang"] == "deaf":
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
        while True:
            self._server.listen((), None if self._server.connection.open else 3600)

    def _tools(self, steps: list[dict[str, Any]]) -> None:
        death = next((step for step in steps if "die" in step), None)
        dies_at = None if death is None else time.monotonic() + death.get("delay", 0)
        calls: list[_DemoToolCall] = []
        try:
            for step in steps:
                if "tool" in step:
                    calls.append(_DemoToolCall(step, self._session.next_id("call")))
                    self._begin(calls[-1])
            while True:
                for call in calls:
                    self._advance(call)
                left = None if dies_at is None else dies_at - time.monotonic()
                if death is not None and left is not None and left <= 0:
                    die(death["die"])
                if all([call.done for call in calls]) and death is None:
                    return
                self._wait(_outputs(calls), left)
        except TurnCancelled:
            self._end(calls)
            raise

    def _begin(self, call: _DemoToolCall) -> None:
        asks = call.ask and call.name not in self._session.always
        input = {"command": call.command}
        self._session.add("call", id=call.id, name=call.name, input=input)
        self._server.update(
            self._session.id, tool_call(call.id, call.name, input, "pending" if asks else "in_progress")
        )
        if not asks:
            self._start(call)
            return
        self._session.add("ask", call=call.id)
        call_update = {"toolCallId": call.id, "title": call.name, "kind": "execute", "rawInput": input}
        call.request = self._server.ask(
            "session/request_permission",
            {"sessionId": self._session.id, "toolCall": call_update, "options": OPTIONS},
        )

    def _advance(self, call: _DemoToolCall) -> None:
        """Advance a call as far as possible without waiting."""
        if call.request is not None:
            self._on_answer(call, call.request)
        if call.child is not None and not call.done:
            call.child.poll()
            if call.child.exit is not None:
                well = call.child.exit == 0
                self._finish(call, "completed" if well else "failed", call.child.output)

    def _on_answer(self, call: _DemoToolCall, request: int) -> None:
        reply = self._server.answers.pop(request, None)
        if reply is None and self._server.connection.open:
            return
        call.request = None
        option = chosen(reply)
        self._session.add("answer", call=call.id, option=option)
        if option not in ("yes", "always"):
            why = "refused" if option == "no" else "no permission was given"
            self._finish(call, "failed", why)
            return
        if option == "always":
            self._session.always.add(call.name)
        self._server.update(
            self._session.id,
            {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": "in_progress"},
        )
        self._start(call)

    def _start(self, call: _DemoToolCall) -> None:
        try:
            call.child = ToolProcess(call.command, self._session.cwd)
        except OSError as problem:
            self._finish(call, "failed", f"cannot start: {problem}")

    def _finish(self, call: _DemoToolCall, status: str, output: str) -> None:
        call.done = True
        self._outcomes.append(status)
        code = None if call.child is None else call.child.exit
        self._session.add("result", call=call.id, status=status, exit=code, output=output)
        self._server.update(self._session.id, tool_result(call.id, status, code, output))

    def _end(self, calls: list[_DemoToolCall]) -> None:
        """Stop all running commands, SIGTERM first, and report each open call as failed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + GRACE_S
            for call in calls:
                if call.child is not None:
                    call.child.signal(number)
            while any([call.child is not None and call.child.exit is None for call in calls]):
                left = until - time.monotonic()
                if left <= 0 and number == signal.SIGTERM:
                    break
                self._server.listen(_outputs(calls), max(left, 0.01))
                for call in calls:
                    if call.child is not None:
                        call.child.poll()
        for call in calls:
            if not call.done:
                output = call.child.output if call.child is not None else ""
                self._finish(call, "failed", output + "cancelled")


def _outputs(calls: list[_DemoToolCall]) -> list[int]:
    return [call.child.fd for call in calls if call.child is not None and call.child.fd >= 0]


def chunk(spoken: bool, id: str, text: str) -> dict[str, Any]:
    """A chunk of a message or thought."""
    kind = "agent_message_chunk" if spoken else "agent_thought_chunk"
    return {"sessionUpdate": kind, "messageId": id, "content": {"type": "text", "text": text}}


def tool_call(id: str, name: str, input: Any, status: str) -> dict[str, Any]:
    """A call that starts."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": id,
        "title": name,
        "_meta": {"demo": {"toolName": name}},
        "kind": "execute",
        "status": status,
        "rawInput": input,
    }


def tool_result(id: str, status: str, code: int | None, output: str) -> dict[str, Any]:
    """A call that ended."""
    text = {"type": "text", "text": output}
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": id,
        "status": status,
        "content": [{"type": "content", "content": text}] if output else [],
        "rawOutput": {"exit_code": code, "output": output},
    }


def chosen(reply: dict[str, Any] | None) -> str | None:
    """The option that a reply to a permission request selects; None for any other reply."""
    result = (reply or {}).get("result")
    outcome = result.get("outcome") if type(result) is dict else None
    if type(outcome) is not dict or outcome.get("outcome") != "selected":
        return None
    option = outcome.get("optionId")
    return option if type(option) is str else None


def die(how: int | str) -> NoReturn:
    """Exit the way a crash would."""
    if type(how) is str:
        number = getattr(signal, f"SIG{how}")
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(60)
    os._exit(how if type(how) is int else 1)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
