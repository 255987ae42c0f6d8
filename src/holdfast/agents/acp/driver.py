"""How is an ACP agent driven? Initialize, open a session, send one prompt, wait for its answer."""

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
from holdfast.transcripts.jsonl import error, is_blank, notice_event, parse

VERSION = 1
# Gemini CLI 0.61.0 answers `session/load` first and replays after that; it lists its commands at the end of
# the replay (observed with 6,000 messages in a file). A prompt sent at once would be lost in the replay.
_REPLAYS_LATE = frozenset({"gemini-cli"})
# Kimi Code 2.1.0 answers `end_turn` even if the turn failed, and reports no reason. It counts as success only
# if text follows the last tool call.
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
        self._permissions = AcpPermissions(job.permissions)
        self.pending_permissions = self._permissions.open
        self.open_calls = self._updates.calls.open
        self._agent_name = ""  # as the agent reports it
        self._held_prompt: bytes | None = None  # the prompt, held back until a late replay is over
        self._listed_commands = False
        self._prompted = False
        self._interrupted = False

    def start_messages(self) -> DriverOutput:
        """Introduce ourselves. Without file and terminal capabilities the agent runs its tools itself.

        Our own version is not sent: after an upgrade the line would differ and be sent again.
        """
        params = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "holdfast", "version": "1"},
        }
        return DriverOutput(sends=[self._peer.request("initialize", params)])

    def on_line(self, line: bytes) -> DriverOutput:
        """Process one whole line of stdout, without its newline."""
        if is_blank(line):
            return DriverOutput()
        message = parse(line)
        if isinstance(message, NewEvent):
            return DriverOutput([message])
        method = message.get("method")
        if not isinstance(method, str):
            return self._on_response(message)
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if "id" not in message:
            return self._on_notification(method, params, message)
        request = message["id"]
        if method == "session/request_permission" and type(request) in (int, str):
            return self._on_permission_request(request, params)
        return DriverOutput(sends=[refuse(request, method)])

    def answer(self, ask: str, decision: Decision) -> DriverOutput:
        """Send an answer that is already in the log; a request that is not pending sends nothing."""
        return DriverOutput(sends=self._permissions.answer(ask, decision))

    def partial_text(self) -> tuple[str, str] | None:
        """See `Driver`."""
        return self._updates.partial_text()

    def interrupt(self) -> DriverOutput | None:
        """`session/cancel`, and `cancelled` for every pending request; None before the prompt."""
        if not self._prompted:
            return None
        if self._interrupted or self.final is not None:
            return DriverOutput()
        self._interrupted = True
        return DriverOutput(
            sends=[notify("session/cancel", {"sessionId": self.native_id}), *self._permissions.cancel()]
        )

    def on_eof(self) -> DriverOutput:
        """The partial text, and an end for each call that has none."""
        return DriverOutput([*self._updates.close(), *self._updates.calls.close(self._permissions.not_run())])

    # --- Responses to our requests

    def _on_response(self, message: dict[str, Any]) -> DriverOutput:
        method = self._peer.answered(message)
        if method is None:
            return DriverOutput(
                [notice_event("unknown_record", "a response without a request", record=message)]
            )
        if message.get("error") is not None:
            return DriverOutput(self._on_error(method, message["error"]))
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
        capabilities = result.get("agentCapabilities")
        offered = capabilities if isinstance(capabilities, dict) else {}
        listed = offered.get("sessionCapabilities")
        session = listed if isinstance(listed, dict) else {}
        if self._job.fork_of is not None:
            if session.get("fork") is None:
                return DriverOutput(self._fail("fork_failed", "the agent cannot fork a conversation"))
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
        return DriverOutput(self._fail("resume_failed", "the agent cannot resume a conversation"))

    def _prompt(self, method: str, result: dict[str, Any]) -> DriverOutput:
        asked = self._job.native_id if self._job.resume else None
        native_id = result.get("sessionId") or asked
        if method == "session/fork" and native_id == self._job.fork_of:
            return DriverOutput(
                self._fail("fork_failed", f"the agent resumed {native_id} instead of forking it")
            )
        if asked is not None and native_id != asked:
            return DriverOutput(
                self._fail("resume_failed", f"the agent opened {native_id} instead of {asked}")
            )
        if not isinstance(native_id, str) or not _is_id(native_id):
            return DriverOutput(self._fail("no_session", "the agent sent no session id"))
        self.native_id = self._origins.native_id = native_id
        token = SeeToken(agent=self._job.agent, native_id=native_id, protocol="acp", seen_in="stream")
        entries: list[Entry] = [token, *([] if asked is None else [resumed(native_id)])]
        prompt = [{"type": "text", "text": self._job.prompt}]
        line = self._peer.request("session/prompt", {"sessionId": native_id, "prompt": prompt})
        if method == "session/load" and self._agent_name in _REPLAYS_LATE and not self._listed_commands:
            self._held_prompt = line
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
        return not updates.did_anything or (not updates.has_text and self._agent_name in _SILENT_FAILURE)

    def _on_error(self, method: str, problem: Any) -> list[Entry]:
        if method in ("session/load", "session/resume"):
            # Never fall back to session/new in silence: that would lose the conversation.
            return self._fail("resume_failed", jsonrpc.error_text(problem))
        if method == "session/fork":
            return self._fail("fork_failed", jsonrpc.error_text(problem))
        entries = self._accept() if method == "session/prompt" and jsonrpc.was_accepted(problem) else []
        code = "auth_required" if jsonrpc.error_code(problem) == jsonrpc.AUTH_REQUIRED else "agent_error"
        return [*entries, *self._fail(code, jsonrpc.error_text(problem))]

    def _fail(self, code: str, text: str) -> list[Entry]:
        entries: list[Entry] = [*self._updates.flush(), error(code, text)]
        self._settle(text)
        return entries

    def _settle(self, reason: str | None, cancelled: bool = False) -> None:
        self.final = FinalResult(reason is None, reason, cancelled, self._usage(), self._updates.answer)

    def _usage(self) -> dict[str, Any]:
        usage = dict(self._updates.usage)
        if self._job.resume and "cost_usd" in usage:
            # ACP reports the cost of the whole conversation
            usage["session_cost_usd"] = usage.pop("cost_usd")
        return usage

    def _accept(self) -> list[Entry]:
        if self.accepted or not self._prompted:
            return []
        self.accepted = True
        return [NewEvent("user", {"text": self._job.prompt}, origin=self._origins.here("prompt", "0"))]

    # --- Notifications and requests of the agent

    def _on_notification(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> DriverOutput:
        if method != "session/update":
            # Methods with these prefixes are extensions; clients that do not know them ignore them.
            if method.startswith(("_", "$/")):
                return DriverOutput()
            return DriverOutput([notice_event("unknown_record", f"unknown method: {method}", record=message)])
        update = params.get("update")
        if not isinstance(update, dict):
            return DriverOutput([notice_event("unknown_record", "an update without content", record=message)])
        if not self._prompted:
            return self._on_replay(update)
        if params.get("sessionId") != self.native_id:
            return DriverOutput(
                [notice_event("other_session", "an update of another session", record=params)]
            )
        entries = self._accept() if shows_acceptance(update) else []
        entries += self._updates.on_update(update, self._interrupted)
        call = self._updates.calls.get(update.get("toolCallId"))
        if call is not None and call.ended:
            self._permissions.forget(call.id)
        if self.final is not None and update.get("sessionUpdate") == "usage_update":
            # Kimi reports its usage after its final answer.
            self.final = msgspec.structs.replace(self.final, usage=self._usage())
        return DriverOutput(entries)

    def _on_replay(self, update: dict[str, Any]) -> DriverOutput:
        """Updates before the prompt are history or menus; none of them is live."""
        self._listed_commands |= update.get("sessionUpdate") == "available_commands_update"
        if self._held_prompt is None or not self._listed_commands:
            return DriverOutput()
        line, self._held_prompt, self._prompted = self._held_prompt, None, True
        return DriverOutput(sends=[line])

    def _on_permission_request(self, request: int | str, params: dict[str, Any]) -> DriverOutput:
        call_update = params.get("toolCall")
        update = call_update if isinstance(call_update, dict) else {}
        entries: list[Entry] = [*self._accept(), *self._updates.flush()]
        entries += self._updates.calls.on_update(update, asked=True)
        call = self._updates.calls.get(update.get("toolCallId"))
        body, sends = self._permissions.add(request, params, call, self._interrupted)
        entries.append(NewEvent("permission", body, origin=self._origins.here("ask", body["ask"])))
        return DriverOutput(entries, sends)


def _is_id(value: str) -> bool:
    """Whether a text can be stored as a token."""
    try:
        check_plain("an id", value)
    except BadInput:
        return False
    return bool(value)
