"""Any agent that speaks ACP: initialize, a session, one prompt, its answer."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agents.acp import jsonrpc
from holdfast.agents.acp.content import AcpOrigins
from holdfast.agents.acp.jsonrpc import JsonRpcPeer, notify, refuse
from holdfast.agents.acp.permissions import AcpPermissions
from holdfast.agents.acp.updates import AcpUpdates, prompt_usage, shows_acceptance
from holdfast.agents.driver import AgentJob, Decision, DriverOutput, Entry, FinalResult, resumed
from holdfast.errors import BadInput
from holdfast.model.changes import SeeToken
from holdfast.model.event import NewEvent
from holdfast.model.json_codec import check_plain
from holdfast.transcripts.jsonl import error, is_blank, parse
from holdfast.transcripts.jsonl import notice_event as notice

VERSION = 1
# Gemini CLI 0.61.0 answers `session/load` first and replays after that; it tells its commands at the end
# of the replay (so it did with 6,000 messages into a file). A prompt sent at once would drown in the replay.
_REPLAYS_LATE = frozenset({"gemini-cli"})
# Kimi Code 2.1.0 answers `end_turn` also to a turn that failed, and tells nowhere why: its word counts only
# if something was said after the last tool.
_SILENT_FAILURE = frozenset({"Kimi Code CLI"})


class AcpDriver:
    """One prompt in one process of an ACP agent."""

    def __init__(self, job: AgentJob):
        self.final: FinalResult | None = None
        self.accepted = False
        self.native_id: str | None = None
        self._job = job
        self._peer = JsonRpcPeer()
        self._origins = AcpOrigins(job.agent, job.task)
        self._updates = AcpUpdates(self._origins)
        self._asks = AcpPermissions(job.permissions)
        self.asking = self._asks.open
        self.open_calls = self._updates.calls.open
        self._agent_name = ""  # as the agent tells it
        self._opening: bytes | None = None  # the prompt, while a late replay is waited for
        self._told_commands = False
        self._prompted = False
        self._interrupted = False

    def open(self) -> DriverOutput:
        """Say who we are; that we have neither files nor terminals to offer keeps tools in the agent.

        Our own version is not told: after an upgrade the line would be another one, and be sent again.
        """
        params = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "holdfast", "version": "1"},
        }
        return DriverOutput(sends=[self._peer.request("initialize", params)])

    def hear(self, line: bytes) -> DriverOutput:
        """Take one whole line of stdout, without its newline."""
        if is_blank(line):
            return DriverOutput()
        message = parse(line)
        if isinstance(message, NewEvent):
            return DriverOutput([message])
        method = message.get("method")
        if not isinstance(method, str):
            return self._hear_answer(message)
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if "id" not in message:
            return self._hear_notification(method, params, message)
        request = message["id"]
        if method == "session/request_permission" and type(request) in (int, str):
            return self._hear_request(request, params)
        return DriverOutput(sends=[refuse(request, method)])

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Say an answer that is in the log already; an ask that is not open gives nothing."""
        return DriverOutput(sends=self._asks.answer(ask, decision))

    def unfinished(self) -> tuple[str, str] | None:
        """See `Driver`."""
        return self._updates.unfinished()

    def interrupt(self) -> DriverOutput | None:
        """`session/cancel`, and `cancelled` to all that waits, as ACP wants; None before the prompt."""
        if not self._prompted:
            return None
        if self._interrupted or self.final is not None:
            return DriverOutput()
        self._interrupted = True
        return DriverOutput(
            sends=[notify("session/cancel", {"sessionId": self.native_id}), *self._asks.cancel()]
        )

    def close(self) -> DriverOutput:
        """What was half said, and an end for each call that has none."""
        return DriverOutput([*self._updates.close(), *self._updates.calls.close(self._asks.not_run())])

    # --- answers to us

    def _hear_answer(self, message: dict[str, Any]) -> DriverOutput:
        method = self._peer.answered(message)
        if method is None:
            return DriverOutput([notice("unknown_record", "a message that nobody asked for", record=message)])
        if message.get("error") is not None:
            return DriverOutput(self._hear_error(method, message["error"]))
        result = message.get("result")
        if not isinstance(result, dict):
            result = {}
        if method == "initialize":
            return self._begin(result)
        if method == "session/prompt":
            return DriverOutput(self._finish(result))
        return self._prompt(method, result)

    def _begin(self, result: dict[str, Any]) -> DriverOutput:
        version = result.get("protocolVersion")
        if version != VERSION:
            text = f"the agent speaks version {version} of ACP, not {VERSION}"
            return DriverOutput(self._fail("protocol_version", text))
        info = result.get("agentInfo")
        self._agent_name = str(info.get("name")) if isinstance(info, dict) else ""
        params: dict[str, Any] = {"cwd": self._job.cwd, "mcpServers": []}
        can = result.get("agentCapabilities")
        offered = can if isinstance(can, dict) else {}
        told = offered.get("sessionCapabilities")
        session = told if isinstance(told, dict) else {}
        if self._job.fork_of is not None:
            if session.get("fork") is None:
                return DriverOutput(
                    self._fail("fork_failed", "the agent offers no way to fork a conversation")
                )
            return DriverOutput(
                sends=[self._peer.request("session/fork", {"sessionId": self._job.fork_of, **params})]
            )
        if not self._job.resume:
            return DriverOutput(sends=[self._peer.request("session/new", params)])
        params = {"sessionId": self._job.native_id, **params}
        if session.get("resume") is not None:
            return DriverOutput(sends=[self._peer.request("session/resume", params)])
        if offered.get("loadSession") is True:
            return DriverOutput(sends=[self._peer.request("session/load", params)])
        return DriverOutput(
            self._fail("resume_failed", "the agent offers no way to go on with a conversation")
        )

    def _prompt(self, method: str, result: dict[str, Any]) -> DriverOutput:
        asked = self._job.native_id if self._job.resume else None
        native_id = result.get("sessionId") or asked
        if method == "session/fork" and native_id == self._job.fork_of:
            return DriverOutput(
                self._fail("fork_failed", f"the agent went on with {native_id} and did not fork it")
            )
        if asked is not None and native_id != asked:
            return DriverOutput(self._fail("resume_failed", f"the agent opened {native_id} and not {asked}"))
        if not isinstance(native_id, str) or not _is_id(native_id):
            return DriverOutput(self._fail("no_session", "the agent gave no id for the session"))
        self.native_id = self._origins.native_id = native_id
        seen = SeeToken(agent=self._job.agent, native_id=native_id, protocol="acp", seen_in="stream")
        entries: list[Entry] = [seen, *([] if asked is None else [resumed(native_id)])]
        prompt = [{"type": "text", "text": self._job.prompt}]
        line = self._peer.request("session/prompt", {"sessionId": native_id, "prompt": prompt})
        if method == "session/load" and self._agent_name in _REPLAYS_LATE and not self._told_commands:
            self._opening = line
            return DriverOutput(entries)
        self._prompted = True
        # Entries are committed before lines are sent: the token is durable before the first prompt.
        return DriverOutput(entries, [line])

    def _finish(self, result: dict[str, Any]) -> list[Entry]:
        entries: list[Entry] = [*self._accept(), *self._updates.flush()]
        stopped = result.get("stopReason")
        reason = None if stopped == "end_turn" else f"the agent stopped: {stopped}"
        if reason is None and self._is_silent():
            reason = "the agent ended its turn without an answer"
            entries.append(error("no_answer", reason))
        self._updates.usage.update(prompt_usage(result))
        self._settle(reason, cancelled=stopped == "cancelled")
        return entries

    def _is_silent(self) -> bool:
        updates = self._updates
        return not updates.did_anything or (not updates.spoke and self._agent_name in _SILENT_FAILURE)

    def _hear_error(self, method: str, told: Any) -> list[Entry]:
        if method in ("session/load", "session/resume"):
            # Never a silent session/new instead: that would lose the way back.
            return self._fail("resume_failed", jsonrpc.text_of(told))
        if method == "session/fork":
            return self._fail("fork_failed", jsonrpc.text_of(told))
        entries = self._accept() if method == "session/prompt" and jsonrpc.was_taken(told) else []
        code = "auth_required" if jsonrpc.number_of(told) == jsonrpc.AUTH_REQUIRED else "agent_error"
        return [*entries, *self._fail(code, jsonrpc.text_of(told))]

    def _fail(self, code: str, text: str) -> list[Entry]:
        entries: list[Entry] = [*self._updates.flush(), error(code, text)]
        self._settle(text)
        return entries

    def _settle(self, reason: str | None, cancelled: bool = False) -> None:
        self.final = FinalResult(reason is None, reason, cancelled, self._usage(), self._updates.answer)

    def _usage(self) -> dict[str, Any]:
        usage = dict(self._updates.usage)
        if self._job.resume and "cost_usd" in usage:
            usage["session_cost_usd"] = usage.pop("cost_usd")  # ACP tells it of the whole conversation
        return usage

    def _accept(self) -> list[Entry]:
        if self.accepted or not self._prompted:
            return []
        self.accepted = True
        return [NewEvent("user", {"text": self._job.prompt}, origin=self._origins.here("prompt", "0"))]

    # --- what the agent tells and asks

    def _hear_notification(
        self, method: str, params: dict[str, Any], message: dict[str, Any]
    ) -> DriverOutput:
        if method != "session/update":
            # Names that begin so are an adapter's own, to be ignored by those who do not know them.
            if method.startswith(("_", "$/")):
                return DriverOutput()
            return DriverOutput(
                [notice("unknown_record", f"a message not known here: {method}", record=message)]
            )
        update = params.get("update")
        if not isinstance(update, dict):
            return DriverOutput([notice("unknown_record", "an update that tells nothing", record=message)])
        if not self._prompted:
            return self._hear_replay(update)
        if params.get("sessionId") != self.native_id:
            return DriverOutput([notice("other_session", "an update of another session", record=params)])
        entries = self._accept() if shows_acceptance(update) else []
        entries += self._updates.hear(update, self._interrupted)
        call = self._updates.calls.get(update.get("toolCallId"))
        if call is not None and call.ended:
            self._asks.forget(call.id)
        if self.final is not None and update.get("sessionUpdate") == "usage_update":
            # Kimi tells its usage after its final answer.
            self.final = msgspec.structs.replace(self.final, usage=self._usage())
        return DriverOutput(entries)

    def _hear_replay(self, update: dict[str, Any]) -> DriverOutput:
        """What comes before the prompt is the past or a menu; none of it is live."""
        self._told_commands |= update.get("sessionUpdate") == "available_commands_update"
        if self._opening is None or not self._told_commands:
            return DriverOutput()
        line, self._opening, self._prompted = self._opening, None, True
        return DriverOutput(sends=[line])

    def _hear_request(self, request: int | str, params: dict[str, Any]) -> DriverOutput:
        told = params.get("toolCall")
        update = told if isinstance(told, dict) else {}
        entries: list[Entry] = [*self._accept(), *self._updates.flush()]
        entries += self._updates.calls.hear(update, asked=True)
        call = self._updates.calls.get(update.get("toolCallId"))
        body, sends = self._asks.add(request, params, call, self._interrupted)
        entries.append(NewEvent("permission", body, origin=self._origins.here("ask", body["ask"])))
        return DriverOutput(entries, sends)


def _is_id(value: str) -> bool:
    """Whether it can be kept as a token."""
    try:
        check_plain("an id", value)
    except BadInput:
        return False
    return bool(value)
