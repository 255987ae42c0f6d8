"""Holdfast as the session store of the Claude Agent SDK (extra `claude`)."""

from __future__ import annotations

from holdfast.claude_sdk.session_store import SessionStore

try:
    import claude_agent_sdk as _sdk  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "claude_agent_sdk":
        raise
    raise ModuleNotFoundError(
        "holdfast.claude_sdk needs the Claude Agent SDK: pip install 'holdfast-hub[claude]'",
        name=missing.name,
    ) from missing

__all__ = ["SessionStore"]
