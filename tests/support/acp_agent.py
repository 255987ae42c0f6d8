"""A small agent on the official `agent-client-protocol` package; the prompt says what it does.

Words of the prompt, done in order: `say`, `think`, `tool`, `ask`, `sleep`, `file` (asks for a file, which
we do not offer), `fail`, `refuse`.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import acp
from acp import schema

OPTIONS = [
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]
CAPABLE = schema.AgentCapabilities(
    load_session=True,
    session_capabilities=schema.SessionCapabilities(resume=schema.SessionResumeCapabilities()),
)


class Agent:
    """Only what a client may ask of it."""

    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()
        self.count = itertools.count(1)

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **rest: Any) -> schema.InitializeResponse:
        info = schema.Implementation(name="judge", version="1")
        return schema.InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=CAPABLE, agent_info=info
        )

    async def new_session(self, cwd: str, **rest: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="sess-0123456789ab")

    async def resume_session(self, session_id: str, **rest: Any) -> schema.ResumeSessionResponse:
        if session_id != "sess-0123456789ab":
            raise acp.RequestError(-32002, "Resource not found", {"uri": session_id})
        return schema.ResumeSessionResponse()

    async def cancel(self, session_id: str, **rest: Any) -> None:
        self.cancelled.set()

    async def prompt(self, prompt: list[Any], session_id: str, **rest: Any) -> schema.PromptResponse:
        for word in prompt[0].text.split():
            reason = await getattr(self, f"_{word}")(session_id)
            if self.cancelled.is_set():
                return schema.PromptResponse(stop_reason="cancelled")
            if reason is not None:
                return schema.PromptResponse(stop_reason=reason)
        return schema.PromptResponse(stop_reason="end_turn")

    async def _tell(self, session: str, update: Any) -> None:
        await self.client.session_update(session_id=session, update=update)

    async def _say(self, session: str) -> None:
        for piece in ("Hello ", "from ", "the agent."):
            await self._tell(session, acp.update_agent_message(acp.text_block(piece)))

    async def _think(self, session: str) -> None:
        await self._tell(session, acp.update_agent_thought(acp.text_block("Let me see.")))

    async def _tool(self, session: str, ask: bool = False) -> None:
        call = f"call_{next(self.count)}"
        given = {"command": "echo hi"}
        await self._tell(session, acp.start_tool_call(call, "echo hi", kind="execute", status="pending"))
        if ask:
            asked = schema.ToolCallUpdate(tool_call_id=call, title="echo hi", raw_input=given)
            answer = await self.client.request_permission(
                session_id=session, tool_call=asked, options=OPTIONS
            )
            said = answer.outcome
            if said.outcome != "selected" or said.option_id != "yes":
                told = said.outcome if said.outcome != "selected" else said.option_id
                await self._tell(
                    session, acp.update_tool_call(call, status="failed", raw_output=f"told {told}")
                )
                return
        await self._tell(session, acp.update_tool_call(call, status="in_progress", raw_input=given))
        shown = [acp.tool_content(acp.text_block("hi\n"))]
        await self._tell(session, acp.update_tool_call(call, status="completed", content=shown))

    async def _ask(self, session: str) -> None:
        await self._tool(session, ask=True)

    async def _sleep(self, session: str) -> None:
        call = f"call_{next(self.count)}"
        await self._tell(session, acp.start_tool_call(call, "sleep 60", kind="execute", status="in_progress"))
        await asyncio.wait_for(self.cancelled.wait(), 60)
        await self._tell(session, acp.update_tool_call(call, status="completed", raw_output="stopped"))

    async def _file(self, session: str) -> None:
        try:
            await self.client.read_text_file(session_id=session, path="/etc/hostname")
        except acp.RequestError as problem:
            await self._tell(session, acp.update_agent_message(acp.text_block(f"refused: {problem.code}")))

    async def _fail(self, session: str) -> None:
        raise acp.RequestError(-32603, "Internal error", {"details": "the model is away"})

    async def _refuse(self, session: str) -> str:
        return "refusal"


async def main() -> None:
    await acp.run_agent(Agent(), use_unstable_protocol=True)  # type: ignore[arg-type]  # it has what is asked of it


if __name__ == "__main__":
    asyncio.run(main())
